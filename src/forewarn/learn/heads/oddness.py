"""How unusual a request is among a cluster's: an isolation forest, kept as plain arrays.

A job that few random cuts set apart from a sample of the others is unusual (Liu, Ting, Zhou: Isolation
Forest, 2008). scikit-learn grows the trees; they are kept as JSON and walked by numpy, so that answering
needs neither a pickle nor scikit-learn, whose import alone takes longer than a whole check may.
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
FEWEST = 50  # jobs below which nothing is usual yet
RANKED = 20_000  # jobs at most whose scores the ranks are made of
REASONS = 3
_TELLING = 0.25  # of what the most telling column brings, the least that another must to be named
_AT_AN_END = 0.9  # share of jobs on one side of a value, below which the value alone is nothing unusual
# Shares of earlier jobs at which scores and values are kept: dense where it gets rare.
_SHARES = np.unique(np.concatenate([np.linspace(0, 1, 101), np.geomspace(1e-4, 0.02, 60)]))
_BOTH_ENDS = np.unique(np.concatenate([_SHARES, 1 - _SHARES]))
_CHUNK = 8192  # jobs that are walked at once

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class _Walk(NamedTuple):
    """All trees of a forest as one list of nodes."""

    roots: Integers
    column: Integers
    threshold: Floats
    children: Integers  # left and right of each node
    depth: int


@dataclass(frozen=True)
class IsolationForest:
    """The trees, and how the jobs they were grown on score."""

    names: tuple[str, ...]  # of its columns: keys of COLUMNS
    feature: Integers  # tree × node: which column cuts there; -1 for a leaf
    threshold: Floats  # tree × node: to the left up to it; of a leaf, the length of the path that ends there
    left: Integers
    right: Integers
    missing: Floats  # by column: what stands for a value that is not there
    typical: Floats  # by column: the median
    lengths: Floats  # quantiles of the mean path lengths at `_SHARES`
    values: Floats  # column × quantiles of its values at `_BOTH_ENDS`
    jobs: int

    @classmethod
    def fit(cls, table: JobTable, rows: Integers, seed: int, *, private: bool = True) -> Self | None:
        """Grow on these jobs; None where they are too few or differ in nothing.

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
        # A missing value is one of its own, below all others: to lack what most have is unusual, too.
        missing = np.nan_to_num(np.nanmin(raw, axis=0)) - 1.0
        filled = np.where(np.isnan(raw), missing, raw)
        trees = _grown(filled, seed)
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
        """For each job the share of earlier jobs that were less unusual, no finer than these are many."""
        rarer = 1.0 - self._share(self._lengths(self._filled(table)))
        ranked = min(self.jobs, RANKED)
        return np.asarray(np.floor(rarer * ranked + 1e-9) / ranked)

    def because(self, table: JobTable, row: int) -> tuple[Statement, ...]:
        """What makes one job unusual, the most telling first.

        A column tells as much as the job would be less unusual with the median in its place.
        """
        raw = columns_of(table, self.names)[row]
        own = np.where(np.isnan(raw), self.missing, raw)
        changed = np.tile(own, (len(own) + 1, 1))
        changed[np.arange(len(own)), np.arange(len(own))] = self.typical
        lengths = self._lengths(changed)
        gains = lengths[:-1] - lengths[-1]
        enough = _TELLING * float(gains.max(initial=0.0))
        found: list[Statement] = []
        for place in np.argsort(-gains, kind="stable"):
            if gains[place] <= 0 or gains[place] < enough or not np.isfinite(raw[place]):
                continue
            below, above = self._below_and_above(int(place), float(raw[place]))
            if max(below, above) >= _AT_AN_END:
                found.append(unusual(self.names[place], float(raw[place]), below, above, self.jobs))
        return tuple(found[:REASONS])

    def _below_and_above(self, place: int, value: float) -> tuple[float, float]:
        """Shares of earlier jobs with a smaller and with a larger value; many may have the same."""
        known = self.values[place]
        first, last = np.searchsorted(known, value, "left"), np.searchsorted(known, value, "right")
        below = _BOTH_ENDS[first - 1] if first else 0.0
        above = 1 - _BOTH_ENDS[last] if last < len(known) else 0.0
        return float(below), float(above)

    def _filled(self, table: JobTable) -> Floats:
        raw = columns_of(table, self.names)
        return np.where(np.isnan(raw), self.missing, raw)

    def _share(self, lengths: Floats) -> Floats:
        """Of earlier jobs, those with as short a path."""
        return np.asarray(np.interp(lengths, self.lengths, _SHARES))

    def _lengths(self, values: Floats) -> Floats:
        """Mean length of the path to each job's leaf: short is unusual."""
        made = np.empty(len(values))
        walk = self._walk
        for begin in range(0, len(values), _CHUNK):
            part = np.ascontiguousarray(values[begin : begin + _CHUNK]).ravel()
            jobs = np.arange(0, part.size, values.shape[1])[:, None]
            at = np.broadcast_to(walk.roots, (len(jobs), len(walk.roots)))
            for _ in range(walk.depth):
                goes_right = part.take(jobs + walk.column.take(at)) > walk.threshold.take(at)
                at = walk.children.take(2 * at + goes_right)
            made[begin : begin + _CHUNK] = walk.threshold.take(at).mean(axis=1)
        return made

    @cached_property
    def _walk(self) -> _Walk:
        """Lay out all trees one after another. Who has come to a leaf stays there, whatever is asked."""
        trees, nodes = self.feature.shape
        here = np.arange(trees * nodes).reshape(trees, nodes)
        inner = self.feature >= 0
        left, right = (np.where(inner, child + here[:, :1], here) for child in (self.left, self.right))
        children = np.stack([left, right], axis=-1).ravel()
        depth, at = 0, here[:, 0]
        while (inner.ravel()[at]).any():
            depth, at = depth + 1, np.unique(children.reshape(-1, 2)[at])
        return _Walk(here[:, 0], np.maximum(self.feature, 0).ravel(), self.threshold.ravel(), children, depth)

    def to_json(self) -> dict[str, Any]:
        """For the bundle."""
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
        """From the bundle. Raises `BundleError` for what is no such forest."""
        try:
            missing, typical, lengths, values = (np.array(value[name], np.float64) for name in _PLAIN)
            trees, jobs = _padded(value["trees"]), int(value["jobs"])
            made = cls(tuple(value["names"]), *trees, missing, typical, lengths, values, jobs)
            made._check()
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise BundleError(f"the bundle's isolation forest is broken: {error!r}; train again") from error
        return made

    def _check(self) -> None:
        columns, places = len(self.names), np.arange(self.feature.shape[1])
        if not columns or not set(self.names) <= set(COLUMNS):
            raise ValueError(f"columns that are not known: {self.names}")
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
        # A child stands behind its parent: every walk ends.
        for child in (self.left, self.right):
            if (inner & ((child <= places) | (child >= len(places)))).any():
                raise ValueError("a tree that does not end")
        if (self.feature >= columns).any() or not np.isfinite(self.threshold).all():
            raise ValueError("a cut in no column, or at no number")


_PLAIN = ("missing", "typical", "lengths", "values")  # arrays as they stand in the class
_PADDING = -2


def _grown(values: Floats, seed: int) -> tuple[Integers, Floats, Integers, Integers]:
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
                # Rounded: what is walked is what is kept.
                "threshold": np.where(inner, tree.threshold, ends).round(5).tolist(),
                "left": np.where(inner, tree.children_left, 0).tolist(),
                "right": np.where(inner, tree.children_right, 0).tolist(),
            }
        )
    return _padded(trees)


def _expected_depth(n: NDArray[Any]) -> Floats:
    """Mean depth at which a random tree of n jobs would have set one apart."""
    many = np.maximum(n, 3).astype(np.float64)
    depth = 2 * (np.log(many - 1) + np.euler_gamma) - 2 * (many - 1) / many
    return np.where(n <= 1, 0.0, np.where(n == 2, 1.0, depth))


def _padded(trees: Sequence[Mapping[str, Any]]) -> tuple[Integers, Floats, Integers, Integers]:
    longest = max(len(tree["feature"]) for tree in trees)

    def block(name: str, dtype: Any, empty: int) -> Any:
        made = np.full((len(trees), longest), empty, dtype)
        for place, tree in enumerate(trees):
            if len(tree[name]) != len(tree["feature"]):
                raise ValueError(f"tree {place}: {name} is not as long as feature")
            made[place, : len(tree[name])] = tree[name]
        return made

    return (
        block("feature", np.int64, _PADDING),
        block("threshold", np.float64, 0),
        block("left", np.int64, 0),
        block("right", np.int64, 0),
    )
