"""Profiles: the few groups of similar jobs on a cluster, and the probability that a job belongs to each.

A mixture of products: given its profile, a job's numbers (log of CPUs, memory, run time and wait) are
jointly Gaussian with full covariance, its categories (user activity, type) are independent of them. That
form marginalises exactly: what is not known yet at a phase, or what a job lacks, is left out of the sum.
The Gaussians are fitted by scikit-learn; the tables of categories come from their responsibilities.
Predictions need numpy alone.
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
from forewarn.formatting import count
from forewarn.job.phase import POSTHOC
from forewarn.learn.data.table import JobTable
from forewarn.learn.heads.profile_names import ALL, described, in_words
from forewarn.learn.heads.profiles_number import Curves, mixture
from forewarn.learn.heads.profiles_space import CATEGORIES, Space

SAMPLED = 50_000  # jobs at most that the mixture is fitted on
CURVE_JOBS = 10_000  # jobs at most that the curves are computed from
STARTS = 4  # of which the mixture with the highest likelihood is used, so that it depends less on the seed
FEWEST = 20  # jobs with all numbers, below which all jobs are one profile


@dataclass(frozen=True)
class Profiles:
    """A mixture of profiles, the most frequent first."""

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
        """Fit on the jobs among these with all numbers; `k` profiles, or as many as the elbow suggests."""
        if not len(rows):
            raise NotEnoughError(f"{table.cluster}: no jobs to find profiles in")
        random = np.random.default_rng(seed)
        about = table.about[rows]
        space = Space.fit(about)
        values, codes = space.values(about, POSTHOC), space.codes(about, POSTHOC)
        complete = np.flatnonzero(np.isfinite(values).all(axis=1))
        if not space.numbers or len(complete) < FEWEST:
            if k not in (None, 1):
                raise NotEnoughError(
                    f"{table.cluster}: {k} profiles requested, but only one can be found: there "
                    f"are {count(len(complete), 'job')} with all the numbers in which jobs differ, and "
                    f"{FEWEST} are needed. Ingest more history, or request one profile"
                    if space.numbers
                    else f"{table.cluster}: {k} profiles requested, but its jobs differ in no number. "
                    "Request one profile"
                )
            return cls._single(space, codes, len(rows))
        complete = np.sort(random.choice(complete, min(len(complete), SAMPLED), replace=False))
        values, codes = values[complete], {name: levels[complete] for name, levels in codes.items()}
        sample = random.choice(len(values), min(len(values), CURVE_JOBS), replace=False)
        curves = Curves.of(_points(values, codes)[sample], values[sample], seed)
        k = curves.elbow if k is None else k
        if not 0 < k <= len(curves.wcss):
            raise UsageError(
                f"{k} profiles requested, but 1 to {len(curves.wcss)} are possible with these jobs"
            )
        gaussians = mixture(values, k, seed, STARTS)
        order = np.argsort(-gaussians.weights_, kind="stable")
        weights, means = gaussians.weights_[order], gaussians.means_[order]
        responsibilities = gaussians.predict_proba(values)[:, order]
        tables = {name: _shares(codes[name], responsibilities, len(CATEGORIES[name])) for name in codes}
        words = in_words(space, means, values, tables, weights)
        covariances = gaussians.covariances_[order]
        return cls(space, weights, means, covariances, tables, words, curves, len(complete))

    @classmethod
    def _single(cls, space: Space, codes: Mapping[str, NDArray[np.int64]], jobs: int) -> Self:
        """Return a single profile of all jobs."""
        responsibilities, size = np.ones((jobs, 1)), len(space.numbers)
        return cls(
            space,
            np.ones(1),
            np.zeros((1, size)),
            np.eye(size)[None],
            {
                name: _shares(levels, responsibilities, len(CATEGORIES[name]))
                for name, levels in codes.items()
            },
            (ALL,),
            Curves((), ()),
            jobs,
        )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Return names for the columns of `posterior`."""
        return tuple(f"profile_{place}" for place in range(len(self.weights)))

    def posterior(self, about: pl.DataFrame, phase: str) -> NDArray[np.float64]:
        """Compute the probability of each profile (job × profile), from what is known at the phase.

        `about` needs no columns beyond those known at the phase.
        """
        logs = np.log(self.weights) + self._log_densities(self.space.values(about, phase))
        for name, codes in self.space.codes(about, phase).items():
            logs += self._log_tables[name][:, codes].T
        logs -= logs.max(axis=1, keepdims=True)
        densities = np.exp(logs)
        return np.asarray(densities / densities.sum(axis=1, keepdims=True))

    @cached_property
    def _log_tables(self) -> dict[str, NDArray[np.float64]]:
        """Return the logarithms of `tables`, with a last level for unknown, equal in all profiles."""
        return {name: np.pad(np.log(shares), ((0, 0), (0, 1))) for name, shares in self.tables.items()}

    def _log_densities(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute log densities (job × profile) of the known numbers.

        The marginal of a Gaussian has the same means and covariances, of fewer numbers.
        """
        logs = np.zeros((len(values), len(self.weights)))
        is_known = np.isfinite(values)
        for pattern in np.unique(is_known, axis=0):
            known, rows = np.flatnonzero(pattern), (is_known == pattern).all(axis=1)
            part = values[np.ix_(rows, known)]
            for place, (mean, (inverse, volume)) in enumerate(
                zip(self.means, self._roots(tuple(known.tolist())), strict=True)
            ):
                distance = (part - mean[known]) @ inverse.T
                logs[rows, place] = -(distance**2).sum(axis=1) / 2 - volume
        return logs

    def _roots(self, known: tuple[int, ...]) -> list[tuple[NDArray[np.float64], float]]:
        """Return, by profile, the inverse root of the covariance of some numbers, and its log volume."""
        if known not in self._cached_roots:
            roots = [np.linalg.cholesky(matrix[np.ix_(known, known)]) for matrix in self.covariances]
            constant = len(known) * np.log(2 * np.pi) / 2
            self._cached_roots[known] = [
                (np.linalg.inv(root), float(constant + np.log(np.diag(root)).sum())) for root in roots
            ]
        return self._cached_roots[known]

    @cached_property
    def _cached_roots(self) -> dict[tuple[int, ...], list[tuple[NDArray[np.float64], float]]]:
        return {}

    def describe(self, table: JobTable, rows: NDArray[np.int64]) -> dict[str, Any]:
        """Describe the profiles in these jobs, each assigned to its most likely profile."""
        return described(self, table, rows)

    def to_json(self) -> dict[str, Any]:
        """Return what the bundle stores."""
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
        """Read what the bundle stores. Raises `BundleError` for anything else."""
        try:
            profiles = cls(
                Space.from_json(value["space"]),
                np.array(value["weights"], np.float64),
                np.array(value["means"], np.float64),
                np.array(value["covariances"], np.float64),
                {name: np.array(shares, np.float64) for name, shares in value["tables"].items()},
                tuple(value["words"]),
                Curves.from_json(value["curves"]),
                int(value["jobs"]),
            )
            profiles._check()
        except (KeyError, TypeError, ValueError, AttributeError, np.linalg.LinAlgError) as error:
            raise BundleError(f"the bundle's profiles are broken: {error!r}; train again") from error
        return profiles

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
            raise ValueError("a number is not finite, or a weight is not positive")
        np.linalg.cholesky(self.covariances)


def _points(values: NDArray[np.float64], codes: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float64]:
    """Return points for K-Means: numbers, and categories one-hot, scaled to the variance of one number."""
    blocks = [values]
    for name, levels in codes.items():
        one_hot = np.eye(len(CATEGORIES[name]) + 1)[levels][:, :-1]
        blocks.append(one_hot / max(np.sqrt(one_hot.var(axis=0).sum()), 1e-9))
    return np.hstack(blocks)


def _shares(
    codes: NDArray[np.int64], responsibilities: NDArray[np.float64], levels: int
) -> NDArray[np.float64]:
    """Compute the share of each level in each profile; one job added to each keeps all of them possible."""
    counts = np.stack([responsibilities[codes == level].sum(axis=0) for level in range(levels)], axis=1) + 1
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))
