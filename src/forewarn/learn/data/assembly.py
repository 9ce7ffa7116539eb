"""The input columns of a model, built from a table: features, categories, and profile probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import NotEnoughError
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.job.phase import POSTHOC, phase_of
from forewarn.learn.data.encoders import CATEGORIES, Encoders
from forewarn.learn.data.job_details import POSTHOC_COLUMNS
from forewarn.learn.data.matrix import Matrix, Rows, Sample, effective, places_of
from forewarn.learn.data.table import JobTable
from forewarn.learn.heads.profiles import Profiles

# The number of a user's ended jobs nearly identifies the user, and later exceeds all values of the training.
# On the validation rows of five logs, with two seeds, models without these columns were equally good.
COUNTER = "_ended"
NEVER_MISSING = "queue_running"  # it is missing only where a single person's jobs are known
# Features that have values even for a job without any fields: the time, the state of the cluster, and
# statistics of these (an empty request is also a request with a history).
NOT_OF_THE_JOB = (
    *("hour", "weekday", "queue_", "submits_", "ends_", "fail_rate_"),
    *("online", "backoff_", "context_", "request_"),
)


@dataclass(frozen=True, slots=True)
class Assembly:
    """The columns that a model sees, and how to build them. Fitted on the train block only."""

    phase: str
    features: tuple[str, ...]
    encoders: Encoders
    profiles: Profiles | None = None  # the probabilities of each are columns too
    # Medians of the features that come from other users' jobs. They are used where only one person's jobs are
    # known: no model has learnt from rows in which these are missing.
    typical: Mapping[str, float] = field(default_factory=dict)

    @property
    def knows_history(self) -> bool:
        """Whether a feature depends on the history of the job's own user."""
        private = {feature.name for feature in L.FEATURES if feature.private}
        return not private.isdisjoint(self.features)

    @classmethod
    def fit(
        cls, table: JobTable, rows: NDArray[np.int64], feature_set: str, profiles: Profiles | None = None
    ) -> Self:
        """Select the columns of the feature set that vary in these rows, and fit the encoders."""
        names = [L.FEATURES[place].name for place in L.selected(phase_of(table.phase), feature_set)]
        names = [name for name in names if not name.endswith(COUNTER)]
        if table.phase == POSTHOC:
            names += POSTHOC_COLUMNS
        values = table.values[rows]
        low = np.nanmin(np.where(np.isnan(values), np.inf, values), axis=0, initial=np.inf)
        high = np.nanmax(np.where(np.isnan(values), -np.inf, values), axis=0, initial=-np.inf)
        missing = np.isnan(values).any(axis=0)
        varies = dict(zip(table.names, (low < high) | ((low == high) & missing), strict=True))
        features = tuple(name for name in names if varies[name])
        if all(name.startswith(NOT_OF_THE_JOB) for name in features):
            raise NotEnoughError(
                f"{table.cluster}: the feature set `{feature_set}` is empty here: none of its features that "
                "describe a job (its request, its user, outcomes of similar jobs) has two different values "
                f"in the {len(rows):,} jobs to learn from. Choose another --features, or ingest a source "
                "that has more fields"
            )
        encoders = Encoders.fit(table.about[rows], CATEGORIES[feature_set])
        others = {L.FEATURES[place].name for place in L.OF_OTHERS}.intersection(features)
        typical = {name: float(np.nanmedian(values[:, table.names.index(name)])) for name in sorted(others)}
        return cls(table.phase, features, encoders, profiles, typical)

    def matrix(self, table: JobTable, rows: Rows | None = None) -> Matrix:
        """Build the matrix of all jobs of a table, or of some."""
        part = table if rows is None else table.rows(rows)
        features = part.values.take(places_of(part.names, self.features), axis=1)
        if self.typical and (alone := np.isnan(part.column(NEVER_MISSING))).any():
            medians = np.array([self.typical.get(name, np.nan) for name in self.features], np.float32)
            features = np.where(alone[:, None] & np.isnan(features), medians, features)
        blocks = [features]
        names = [*self.features, *self.encoders.categories]
        if self.encoders.categories:
            blocks.append(self.encoders.codes(part.about))
        if self.profiles:
            blocks.append(self.profiles.posterior(part.about, self.phase).astype(np.float32))
            names += self.profiles.feature_names
        values = np.ascontiguousarray(np.hstack(blocks), np.float32)
        return Matrix(values, tuple(names), frozenset(self.encoders.categories))

    def sample(self, table: JobTable, rows: NDArray[np.int64]) -> Sample:
        """Build the matrix of some jobs with their outcomes and weights; the jobs of a bulk weigh little."""
        return Sample(self.matrix(table, rows), table.fails[rows], effective(table.weights[rows]))

    def to_json(self) -> dict[str, Any]:
        """Return the form that the bundle stores; the profiles are stored in a file of their own."""
        return {
            "phase": self.phase,
            "features": list(self.features),
            "encoders": self.encoders.to_json(),
            "profiles": self.profiles is not None,
            "typical": dict(self.typical),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], profiles: Profiles | None) -> Self:
        """Read the form that the bundle stores, with the bundle's profiles."""
        return cls(
            value["phase"],
            tuple(value["features"]),
            Encoders.from_json(value["encoders"]),
            profiles if value["profiles"] else None,
            value.get("typical", {}),
        )
