"""From a table to what a model sees: the columns of a feature set, its categories, and profiles."""

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
from forewarn.learn.data.matrix import Matrix, Rows, Sample, effective, places_of
from forewarn.learn.data.table import POSTHOC_COLUMNS, JobTable
from forewarn.learn.heads.profiles import Profiles

# How many jobs of a user have ended all but names the user, and grows out of what was seen in training. On
# the validation of five logs, two seeds, models without these columns were as good: the difference is noise.
COUNTER = "_ended"
NEVER_MISSING = "queue_running"  # but where only one person's jobs are known
# Known even of a job of which a source tells nothing: the time, how the cluster is, what was learnt of those.
OF_NO_JOB = (
    *("hour", "weekday", "queue_", "submits_", "ends_", "fail_rate_"),
    *("online", "backoff_", "context_", "request_"),  # a request of which nothing is told is one too
)


@dataclass(frozen=True, slots=True)
class Assembly:
    """Which columns a model sees, and how they are made. Learnt from the train part only."""

    phase: str
    features: tuple[str, ...]
    encoders: Encoders
    profiles: Profiles | None = None  # the probabilities of each are columns too
    # The medians of what others' jobs tell, for where only one person's jobs are known: no model has learnt
    # what to make of a cluster of which nothing is known.
    typical: Mapping[str, float] = field(default_factory=dict)

    @property
    def knows_history(self) -> bool:
        """Whether it tells users apart by what became of their jobs."""
        private = {feature.name for feature in L.FEATURES if feature.private}
        return not private.isdisjoint(self.features)

    @classmethod
    def fit(
        cls, table: JobTable, rows: NDArray[np.int64], feature_set: str, profiles: Profiles | None = None
    ) -> Self:
        """Take the columns of the set that say anything in these rows."""
        names = [L.FEATURES[place].name for place in L.selected(phase_of(table.phase), feature_set)]
        names = [name for name in names if not name.endswith(COUNTER)]
        if table.phase == POSTHOC:
            names += POSTHOC_COLUMNS
        values = table.values[rows]
        low = np.nanmin(np.where(np.isnan(values), np.inf, values), axis=0, initial=np.inf)
        high = np.nanmax(np.where(np.isnan(values), -np.inf, values), axis=0, initial=-np.inf)
        missing = np.isnan(values).any(axis=0)
        says = dict(zip(table.names, (low < high) | ((low == high) & missing), strict=True))
        features = tuple(name for name in names if says[name])
        if all(name.startswith(OF_NO_JOB) for name in features):
            raise NotEnoughError(
                f"{table.cluster}: the feature set `{feature_set}` is empty here: none of its features that "
                "tell of a job (its request, its user, what became of jobs like it) has two different values "
                f"in the {len(rows):,} jobs to learn from. Choose another --features, or ingest a source "
                "that has more fields"
            )
        encoders = Encoders.fit(table.about[rows], CATEGORIES[feature_set])
        others = {L.FEATURES[place].name for place in L.OF_OTHERS}.intersection(features)
        typical = {name: float(np.nanmedian(values[:, table.names.index(name)])) for name in sorted(others)}
        return cls(table.phase, features, encoders, profiles, typical)

    def matrix(self, table: JobTable, rows: Rows | None = None) -> Matrix:
        """The columns of some jobs."""
        part = table if rows is None else table.rows(rows)
        own = part.values.take(places_of(part.names, self.features), axis=1)
        if self.typical and (alone := np.isnan(part.column(NEVER_MISSING))).any():
            usual = np.array([self.typical.get(name, np.nan) for name in self.features], np.float32)
            own = np.where(alone[:, None] & np.isnan(own), usual, own)
        blocks = [own]
        names = [*self.features, *self.encoders.categories]
        if self.encoders.categories:
            blocks.append(self.encoders.codes(part.about))
        if self.profiles:
            blocks.append(self.profiles.posterior(part.about, self.phase).astype(np.float32))
            names += self.profiles.feature_names
        values = np.ascontiguousarray(np.hstack(blocks), np.float32)
        return Matrix(values, tuple(names), frozenset(self.encoders.categories))

    def sample(self, table: JobTable, rows: NDArray[np.int64]) -> Sample:
        """The columns of some jobs with what became of them; equal jobs sent at once weigh as few."""
        return Sample(self.matrix(table, rows), table.fails[rows], effective(table.weights[rows]))

    def to_json(self) -> dict[str, Any]:
        """For the bundle; the profiles are kept beside it."""
        return {
            "phase": self.phase,
            "features": list(self.features),
            "encoders": self.encoders.to_json(),
            "profiles": self.profiles is not None,
            "typical": dict(self.typical),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], profiles: Profiles | None) -> Self:
        """From the bundle, with the profiles that lie beside it."""
        return cls(
            value["phase"],
            tuple(value["features"]),
            Encoders.from_json(value["encoders"]),
            profiles if value["profiles"] else None,
            value.get("typical", {}),
        )
