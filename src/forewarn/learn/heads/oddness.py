"""Oddness: how unusual a request is on a cluster, by an isolation forest stored as plain arrays.

A job that few random splits separate from a sample of the others is unusual (Liu, Ting, Zhou: Isolation
Forest, 2008). scikit-learn fits the trees; they are stored as JSON and traversed by numpy, so that a
prediction needs neither a pickle nor scikit-learn, whose import alone takes longer than a whole check may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import BundleError
from forewarn.evidence import Statement
from forewarn.learn.data.table import JobTable
from forewarn.learn.heads.oddness_columns import COLUMNS, columns_of, unusual

TREES, SAMPLE = 100, 256
FEWEST = 50  # jobs below which no forest is fitted
RANKED = 20_000  # jobs at most from whose scores the ranks are computed
REASONS = 3
_LEAST_GAIN = 0.25  # of the largest column's gain, from which another column is named
_EXTREME = 0.9  # share of jobs on one side of a value, below which the value alone is not unusual
# Shares of earlier jobs at which quantiles of scores and values are stored: dense where jobs are rare.
_SHARES = np.unique(np.concatenate([np.linspace(0, 1, 101), np.geomspace(1e-4, 0.02, 60)]))
_BOTH_ENDS = np.unique(np.concatenate([_SHARES, 1 - _SHARES]))
_CHUNK = 8192  # jobs that are scored at once

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class _FlatTrees(NamedTuple):
    """All trees of a forest as one list of nodes."""

    roots: Integers
    column: Integers
    threshold: Floats
    children: Integers  # left and right of each node
    depth: int


@dataclass(frozen=True)
class IsolationForest:
    """The trees, and the scores of the jobs they were fitted on."""

    names: tuple[str, ...]  # of its columns: keys of COLUMNS
    feature: Integers  # tree × node: the column that is split there; -1 for a leaf
    threshold: Floats  # tree × node: values up to it go left; of a leaf, the length of its path
    left: Integers
    right: Integers
    missing: Floats  # by column: the number that stands for a missing value
    typical: Floats  # by column: the median
    lengths: Floats  # quantiles of the mean path lengths at `_SHARES`
    values: Floats  # column × quantiles of its values at `_BOTH_ENDS`
    jobs: int

    @classmethod
    def fit(cls, table: JobTable, rows: Integers, seed: int, *, private: bool = True) -> Self | None:
        """Fit on these jobs; None where they are too few or all the same.

        Without `private`, columns from the history of the job's user are left out.
        """
        names = [name for name, column in COLUMNS.items() if private or not column.private]
        raw = columns_of(table, names, rows)
        differ = [
            place
            for place in range(len(names))
            if np.unique(raw[np.isfinite(raw[:, place]), place]).size + np.isnan(raw[:, place]).any() > 1
        ]
        if len(rows) < FEWEST or not differ:
            return None
        raw, names = raw[:, differ], [names[place] for place in differ]
        # A missing value counts as a value below all others: to lack what most jobs have is unusual, too.
        missing = np.nan_to_num(np.nanmin(raw, axis=0)) - 1.0
        filled = np.where(np.isnan(raw), missing, raw)
        trees = _fit_trees(filled, seed)
        forest = cls(
            tuple(names),
            *trees,
            missing=missing,
            typical=np.median(filled, axis=0),
            lengths=np.zeros(len(_SHARES)),
            values=np.nan_to_num(np.nanquantile(raw, _BOTH_ENDS, axis=0).T),
            jobs=len(rows),
        )
        some = np.random.default_rng(seed).permutation(len(filled))[:RANKED]
        lengths = np.quantile(forest._lengths(filled[some]), _SHARES)
        return replace(forest, lengths=lengths)

    def rarer_than(self, table: JobTable) -> Floats:
        """Compute for each job the share of earlier jobs that were less unusual, in steps of one such job."""
        rarer = 1.0 - self._share(self._lengths(self._filled(table)))
        ranked = min(self.jobs, RANKED)
        return np.asarray(np.floor(rarer * ranked + 1e-9) / ranked)

    def reasons(self, table: JobTable, row: int) -> tuple[Statement, ...]:
        """State what makes one job unusual, the most important first.

        A column is as important as the job would be less unusual with the median in its place.
        """
        raw = columns_of(table, self.names)[row]
        filled = np.where(np.isnan(raw), self.missing, raw)
        changed = np.tile(filled, (len(filled) + 1, 1))
        changed[np.arange(len(filled)), np.arange(len(filled))] = self.typical
        lengths = self._lengths(changed)
        gains = lengths[:-1] - lengths[-1]
        least = _LEAST_GAIN * float(gains.max(initial=0.0))
        statements: list[Statement] = []
        for place in np.argsort(-gains, kind="stable"):
            if gains[place] <= 0 or gains[place] < least or not np.isfinite(raw[place]):
                continue
            below, above = self._below_and_above(int(place), float(raw[place]))
            if max(below, above) >= _EXTREME:
                statements.append(unusual(self.names[place], float(raw[place]), below, above, self.jobs))
        return tuple(statements[:REASONS])

    def _below_and_above(self, place: int, value: float) -> tuple[float, float]:
        """Compute the shares of earlier jobs with a smaller and with a larger value; many may be equal."""
        quantiles = self.values[place]
        first, last = np.searchsorted(quantiles, value, "left"), np.searchsorted(quantiles, value, "right")
        below = _BOTH_ENDS[first - 1] if first else 0.0
        above = 1 - _BOTH_ENDS[last] if last < len(quantiles) else 0.0
        return float(below), float(above)

    def _filled(self, table: JobTable) -> Floats:
        raw = columns_of(table, self.names)
        return np.where(np.isnan(raw), self.missing, raw)

    def _share(self, lengths: Floats) -> Floats:
        """Compute the share of earlier jobs with a path at most as long."""
        return np.asarray(np.interp(lengths, self.lengths, _SHARES))

    def _lengths(self, values: Floats) -> Floats:
        """Compute the mean length of the path to each job's leaf: a short path is unusual."""
        lengths = np.empty(len(values))
        flat = self._flat_trees
        for begin in range(0, len(values), _CHUNK):
            part = np.ascontiguousarray(values[begin : begin + _CHUNK]).ravel()
            jobs = np.arange(0, part.size, values.shape[1])[:, None]
            node = np.broadcast_to(flat.roots, (len(jobs), len(flat.roots)))
            for _ in range(flat.depth):
                goes_right = part.take(jobs + flat.column.take(node)) > flat.threshold.take(node)
                node = flat.children.take(2 * node + goes_right)
            lengths[begin : begin + _CHUNK] = flat.threshold.take(node).mean(axis=1)
        return lengths

    @cached_property
    def _flat_trees(self) -> _FlatTrees:
        """Lay out all trees one after another. A leaf is its own child: a job that reached it stays there."""
        trees, nodes = self.feature.shape
        numbers = np.arange(trees * nodes).reshape(trees, nodes)
        inner = self.feature >= 0
        left, right = (np.where(inner, child + numbers[:, :1], numbers) for child in (self.left, self.right))
        children = np.stack([left, right], axis=-1).ravel()
        roots = numbers[:, 0]
        depth, reached = 0, roots
        while (inner.ravel()[reached]).any():
            depth, reached = depth + 1, np.unique(children.reshape(-1, 2)[reached])
        return _FlatTrees(roots, np.maximum(self.feature, 0).ravel(), self.threshold.ravel(), children, depth)

    def to_json(self) -> dict[str, Any]:
        """Return what the bundle stores."""
        sizes = (self.feature != _PADDING).sum(axis=1)
        trees = [
            {
                "feature": self.feature[tree, :size].tolist(),
                "threshold": self.threshold[tree, :size].tolist(),
                "left": self.left[tree, :size].tolist(),
                "right": self.right[tree, :size].tolist(),
            }
            for tree, size in enumerate(sizes)
        ]
        plain = {name: getattr(self, name).tolist() for name in _PLAIN}
        return {"names": list(self.names), "jobs": self.jobs, "trees": trees, **plain}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what the bundle stores. Raises `BundleError` for anything else."""
        try:
            missing, typical, lengths, values = (np.array(value[name], np.float64) for name in _PLAIN)
            trees, jobs = _pad(value["trees"]), int(value["jobs"])
            forest = cls(tuple(value["names"]), *trees, missing, typical, lengths, values, jobs)
            forest._check()
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise BundleError(f"the bundle's isolation forest is broken: {error!r}; train again") from error
        return forest

    def _check(self) -> None:
        columns, places = len(self.names), np.arange(self.feature.shape[1])
        if not columns or not set(self.names) <= set(COLUMNS):
            raise ValueError(f"unknown columns: {self.names}")
        shapes = {
            "missing": (columns,),
            "typical": (columns,),
            "lengths": (len(_SHARES),),
            "values": (columns, len(_BOTH_ENDS)),
        }
        for name, shape in shapes.items():
            part = getattr(self, name)
            if part.shape != shape or not np.isfinite(part).all():
                raise ValueError(f"{name}: not {shape} finite numbers")
        inner = self.feature >= 0
        # A child follows its parent, so that every path ends.
        for child in (self.left, self.right):
            if (inner & ((child <= places) | (child >= len(places)))).any():
                raise ValueError("a tree has a cycle")
        if (self.feature >= columns).any() or not np.isfinite(self.threshold).all():
            raise ValueError("a split has an unknown column, or no finite threshold")


_PLAIN = ("missing", "typical", "lengths", "values")  # arrays that are stored under their own names
_PADDING = -2


def _fit_trees(values: Floats, seed: int) -> tuple[Integers, Floats, Integers, Integers]:
    """Fit an isolation forest; return feature, threshold, left and right of each node, tree × node."""
    from sklearn.ensemble import IsolationForest

    model = IsolationForest(
        n_estimators=TREES, max_samples=min(SAMPLE, len(values)), random_state=seed, n_jobs=1
    )
    model.fit(values)
    trees = []
    for estimator in model.estimators_:
        tree = estimator.tree_
        depth = np.zeros(tree.node_count)
        inner = tree.children_left >= 0
        for node in np.flatnonzero(inner):  # parents come before their children
            depth[[tree.children_left[node], tree.children_right[node]]] = depth[node] + 1
        ends = depth + _expected_depth(tree.n_node_samples)
        trees.append(
            {
                "feature": np.where(inner, tree.feature, -1).tolist(),
                # Rounded here, so that a forest scores the same before and after it is stored.
                "threshold": np.where(inner, tree.threshold, ends).round(5).tolist(),
                "left": np.where(inner, tree.children_left, 0).tolist(),
                "right": np.where(inner, tree.children_right, 0).tolist(),
            }
        )
    return _pad(trees)


def _expected_depth(n: NDArray[Any]) -> Floats:
    """Compute the mean depth at which a random tree of n jobs separates one of them."""
    many = np.maximum(n, 3).astype(np.float64)
    depth = 2 * (np.log(many - 1) + np.euler_gamma) - 2 * (many - 1) / many
    return np.where(n <= 1, 0.0, np.where(n == 2, 1.0, depth))


def _pad(trees: Sequence[Mapping[str, Any]]) -> tuple[Integers, Floats, Integers, Integers]:
    """Put trees of different sizes into arrays, tree × node."""
    longest = max(len(tree["feature"]) for tree in trees)

    def block(name: str, dtype: Any, empty: int) -> Any:
        padded = np.full((len(trees), longest), empty, dtype)
        for place, tree in enumerate(trees):
            if len(tree[name]) != len(tree["feature"]):
                raise ValueError(f"tree {place}: {name} is not as long as feature")
            padded[place, : len(tree[name])] = tree[name]
        return padded

    return (
        block("feature", np.int64, _PADDING),
        block("threshold", np.float64, 0),
        block("left", np.int64, 0),
        block("right", np.int64, 0),
    )
