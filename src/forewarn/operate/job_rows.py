"""Live and recent jobs in memory, each with its newest assessment in short: what lists of jobs read.

One frame for all clusters. It never changes: `updated` returns another one that has what is new in the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from forewarn.job.columns import KEYS, SCHEMAS
from forewarn.operate.array_rows import with_arrays
from forewarn.store.base import ASSESSMENT_SCHEMA, KNOWN_AT, Store

DAY = 86400
KEY = list(KEYS["job"])
# The main fields of a record.
JOB_COLUMNS = (
    *KEY,
    *(
        "name",
        "user",
        "account",
        "partition",
        "qos",
        "state",
        "reason",
        "outcome",
        "exit_code",
        "exit_signal",
    ),
    *("start", "end", "suspended", "time_limit", "nodes_asked", "nodes_given", "cpus_asked", "cpus_given"),
    *("gpus_asked", "gpus_given", "memory_asked", "memory_per", "nodes", "array_job_id", "array_task_id"),
    *("het_job_id", KNOWN_AT),
)
# The newest assessment in short; `warns` is computed from it.
ASSESSMENT_COLUMNS = (
    *("phase", "model", "made_at", "probability", "threshold", "verdict", "hours_at_risk", "cause"),
)
_FROM_STORE = [*KEY, *ASSESSMENT_COLUMNS]
_SCHEMA: Mapping[str, Any] = {
    **{name: SCHEMAS["job"].get(name, pl.Int64()) for name in JOB_COLUMNS},
    **{name: ASSESSMENT_SCHEMA[name] for name in ASSESSMENT_COLUMNS},
}
MOST_JOBS = 300_000  # in memory, the newest: with more, a page takes too long
_MANY = 20_000  # changed jobs from which all are read again, which is quicker


@dataclass(frozen=True, slots=True)
class JobRows:
    """The jobs submitted since a moment: newest first, then by cluster and id, whose order breaks ties."""

    frame: pl.DataFrame  # `JOB_COLUMNS`, `ASSESSMENT_COLUMNS` and `warns`
    since: int
    revisions: Mapping[str, int] = field(default_factory=dict)  # of jobs, by cluster
    assessed_until: int = 0  # the newest `made_at`
    removals: Mapping[str, int] = field(default_factory=dict)  # of jobs from the store, by cluster
    listed: pl.DataFrame = field(init=False)  # the same rows, with what is known of pending arrays

    def __post_init__(self) -> None:
        object.__setattr__(self, "listed", with_arrays(self.frame, [*ASSESSMENT_COLUMNS, "warns"]))

    @classmethod
    def read(cls, store: Store, since: int, until: int | None = None) -> JobRows:
        """Read the jobs submitted in [since, until), and their assessments, from the store."""
        revisions = {cluster: store.revision(cluster=cluster) for cluster in store.clusters()}
        removals, columns = _removals(store), list(JOB_COLUMNS)
        jobs = [frame.select(columns) for frame in store.scan(since=since, until=until, columns=columns)]
        assessments = store.assessments(since=since, columns=_FROM_STORE)
        newest: Any = assessments["made_at"].max()
        empty = pl.DataFrame(schema={name: _SCHEMA[name] for name in columns})
        frame = pl.concat([empty, *jobs]).join(_newest(assessments), on=KEY, how="left")
        frame = _in_order(frame)
        if frame.height > MOST_JOBS and until is None:
            since = int(frame["submit"][MOST_JOBS - 1]) + 1
            frame = frame.filter(pl.col("submit") >= since)
        return cls(frame, since, revisions, newest or 0, removals)

    def updated(self, store: Store) -> JobRows:
        """Return the rows with what was observed and assessed since; this instance if there is nothing."""
        removals = _removals(store)
        if any(removals.get(cluster) != number for cluster, number in self.removals.items()):
            return JobRows.read(store, self.since)
        changed: list[pl.DataFrame] = []
        revisions = dict(self.revisions)
        for cluster in store.clusters():
            before = revisions.get(cluster, 0)
            if store.revision(cluster=cluster) == before:
                continue
            keys, revisions[cluster] = store.changes(cluster=cluster, since=before)
            keys = keys.select(KEY).filter(pl.col("submit") >= self.since)
            if keys.height > _MANY:
                return JobRows.read(store, self.since)
            if keys.height:
                changed.append(_read_again(store, cluster, keys))
        # From the last second on, as it may not have been over.
        assessments = store.assessments(since=max(self.assessed_until, self.since), columns=_FROM_STORE)
        assessed = _newest(assessments).join(
            self._known(), on=[*KEY, *ASSESSMENT_COLUMNS], how="anti", nulls_equal=True
        )
        if not changed and assessed.is_empty():
            same = revisions == self.revisions and removals == self.removals
            return self if same else replace(self, revisions=revisions, removals=removals)
        newest: Any = assessments["made_at"].max()
        frame = self._replaced(changed, assessed)
        return JobRows(frame, self.since, revisions, max(self.assessed_until, newest or 0), removals)

    def _known(self) -> pl.DataFrame:
        """Return the assessments of the newest second that are here already."""
        recent = self.frame.filter(pl.col("made_at") >= self.assessed_until)
        return recent.select(*KEY, *ASSESSMENT_COLUMNS)

    def _replaced(self, changed: list[pl.DataFrame], assessed: pl.DataFrame) -> pl.DataFrame:
        """Return the frame with changed records and newer assessments."""
        frame = self.frame.drop("warns")
        if changed:
            records = pl.concat(changed)
            before = frame.select(*KEY, *ASSESSMENT_COLUMNS)
            new = records.join(before, on=KEY, how="left")
            frame = pl.concat(
                [frame.join(records.select(KEY), on=KEY, how="anti"), new.select(frame.columns)]
            )
        if assessed.height:
            kept = frame.join(assessed.select(KEY), on=KEY, how="anti")
            new = frame.drop(ASSESSMENT_COLUMNS).join(assessed, on=KEY, how="inner")
            frame = pl.concat([kept, new.select(frame.columns)])
        return _in_order(frame)


def _removals(store: Store) -> dict[str, int]:
    return {cluster: store.removals(cluster=cluster) for cluster in store.clusters()}


def _read_again(store: Store, cluster: str, keys: pl.DataFrame) -> pl.DataFrame:
    columns = list(JOB_COLUMNS)
    earliest: Any = keys["submit"].min()
    frames = store.scan(
        cluster=cluster, since=earliest, job_ids=keys["job_id"].unique().to_list(), columns=columns
    )
    empty = pl.DataFrame(schema={name: _SCHEMA[name] for name in columns})
    return pl.concat([empty, *(frame.select(columns) for frame in frames)]).join(keys, on=KEY, how="semi")


def _newest(assessments: pl.DataFrame) -> pl.DataFrame:
    """Keep the newest assessment of each job; the store returns them in order of time."""
    return assessments.unique(KEY, keep="last", maintain_order=True)


def stored_model(text: str | None) -> str | None:
    """Return the model of a stored assessment, as `save_assessments` writes it; None: no model was asked."""
    return None if text in (None, "none") else text.removesuffix("/None")  # which earlier versions wrote


def _in_order(frame: pl.DataFrame) -> pl.DataFrame:
    warns = (pl.col("probability") >= pl.col("threshold")).alias("warns")
    return frame.sort("submit", "cluster", "job_id", descending=[True, False, False]).with_columns(warns)
