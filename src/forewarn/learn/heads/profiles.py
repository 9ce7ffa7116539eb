"""Profiles: the few kinds of jobs that a cluster has, and to which of them a job belongs.

A mixture of products: given its profile, a job's numbers (log of CPUs, memory, run time and wait) are
jointly Gaussian with full covariance, its categories (user activity, type) are independent of them. That
form marginalises exactly: what a phase does not know yet, or a job lacks, is simply left out of the sum.
The Gaussians are fitted by scikit-learn; the tables of categories come from their responsibilities.
Answering needs numpy alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.errors import BundleError, NotEnoughError, UsageError
from forewarn.job.phase import POSTHOC
from forewarn.learn.data.table import JobTable
from forewarn.learn.heads.profile_names import ALL, described, in_words
from forewarn.learn.heads.profiles_number import Curves, mixture
from forewarn.learn.heads.profiles_space import CATEGORIES, Space

SAMPLED = 50_000  # jobs at most that the mixture is fitted on
CURVED = 10_000  # jobs at most that the curves are made of
STARTS = 4  # of which the likeliest mixture is kept: another seed should not give other profiles
FEWEST = 20  # jobs with all numbers, below which all jobs are one profile


@dataclass(frozen=True)
class Profiles:
    """The mixture, the most frequent profile first."""

    space: Space
    weights: NDArray[np.float64]  # by profile
    means: NDArray[np.float64]  # profile × number
    covariances: NDArray[np.float64]  # profile × number × number
    tables: Mapping[str, NDArray[np.float64]]  # by category: profile × level
    words: tuple[str, ...]
    curves: Curves
    jobs: int  # that it was fitted on

    @classmethod
    def fit(cls, table: JobTable, rows: NDArray[np.int64], seed: int, k: int | None = None) -> Self:
        """Fit on these jobs, those that have all the numbers; `k` profiles, or as many as the elbow says."""
        if not len(rows):
            raise NotEnoughError(f"{table.cluster}: no jobs to find profiles in")
        random = np.random.default_rng(seed)
        about = table.about[rows]
        space = Space.fit(about)
        values, codes = space.values(about, POSTHOC), space.codes(about, POSTHOC)
        whole = np.flatnonzero(np.isfinite(values).all(axis=1))
        if not space.numbers or len(whole) < FEWEST:
            if k not in (None, 1):
                raise NotEnoughError(
                    f"{table.cluster}: {k} profiles asked for, and all that can be told apart is one: "
                    f"{len(whole)} jobs have all the numbers in which jobs differ ({FEWEST} are needed)"
                    if space.numbers
                    else f"{table.cluster}: {k} profiles asked for, but its jobs differ in no number"
                )
            return cls._single(space, codes, len(rows))
        whole = np.sort(random.choice(whole, min(len(whole), SAMPLED), replace=False))
        values, codes = values[whole], {name: found[whole] for name, found in codes.items()}
        some = random.choice(len(values), min(len(values), CURVED), replace=False)
        curves = Curves.of(_points(values, codes)[some], values[some], seed)
        k = curves.elbow if k is None else k
        if not 0 < k <= len(curves.wcss):
            raise UsageError(f"profiles: {k} asked for, 1 to {len(curves.wcss)} can be told apart here")
        found = mixture(values, k, seed, STARTS)
        order = np.argsort(-found.weights_, kind="stable")
        belongs = found.predict_proba(values)[:, order]
        tables = {name: _shares(codes[name], belongs, len(CATEGORIES[name])) for name in codes}
        words = in_words(space, found.means_[order], values, tables, found.weights_[order])
        return cls(
            space,
            found.weights_[order],
            found.means_[order],
            found.covariances_[order],
            tables,
            words,
            curves,
            len(whole),
        )

    @classmethod
    def _single(cls, space: Space, codes: Mapping[str, NDArray[np.int64]], jobs: int) -> Self:
        """All jobs as one profile."""
        everyone, size = np.ones((jobs, 1)), len(space.numbers)
        return cls(
            space,
            np.ones(1),
            np.zeros((1, size)),
            np.eye(size)[None],
            {name: _shares(found, everyone, len(CATEGORIES[name])) for name, found in codes.items()},
            (ALL,),
            Curves((), ()),
            jobs,
        )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names for the columns of `posterior`."""
        return tuple(f"profile_{place}" for place in range(len(self.weights)))

    def posterior(self, about: pl.DataFrame, phase: str) -> NDArray[np.float64]:
        """The probability of each profile (job × profile), by what of a job is known at the phase.

        `about` needs no columns beyond those that the phase knows.
        """
        logs = np.log(self.weights) + self._log_densities(self.space.values(about, phase))
        for name, codes in self.space.codes(about, phase).items():
            logs += self._log_tables[name][:, codes].T
        logs -= logs.max(axis=1, keepdims=True)
        likely = np.exp(logs)
        return np.asarray(likely / likely.sum(axis=1, keepdims=True))

    @cached_property
    def _log_tables(self) -> dict[str, NDArray[np.float64]]:
        """With a last level for what is not known, which every profile explains as well as the others."""
        return {name: np.pad(np.log(shares), ((0, 0), (0, 1))) for name, shares in self.tables.items()}

    def _log_densities(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Job × profile, of the numbers that are there: a marginal Gaussian has its part of the moments."""
        made = np.zeros((len(values), len(self.weights)))
        there = np.isfinite(values)
        for pattern in np.unique(there, axis=0):
            known, rows = np.flatnonzero(pattern), (there == pattern).all(axis=1)
            part = values[np.ix_(rows, known)]
            for place, (mean, (inverse, volume)) in enumerate(
                zip(self.means, self._roots(tuple(known.tolist())), strict=True)
            ):
                away = (part - mean[known]) @ inverse.T
                made[rows, place] = -(away**2).sum(axis=1) / 2 - volume
        return made

    def _roots(self, known: tuple[int, ...]) -> list[tuple[NDArray[np.float64], float]]:
        """Of each profile, for some numbers: the inverse root of its covariance, and its log volume."""
        if known not in self._roots_of:
            roots = [np.linalg.cholesky(of[np.ix_(known, known)]) for of in self.covariances]
            whole = len(known) * np.log(2 * np.pi) / 2
            self._roots_of[known] = [
                (np.linalg.inv(root), float(whole + np.log(np.diag(root)).sum())) for root in roots
            ]
        return self._roots_of[known]

    @cached_property
    def _roots_of(self) -> dict[tuple[int, ...], list[tuple[NDArray[np.float64], float]]]:
        return {}

    def describe(self, table: JobTable, rows: NDArray[np.int64]) -> dict[str, Any]:
        """What the profiles look like in these jobs, each of which counts for its most likely one."""
        return described(self, table, rows)

    def to_json(self) -> dict[str, Any]:
        """For the bundle."""
        return {
            "space": self.space.to_json(),
            "weights": self.weights.tolist(),
            "means": self.means.tolist(),
            "covariances": self.covariances.tolist(),
            "tables": {name: shares.tolist() for name, shares in self.tables.items()},
            "words": list(self.words),
            "curves": self.curves.to_json(),
            "jobs": self.jobs,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """From the bundle. Raises `BundleError` for what is no such mixture."""
        try:
            made = cls(
                Space.from_json(value["space"]),
                np.array(value["weights"], np.float64),
                np.array(value["means"], np.float64),
                np.array(value["covariances"], np.float64),
                {name: np.array(shares, np.float64) for name, shares in value["tables"].items()},
                tuple(value["words"]),
                Curves.from_json(value["curves"]),
                int(value["jobs"]),
            )
            made._check()
        except (KeyError, TypeError, ValueError, AttributeError, np.linalg.LinAlgError) as error:
            raise BundleError(f"the bundle's profiles are broken: {error!r}; train again") from error
        return made

    def _check(self) -> None:
        k, size = len(self.weights), len(self.space.numbers)
        shapes = {"means": (k, size), "covariances": (k, size, size)}
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name}: not of shape {shape}")
        for name in self.space.categories:
            if self.tables[name].shape != (k, len(CATEGORIES[name])):
                raise ValueError(f"tables: {name}: not {k} rows of {', '.join(CATEGORIES[name])}")
        parts = (self.weights, self.means, self.covariances, *self.tables.values())
        if not (k and all(np.isfinite(part).all() for part in parts) and self.weights.min() > 0):
            raise ValueError("not all its numbers are finite, or a weight is not positive")
        np.linalg.cholesky(self.covariances)


def _points(values: NDArray[np.float64], codes: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float64]:
    """Numbers and categories for K-Means: a category as one-hot columns that vary as much as one number."""
    blocks = [values]
    for name, found in codes.items():
        hot = np.eye(len(CATEGORIES[name]) + 1)[found][:, :-1]
        blocks.append(hot / max(np.sqrt(hot.var(axis=0).sum()), 1e-9))
    return np.hstack(blocks)


def _shares(codes: NDArray[np.int64], belongs: NDArray[np.float64], levels: int) -> NDArray[np.float64]:
    """How often each level occurs in each profile; one made-up job in each keeps all of them possible."""
    counts = np.stack([belongs[codes == level].sum(axis=0) for level in range(levels)], axis=1) + 1
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))
