"""A random forest, grown by LightGBM: each tree on its own rows and columns, their log odds averaged.

Measured on three logs, LightGBM's forest and XGBoost's rank jobs equally well (and as well as boosting).
LightGBM's grows tree by tree, so it can be stopped early, and its leaves can be rewritten.

LightGBM stores one Newton step from the base rate in each leaf, which is linear in the leaf's failure rate,
not in its log odds. So the leaves are rewritten as the log odds of their rate. Margins are then the log odds
that the contract requires (log loss 0.007 to 0.022 lower than with the steps), and still a plain sum over
trees, so that TreeSHAP stays exact.

More trees do no harm, so all are kept: at which tree the validation was best is chance, and keeping only the
trees up to that one cost 0.003 of ROC-AUC on the mean of four logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.matrix import Matrix, Sample
from forewarn.learn.families.base import FloatRange, IntRange, Params, Range, finite, probabilities
from forewarn.learn.families.lightgbm import LightgbmFamily, dataset, options
from forewarn.learn.families.native import EarlyStopping, NativeModel

if TYPE_CHECKING:
    import lightgbm

_EDGE = (
    1e-3  # leaf rates are clipped to this distance from 0 and 1, after `lambda_l2` has shrunk small leaves
)


class ForestModel(NativeModel):
    """A forest, whose margin is the mean over its trees; LightGBM computes the sum."""

    def margins(self, matrix: Matrix) -> NDArray[np.float64]:
        """Average the trees' log odds."""
        return super().margins(matrix) / self.rounds

    def contributions(self, matrix: Matrix) -> NDArray[np.float64]:
        """Average the trees' contributions."""
        return super().contributions(matrix) / self.rounds


class ForestFamily(LightgbmFamily):
    """Random forests of LightGBM trees."""

    name: ClassVar[str] = "forest"
    model: ClassVar[type[NativeModel]] = ForestModel
    defaults: ClassVar[Params] = {
        "rounds": 150,
        "num_leaves": 96,
        "bagging_fraction": 0.6,
        "bagging_freq": 1,
        "feature_fraction_bynode": 0.25,
        "min_data_in_leaf": 80,
        "lambda_l2": 0.5,
        "max_bin": 127,
    }
    space: ClassVar[Mapping[str, Range]] = {
        "num_leaves": IntRange(16, 400, log=True),
        "bagging_fraction": FloatRange(0.3, 0.8),
        "feature_fraction_bynode": FloatRange(0.08, 0.7, log=True),
        "min_data_in_leaf": IntRange(10, 300, log=True),
        "lambda_l2": FloatRange(0.1, 20.0, log=True),
    }

    def boost(
        self,
        train: Sample,
        params: Params,
        seed: int,
        threads: int,
        validation: Sample | None,
        stopping: EarlyStopping,
    ) -> tuple[bytes, int]:
        """Grow the trees one by one, each from the base rate."""
        import lightgbm

        settings = options({"boosting": "rf", "metric": "none", **params}, seed, threads, len(train))
        rounds = int(settings.pop("rounds"))
        booster = lightgbm.Booster(settings, dataset(train, settings))
        base = float(np.average(train.fails, weights=train.weights))
        held = validation and finite(validation.matrix.values)
        total = np.zeros(len(validation or ()))
        for tree in range(rounds):
            booster.update()
            _as_log_odds(booster, tree, base)
            if validation is not None:
                total += booster.predict(held, tree, 1, raw_score=True, num_threads=threads)
                if stopping.should_stop(tree + 1, _loss(total / (tree + 1), validation)):
                    break
        grown = booster.num_trees()
        return booster.model_to_string(num_iteration=grown).encode(), grown


def _as_log_odds(booster: lightgbm.Booster, tree: int, base: float) -> None:
    """Rewrite the leaves of a tree as log odds. Later trees do not change: all start from the base rate."""
    start, slope = np.log(base / (1 - base)), base * (1 - base)
    leaves = booster.dump_model(1, tree)["tree_info"][0]["num_leaves"]
    for leaf in range(leaves):
        rate = base + (booster.get_leaf_output(tree, leaf) - start) * slope if leaves > 1 else base
        rate = min(max(rate, _EDGE), 1 - _EDGE)
        booster.set_leaf_output(tree, leaf, np.log(rate / (1 - rate)))


def _loss(margins: NDArray[np.float64], sample: Sample) -> float:
    p = np.where(sample.fails > 0, probabilities(margins), probabilities(-margins))
    return float(-np.average(np.log(p), weights=sample.weights))


FAMILY = ForestFamily()
