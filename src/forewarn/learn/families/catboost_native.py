"""CatBoost's symmetric trees, walked by NumPy: for answering only, from any number of threads at once.

All trees ask at once: every question of a row is answered, and the answers to a tree's questions, as bits,
are the place of its leaf. For one row that is quicker than the way through CatBoost's `Pool` (0.7 ms), and
needs neither its import nor its 270 MB of code. The sums are CatBoost's to the last bit.

Contributions are exact Shapley values of the same game that CatBoost plays (path-dependent TreeSHAP): what is
not known of a row is averaged over the training rows that came to a node.
"""

from __future__ import annotations

from collections.abc import Collection
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
_ROWS = 1024  # rows walked at a time, for the processor's cache
_AT_ONCE = 1 << 21  # numbers that Shapley values are computed from at a time


class CatboostTrees:
    """A fitted model, which no call changes."""

    def __init__(self, model: bytes, categorical: Collection[int] = (), threads: int = 1) -> None:  # noqa: ARG002
        """Read CatBoost's own binary; CatBoost was given the columns `categorical` after all others.

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
            np.add.at(made, group.columns, group.changes())
        return made

    def save(self, path: Path) -> None:
        """Write the file as it was read."""
        path.write_bytes(self._bytes)

    def _leaves_of(self, values: Values) -> NDArray[np.uint16]:
        """Find the leaf of each row in each tree (tree × row), counted from the tree's first."""
        asked = np.ascontiguousarray(values.T)[self._columns]
        answers = np.zeros((len(asked) + 1, len(values)), np.uint16)
        answers[: self._numbers] = asked[: self._numbers] > self._values[: self._numbers]
        codes = np.trunc(np.nan_to_num(asked[self._numbers :], nan=-1))
        answers[self._numbers : -1] = codes == self._values[self._numbers :]
        found = np.zeros((self.rounds, len(values)), np.uint16)
        for level, splits in enumerate(self._splits):
            found |= answers[splits] << level
        return found

    @cached_property
    def _groups(self) -> tuple[_Group, ...]:
        """Put trees of the same depth together."""
        return tuple(map(self._group, np.unique(self._file.depths).tolist()))

    def _group(self, depth: int) -> _Group:
        trees = np.flatnonzero(self._file.depths == depth)
        leaves = self._starts[trees][:, None] + np.arange(1 << depth)
        columns = self._columns[self._splits[:depth, trees].T]
        shares = np.stack([_shapley_weights(tuple(row.index(c) for c in row)) for row in columns.tolist()])
        return _Group(trees, columns, self._file.leaves[leaves], self._file.weights[leaves], shares)


class _Group(NamedTuple):
    """Trees that are equally deep."""

    trees: Places
    columns: Places  # tree × question
    values: Floats  # tree × leaf
    weights: Floats
    shares: Floats  # tree × set of questions × (question, and last the mean): `_shapley_weights`

    def add_to(self, made: Floats, leaves: NDArray[np.uint16]) -> None:
        """Add what each column brought to rows in these leaves (tree × row), and the mean at the end."""
        rows, count = leaves.shape[1], self.values.shape[1]
        known = rows > count  # then it is quicker to know it of every leaf
        step = max(1, _AT_ONCE // (count * min(rows, count)))
        for begin in range(0, len(self.trees), step):
            some = slice(begin, begin + step)
            here = leaves[self.trees[some]].astype(np.int64)
            if known:
                every = np.broadcast_to(np.arange(count), (len(here), count))
                shapley = np.take_along_axis(self._shapley(some, every), here[:, :, None], axis=1)
            else:
                shapley = self._shapley(some, here)
            made[:, -1] += shapley[:, :, -1].sum(axis=0)
            columns = self.columns[some].ravel()
            order = np.argsort(columns, kind="stable")
            firsts = np.flatnonzero(np.diff(columns[order], prepend=-1))
            if len(firsts):
                by_question = shapley[:, :, :-1].transpose(0, 2, 1).reshape(len(columns), rows)
                made[:, columns[order][firsts]] += np.add.reduceat(by_question[order], firsts, axis=0).T

    def changes(self) -> Floats:
        """Compute by how much leaves that a question parts differ, by their rows: tree × question."""
        made = np.zeros(self.columns.shape)
        for level in range(self.columns.shape[1]):
            pairs = (len(self.trees), -1, 2, 1 << level)
            value, weight = self.values.reshape(pairs), self.weights.reshape(pairs)
            mean = _mean(value, weight, axis=2)[:, :, None]
            made[:, level] = ((value - mean) ** 2 * weight).sum(axis=(1, 2, 3))
        return made

    def _shapley(self, some: slice, leaves: Places) -> Floats:
        """Compute what each question brings to rows in these leaves, and last the mean of all rows.

        Where two questions are about one feature, the first of them brings it all.
        """
        trees, rows = leaves.shape
        weights = self.weights[some]
        # What a tree says where the questions of a set are answered and the others averaged over: from the
        # last question that is asked, the lowest bit, up to the first. Axes: tree, row, node, set.
        value = np.broadcast_to(self.values[some][:, None, :, None], (trees, rows, weights.shape[1], 1))
        for level in range(self.columns.shape[1]):
            sides = weights.reshape(trees, -1, 2)
            weights = sides.sum(axis=2)
            part = sides / np.where(weights > 0, weights, 1.0)[:, :, None]
            left, right = value[:, :, ::2], value[:, :, 1::2]
            mean = left * part[:, None, :, :1] + right * part[:, None, :, 1:]
            is_right = ((leaves >> level) & 1).astype(np.bool_)[:, :, None, None]
            value = np.concatenate([mean, np.where(is_right, right, left)], axis=-1)
        return np.asarray(value[:, :, 0] @ self.shares[some])


def _mean(values: Floats, weights: Floats, axis: int) -> Floats:
    """Average both sides of a question by their rows; 0 where no row came."""
    total = weights.sum(axis=axis)
    return np.asarray((values * weights).sum(axis=axis) / np.where(total > 0, total, 1.0))


@lru_cache(maxsize=1024)
def _shapley_weights(firsts: tuple[int, ...]) -> Floats:
    """Tell how much what a tree says with a set of questions answered counts for each; last, for the mean.

    `firsts` names, for each question, the first one about the same feature.
    """
    made = np.zeros((1 << len(firsts), len(firsts) + 1))
    made[0, -1] = 1.0
    features = sorted(set(firsts))
    bits = [sum(1 << place for place, first in enumerate(firsts) if first == one) for one in features]
    for known in range(1 << len(features)):
        there = [known >> place & 1 for place in range(len(features))]
        of_set = sum(bit for bit, is_there in zip(bits, there, strict=True) if is_there)
        for feature, is_there in zip(features, there, strict=True):
            others = sum(there) - is_there
            weight = factorial(others) * factorial(len(features) - others - 1) / factorial(len(features))
            made[of_set, feature] += weight if is_there else -weight
    return made
