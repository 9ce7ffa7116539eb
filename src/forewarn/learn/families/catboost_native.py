"""CatBoost's symmetric trees, evaluated by NumPy: for predictions only, from any number of threads at once.

All trees are evaluated at once: every question of the model is answered for a row, and the answers to a
tree's questions, as bits, are the place of its leaf. For one row this is faster than CatBoost's `Pool` (0.7
ms), and needs neither its import nor its 270 MB of code. The sums equal CatBoost's to the last bit.

Contributions are exact Shapley values by CatBoost's definition (path-dependent TreeSHAP): an unknown value of
a row is averaged over the training rows that reached the node.
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

Floats32 = NDArray[np.float32]
Floats = NDArray[np.float64]
Places = NDArray[np.int64]
_ROWS = 1024  # rows evaluated at a time, to fit into the processor's cache
_AT_ONCE = 1 << 21  # intermediate numbers held at a time for Shapley values


class CatboostTrees:
    """The trees of a fitted model, which no call changes."""

    def __init__(self, model: bytes, categorical: Collection[int] = (), threads: int = 1) -> None:  # noqa: ARG002
        """Read CatBoost's binary format. At the fit, the columns `categorical` came after all others.

        Raises `LibraryError` for data that is no such model.
        """
        self._bytes = model
        self._file = file = read_catboost(model)
        self.features, self.rounds = file.features, len(file.depths)
        # At the fit the numbers came first: restore the order of the matrix.
        order = [place for place in range(self.features) if place not in categorical] + sorted(categorical)
        used, splits = np.unique(file.splits, return_inverse=True)
        self._columns = np.array(order, np.int64)[file.columns[used]]
        self._values = file.values[used][:, None]
        self._numbers = int(np.searchsorted(used, file.numbers))
        self._starts = np.concatenate([[0], np.cumsum(1 << file.depths)[:-1]]).astype(np.int64)
        self._deepest = int(file.depths.max(initial=0))
        # Shallow trees are padded to the depth of the deepest by a question whose answer is always no.
        self._splits = np.full((self._deepest, self.rounds), len(used))
        firsts = np.cumsum(file.depths) - file.depths
        for level in range(self._deepest):
            trees = np.flatnonzero(file.depths > level)
            self._splits[level, trees] = splits[firsts[trees] + level]

    def margins(self, values: Floats32) -> Floats:
        """Compute the margin of each row."""
        margins = np.empty(len(values))
        for begin in range(0, len(values), _ROWS):
            leaves = self._file.leaves[self._starts[:, None] + self._leaves_of(values[begin : begin + _ROWS])]
            # Accumulate tree by tree: a plain sum would add in another order for one row than for many.
            total = np.add.accumulate(leaves, axis=0)[-1] if self.rounds else 0.0
            margins[begin : begin + _ROWS] = self._file.scale * total + self._file.bias
        return margins

    def contributions(self, values: Floats32) -> Floats:
        """Compute the contribution of each column to a row's margin (exact TreeSHAP), the bias last."""
        contributions = np.zeros((len(values), self.features + 1))
        for begin in range(0, len(values), _ROWS):
            leaves = self._leaves_of(values[begin : begin + _ROWS])
            part = contributions[begin : begin + _ROWS]
            for group in self._groups:
                group.add_to(part, leaves)
        contributions[:, :-1] *= self._file.scale
        contributions[:, -1] = self._file.scale * contributions[:, -1] + self._file.bias
        return contributions

    def gains(self) -> Floats:
        """Sum the changes of the prediction by each column; CatBoost stores no gains."""
        gains = np.zeros(self.features)
        for group in self._groups:
            np.add.at(gains, group.columns, group.changes())
        return gains

    def save(self, path: Path) -> None:
        """Write the file as it was read."""
        path.write_bytes(self._bytes)

    def _leaves_of(self, values: Floats32) -> NDArray[np.uint16]:
        """Find the leaf of each row in each tree (tree × row), counted from the tree's first."""
        split_values = np.ascontiguousarray(values.T)[self._columns]
        answers = np.zeros((len(split_values) + 1, len(values)), np.uint16)
        answers[: self._numbers] = split_values[: self._numbers] > self._values[: self._numbers]
        codes = np.trunc(np.nan_to_num(split_values[self._numbers :], nan=-1))
        answers[self._numbers : -1] = codes == self._values[self._numbers :]
        leaves = np.zeros((self.rounds, len(values)), np.uint16)
        for level, splits in enumerate(self._splits):
            leaves |= answers[splits] << level
        return leaves

    @cached_property
    def _groups(self) -> tuple[_Group, ...]:
        """The trees, grouped by depth."""
        return tuple(map(self._group, np.unique(self._file.depths).tolist()))

    def _group(self, depth: int) -> _Group:
        trees = np.flatnonzero(self._file.depths == depth)
        leaves = self._starts[trees][:, None] + np.arange(1 << depth)
        columns = self._columns[self._splits[:depth, trees].T]
        shares = np.stack([_shapley_weights(tuple(row.index(c) for c in row)) for row in columns.tolist()])
        return _Group(trees, columns, self._file.leaves[leaves], self._file.weights[leaves], shares)


class _Group(NamedTuple):
    """Trees of equal depth."""

    trees: Places
    columns: Places  # tree × question
    values: Floats  # tree × leaf
    weights: Floats
    shares: Floats  # tree × set of questions × (question, and last the mean): `_shapley_weights`

    def add_to(self, contributions: Floats, leaves: NDArray[np.uint16]) -> None:
        """Add the contributions for rows in these leaves (tree × row); the mean goes to the last column."""
        rows, count = leaves.shape[1], self.values.shape[1]
        by_leaf = rows > count  # then it is faster to compute the values of every leaf once
        step = max(1, _AT_ONCE // (count * min(rows, count)))
        for begin in range(0, len(self.trees), step):
            some = slice(begin, begin + step)
            row_leaves = leaves[self.trees[some]].astype(np.int64)
            if by_leaf:
                every = np.broadcast_to(np.arange(count), (len(row_leaves), count))
                shapley = np.take_along_axis(self._shapley(some, every), row_leaves[:, :, None], axis=1)
            else:
                shapley = self._shapley(some, row_leaves)
            contributions[:, -1] += shapley[:, :, -1].sum(axis=0)
            columns = self.columns[some].ravel()
            order = np.argsort(columns, kind="stable")
            firsts = np.flatnonzero(np.diff(columns[order], prepend=-1))
            if len(firsts):
                by_question = shapley[:, :, :-1].transpose(0, 2, 1).reshape(len(columns), rows)
                contributions[:, columns[order][firsts]] += np.add.reduceat(
                    by_question[order], firsts, axis=0
                ).T

    def changes(self) -> Floats:
        """Compute the weighted variance between the two sides of each question: tree × question."""
        changes = np.zeros(self.columns.shape)
        for level in range(self.columns.shape[1]):
            pairs = (len(self.trees), -1, 2, 1 << level)
            value, weight = self.values.reshape(pairs), self.weights.reshape(pairs)
            mean = _mean(value, weight, axis=2)[:, :, None]
            changes[:, level] = ((value - mean) ** 2 * weight).sum(axis=(1, 2, 3))
        return changes

    def _shapley(self, some: slice, leaves: Places) -> Floats:
        """Compute the contribution of each question to rows in these leaves; the mean of all rows comes last.

        Where two questions are about the same feature, the first gets the contribution of both.
        """
        trees, rows = leaves.shape
        weights = self.weights[some]
        # The value of a tree if the questions of a set are answered and the others averaged: from the last
        # question (the lowest bit) up to the first. Axes: tree, row, node, set.
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
    """Average both sides of a question, weighted by their training rows; 0 without any row."""
    total = weights.sum(axis=axis)
    return np.asarray((values * weights).sum(axis=axis) / np.where(total > 0, total, 1.0))


@lru_cache(maxsize=1024)
def _shapley_weights(firsts: tuple[int, ...]) -> Floats:
    """Compute the Shapley weights: set of answered questions × question, the mean in the last column.

    `firsts` holds, for each question, the place of the first question about the same feature.
    """
    weights = np.zeros((1 << len(firsts), len(firsts) + 1))
    weights[0, -1] = 1.0
    features = sorted(set(firsts))
    bits = [sum(1 << place for place, first in enumerate(firsts) if first == one) for one in features]
    for subset in range(1 << len(features)):
        members = [subset >> place & 1 for place in range(len(features))]
        of_set = sum(bit for bit, is_member in zip(bits, members, strict=True) if is_member)
        for feature, is_member in zip(features, members, strict=True):
            others = sum(members) - is_member
            weight = factorial(others) * factorial(len(features) - others - 1) / factorial(len(features))
            weights[of_set, feature] += weight if is_member else -weight
    return weights
