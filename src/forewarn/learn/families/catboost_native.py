"""CatBoost's symmetric trees, walked by NumPy: for answering only, from any number of threads at once.

All trees ask at once: every question of a row is answered, and the answers of a tree's questions, as bits, are the
place of its leaf. That is quicker for one row than the way through CatBoost's `Pool` (0.7 ms), and needs neither
its import nor its 270 MB of code.

Contributions are exact Shapley values of the same game that CatBoost plays (path-dependent TreeSHAP): what is not
known of a row is averaged over the training rows that came to a node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property, lru_cache
from math import factorial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.families.catboost_file import read_catboost

Values = NDArray[np.float32]
Floats = NDArray[np.float64]
Places = NDArray[np.int64]
_ROWS = 512  # rows walked at a time, for the processor's cache
_AT_ONCE = 1 << 21  # numbers that Shapley values are computed from at a time


class CatboostTrees:
    """A fitted model, which no call changes."""

    def __init__(self, model: bytes, categorical: Collection[int] = (), threads: int = 1) -> None:  # noqa: ARG002
        """Read CatBoost's own binary; `categorical`: which columns of the rows CatBoost was given last.

        Raises `LibraryError` for what is no such model.
        """
        self._bytes = model
        self._file = file = read_catboost(model)
        self.features, self.rounds = file.features, len(file.depths)
        # CatBoost was given the numbers first: back to the order of the rows.
        order = [place for place in range(self.features) if place not in categorical] + sorted(categorical)
        used, splits = np.unique(file.splits, return_inverse=True)
        self._columns = np.array(order, np.int64)[file.columns[used]]
        self._values = file.values[used][:, None]
        self._numbers = int(np.searchsorted(used, file.numbers))
        self._starts = np.concatenate([[0], np.cumsum(1 << file.depths)[:-1]]).astype(np.int64)
        self._deepest = int(file.depths.max(initial=0))
        # All trees as deep as the deepest: the last question is one that nobody affirms.
        self._splits = np.full((self._deepest, self.rounds), len(used))
        firsts = np.cumsum(file.depths) - file.depths
        for level in range(self._deepest):
            there = np.flatnonzero(file.depths > level)
            self._splits[level, there] = splits[firsts[there] + level]

    def margins(self, values: Values) -> Floats:
        """Sum the leaves of rows."""
        made = np.empty(len(values))
        for begin in range(0, len(values), _ROWS):
            leaves = self._file.leaves[self._starts[:, None] + self._leaves_of(values[begin : begin + _ROWS])]
            # Tree after tree, for one row as for many: a plain sum of one row adds in another order.
            total = np.add.accumulate(leaves, axis=0)[-1] if self.rounds else 0.0
            made[begin : begin + _ROWS] = self._file.scale * total + self._file.bias
        return made

    def contributions(self, values: Values) -> Floats:
        """Compute what each column brought to a row's margin (exact TreeSHAP), the bias last."""
        made = np.zeros((len(values), self.features + 1))
        for begin in range(0, len(values), _ROWS):
            leaves = self._leaves_of(values[begin : begin + _ROWS])
            part = made[begin : begin + _ROWS]
            for group in self._groups:
                group.add_to(part, leaves)
        made[:, :-1] *= self._file.scale
        made[:, -1] = self._file.scale * made[:, -1] + self._file.bias
        return made

    def gains(self) -> Floats:
        """Sum by how much predictions change with a column: CatBoost keeps no gains."""
        made = np.zeros(self.features)
        for group in self._groups:
            np.add.at(made, group.columns[:, group.feature_of], group.changes())
        return made

    def save(self, path: Path) -> None:
        """Write the file as it was read."""
        path.write_bytes(self._bytes)

    def _leaves_of(self, values: Values) -> Places:
        """Find the leaf of each row in each tree (tree × row), counted from the tree's first."""
        asked = np.ascontiguousarray(values.T)[self._columns]
        answers = np.zeros((len(asked) + 1, len(values)), np.int64)
        answers[: self._numbers] = asked[: self._numbers] > self._values[: self._numbers]
        codes = np.trunc(np.nan_to_num(asked[self._numbers :], nan=-1))
        answers[self._numbers : -1] = codes == self._values[self._numbers :]
        found = np.zeros((self.rounds, len(values)), np.int64)
        for level, splits in enumerate(self._splits):
            found |= answers[splits] << level
        return found

    @cached_property
    def _groups(self) -> list[_Group]:
        return list(self._grouped())

    def _grouped(self) -> Iterator[_Group]:
        """Put trees together that ask about as many features, in the same order of features."""
        found: dict[tuple[int, ...], list[int]] = {}
        for tree in range(self.rounds):
            columns = self._columns[self._splits[: self._file.depths[tree], tree]].tolist()
            features = list(dict.fromkeys(columns))
            found.setdefault(tuple(map(features.index, columns)), []).append(tree)
        for pattern, trees in found.items():
            which, depth = np.array(trees), len(pattern)
            places = self._starts[which][:, None] + np.arange(1 << depth)
            firsts = [pattern.index(feature) for feature in range(len(set(pattern)))]
            columns = self._columns[self._splits[firsts][:, which]].T.reshape(len(which), len(firsts))
            yield _Group(pattern, which, columns, self._file.leaves[places], self._file.weights[places])


class _Group(NamedTuple):
    """Trees of one shape: their questions, in order, are about the same of their features."""

    pattern: tuple[int, ...]  # question → which of a tree's features it asks about
    trees: Places
    columns: Places  # tree × feature
    values: Floats  # tree × leaf
    weights: Floats

    @property
    def feature_of(self) -> list[int]:
        """Which feature each question is about."""
        return list(self.pattern)

    def add_to(self, made: Floats, leaves: Places) -> None:
        """Add what each column brought to rows in these leaves (of all trees × row), and the mean at the end."""
        found = leaves[self.trees]
        count = 1 << len(self.pattern)
        whole = found.shape[1] > count  # then it is quicker to know it of every leaf
        step = max(1, _AT_ONCE // (count * (count if whole else found.shape[1])))
        for begin in range(0, len(self.trees), step):
            some = slice(begin, begin + step)
            here = found[some]
            if whole:
                every = np.broadcast_to(np.arange(count), (len(here), count))
                shapley = np.take_along_axis(self._shapley(some, every), here[:, :, None], axis=1)
            else:
                shapley = self._shapley(some, here)
            made[:, -1] += shapley[:, :, -1].sum(axis=0)
            columns = self.columns[some].ravel()
            order = np.argsort(columns, kind="stable")
            by_column = shapley[:, :, :-1].transpose(0, 2, 1).reshape(len(columns), len(made))[order]
            firsts = np.flatnonzero(np.diff(columns[order], prepend=-1))
            if len(firsts):
                made[:, columns[order][firsts]] += np.add.reduceat(by_column, firsts, axis=0).T

    def changes(self) -> Floats:
        """Compute by how much leaves that one question parts differ, weighted by their rows: tree × question."""
        made = np.zeros((len(self.trees), len(self.pattern)))
        for level in range(len(self.pattern)):
            pairs = (len(self.trees), -1, 2, 1 << level)
            value, weight = self.values.reshape(pairs), self.weights.reshape(pairs)
            mean = _mean(value, weight)[:, :, None]
            made[:, level] = ((value - mean) ** 2 * weight).sum(axis=(1, 2, 3))
        return made

    def _shapley(self, some: slice, leaves: Places) -> Floats:
        """Compute what each feature brings to rows in these leaves, and last the mean of all rows."""
        trees, rows = leaves.shape
        weights = self.weights[some]
        # What a tree says where the questions of a set are answered and the others are averaged over: from the
        # last question that is asked, the lowest bit, up to the first. Axes: tree, row, node, set of questions.
        value = np.broadcast_to(self.values[some][:, None, :, None], (trees, rows, weights.shape[1], 1))
        for level in range(len(self.pattern)):
            pairs = value.reshape(trees, rows, -1, 2, value.shape[-1])
            weight = weights.reshape(trees, 1, -1, 2, 1)
            right = ((leaves >> level) & 1)[:, :, None, None, None]
            answered = np.where(right[..., 0], pairs[:, :, :, 1], pairs[:, :, :, 0])
            value = np.concatenate([_mean(pairs, weight, axis=3), answered], axis=-1)
            weights = weights.reshape(trees, -1, 2).sum(axis=2)
        return np.einsum("trs,sf->trf", value[:, :, 0], _shapley_weights(self.pattern))


def _mean(values: Floats, weights: Floats, axis: int = 2) -> Floats:
    """Average both sides of a question by their rows; 0 where no row came."""
    total = weights.sum(axis=axis)
    return np.asarray((values * weights).sum(axis=axis) / np.where(total > 0, total, 1.0))


@lru_cache(maxsize=1024)
def _shapley_weights(pattern: tuple[int, ...]) -> Floats:
    """How much what a tree says with a set of questions answered counts for each feature; last, for the mean."""
    features = max(pattern, default=-1) + 1
    made = np.zeros((1 << len(pattern), features + 1))
    made[0, -1] = 1.0
    questions = [
        sum(1 << level for level, asked in enumerate(pattern) if asked == feature)
        for feature in range(features)
    ]
    for known in range(1 << features):
        there = [feature for feature in range(features) if known >> feature & 1]
        place = sum(questions[feature] for feature in there)
        for feature in range(features):
            others = len(there) - (feature in there)
            weight = factorial(others) * factorial(features - others - 1) / factorial(features)
            made[place, feature] += weight if feature in there else -weight
    return made
