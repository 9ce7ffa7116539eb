"""The trees of a hazard model as arrays, for the compiled walk over all bins of a job at once (`kernel/`).

XGBoost takes a row for each bin, and 8 times as long (64 jobs, 51 bins: 35 and 43 µs a job for run time and
memory, against 5 and 4). The margins are the same to the last bit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.families.xgboost_native import XgboostTrees
from forewarn.learn.heads.usage.kernel.walk import walk

Floats32 = NDArray[np.float32]
Ints32 = NDArray[np.int32]


class BinTrees(NamedTuple):
    """The nodes of all trees, side by side."""

    roots: Ints32
    columns: Ints32  # that a node splits by; -1: a leaf
    conditions: Floats32  # smaller values go left; of a leaf: its value
    lefts: Ints32
    rights: Ints32
    to_left: NDArray[np.bool_]  # missing values go left
    base: np.float32  # to which the leaves are added
    features: int  # columns of a row: the job's, the bin, the distances

    @classmethod
    def of(cls, trees: XgboostTrees) -> Self:
        """Read the trees of a booster with one output; raise `ValueError` for nodes that end nowhere."""
        learner = trees.to_json()["learner"]
        found: Sequence[Mapping[str, Any]] = learner["gradient_booster"]["model"]["trees"]
        sizes = [len(tree["left_children"]) for tree in found]
        roots = np.cumsum([0, *sizes])[:-1]
        offsets = np.repeat(roots, sizes)
        lefts, rights = (
            _joined(found, name, np.int64) + offsets for name in ("left_children", "right_children")
        )
        is_leaf = _joined(found, "left_children", np.int64) < 0
        columns = np.where(is_leaf, -1, _joined(found, "split_indices", np.int64))
        # Compiled code checks no bounds: every walk must end, inside of the arrays.
        nodes, last = np.arange(len(lefts)), np.repeat(roots + sizes, sizes)
        is_sound = is_leaf | ((nodes < lefts) & (lefts < last) & (nodes < rights) & (rights < last))
        if not is_sound.all() or (columns >= trees.features).any() or 0 in sizes:
            raise ValueError("trees whose nodes are not in order")
        return cls(
            *(
                roots.astype(np.int32),
                columns.astype(np.int32),
                _joined(found, "split_conditions", np.float32),
            ),
            *(lefts.astype(np.int32), rights.astype(np.int32), _joined(found, "default_left", np.bool_)),
            _log_odds(learner["learner_model_param"]["base_score"]),
            trees.features,
        )

    def margins(self, values: Floats32, anchors: Floats32, borders: Floats32) -> Floats32:
        """Compute the margin of each job in each bin; `borders` are the upper ones."""
        if values.shape[1] + 1 + anchors.shape[1] != self.features:  # compiled code checks no bounds
            raise ValueError(f"{values.shape[1]} columns and {anchors.shape[1]} anchors")
        margins = np.full((len(values), len(borders)), self.base, np.float32)
        walk(*self[:-2], np.ascontiguousarray(values), np.ascontiguousarray(anchors), borders, margins)
        return margins


def _joined(trees: Sequence[Mapping[str, Any]], name: str, dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *(np.array(tree[name], dtype) for tree in trees)])


def _log_odds(base_score: str) -> np.float32:
    """Convert the base score as XGBoost does, in single precision; versions before 3.1 write no list.

    >>> _log_odds("[5E-1]"), _log_odds("5E-1")
    (np.float32(-0.0), np.float32(-0.0))
    """
    read = json.loads(base_score)
    score = np.float32(read[0] if isinstance(read, list) else read)
    return np.float32(-math.log(np.float32(1) / score - np.float32(1)))
