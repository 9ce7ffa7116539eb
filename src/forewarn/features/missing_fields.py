"""Fields whose absence would reveal the outcome, and fields that a source never has.

A request field can be missing because of how the job ended: in LLNL-Thunder the processors asked for are
missing only for jobs that never ran, all of them failures. A model would learn the bookkeeping, not the
jobs. Such a field is found here, reported, and filled in the features with its most frequent value, which
hides its absence. A field that a log never has (CTC-SP2's requested processors) is replaced by the allocated
value, which is reported too. An allocated value, a feature at start, can be missing in the same way: in
SDSC-BLUE 8,899 jobs that started have no allocated processors, and all of them failed. It is filled with the
requested value. All are stored as the cluster's field treatments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import polars as pl

from forewarn.features import labels
from forewarn.features.slurm_field_differences import without_others
from forewarn.formatting import percent_in_table
from forewarn.job.outcomes import POLICIES
from forewarn.store.base import ClusterFacts, Store

REQUEST_FIELDS = (
    *("cpus_asked", "nodes_asked", "tasks_asked", "memory_asked", "time_limit", "gpus_asked"),
    *("priority", "user", "group", "account", "name", "work_dir", "submit_line", "application"),
    *("partition", "qos", "script_hash", "memory_per"),
    *("script_language", "script_launcher", "script_modules"),
)
STAND_INS: Mapping[str, str] = MappingProxyType({"cpus_asked": "cpus_given", "nodes_asked": "nodes_given"})
# What is given, and what was asked for it. A job that never started was given nothing.
GIVEN: Mapping[str, str] = MappingProxyType(
    {"cpus_given": "cpus_asked", "nodes_given": "nodes_asked", "memory_given": "memory_asked"}
)
_FIELDS = (*REQUEST_FIELDS, *GIVEN)
COLUMNS = (*_FIELDS, "outcome", "start", "end", "suspended")  # of jobs as of their submit
FEWEST = 30  # rows without the field; fewer are not reported
# The absence nearly decides the outcome when the failure rate without the field lies, with its interval,
# in the outer twentieth while the rate with it does not.
NEARLY = 0.05
_Z = 1.96


@dataclass(frozen=True, slots=True)
class MissingField:
    """One field whose absence matters."""

    cluster: str
    field: str
    missing: int
    rows: int
    rate: float | None  # of failure without the field
    base: float | None  # of failure with it
    treatment: Mapping[str, Any]

    @property
    def message(self) -> str:
        """The message for people."""
        if self.rate is None or self.base is None:
            return (
                f"{self.cluster}: no job has {self.field}; {self.treatment['stand_in']} is used instead, "
                "which is known only after the job was placed"
            )
        jobs = "jobs that started" if self.field in GIVEN else "jobs"
        instead = self.treatment.get("stand_in") or repr(self.treatment["fill"])
        rate, base = percent_in_table(self.rate), percent_in_table(self.base)
        return (
            f"{self.cluster}: {self.field} is missing in {self.missing:,} of {self.rows:,} {jobs}. Of those "
            f"with a known outcome {rate} failed, of the others {base}: its absence "
            f"reveals the outcome, so features use {instead} instead"
        )


def find_missing_fields(frames: Iterable[pl.DataFrame], cluster: str) -> list[MissingField]:
    """Find the fields of a cluster's jobs whose absence matters."""
    counted = MissingFieldCounts()
    for frame in frames:
        counted.add(frame)
    return counted.findings(cluster)


def missing_field_report(store: Store, cluster: str) -> list[MissingField]:
    """Run `find_missing_fields` over the stored jobs of a cluster."""
    return find_missing_fields(store.scan("job", view="submit", cluster=cluster, columns=COLUMNS), cluster)


def with_missing_field_treatments(facts: ClusterFacts, findings: Iterable[MissingField]) -> ClusterFacts:
    """Add to a cluster's facts the treatments that the missing fields need, and Slurm's own."""
    kept = dict(without_others(facts).fields)
    found = {f.field: dict(f.treatment) for f in findings if "hide" not in kept.get(f.field, {})}
    return replace(facts, fields=kept | {name: kept.get(name, {}) | how for name, how in found.items()})


class MissingFieldCounts:
    """Counts of rows and failures with and without each field, and of its values."""

    def __init__(self) -> None:
        self.rows = dict.fromkeys(_FIELDS, 0)
        self.judged = dict.fromkeys(_FIELDS, 0)
        self.failed = dict.fromkeys(_FIELDS, 0)
        self.missing = dict.fromkeys(_FIELDS, 0)
        self.judged_without = dict.fromkeys(_FIELDS, 0)
        self.failed_without = dict.fromkeys(_FIELDS, 0)
        self.never_started = 0
        self.values: dict[str, pl.DataFrame] = {}

    def add(self, frame: pl.DataFrame) -> None:
        """Count some jobs, with `COLUMNS` as they were recorded."""
        frame = frame.with_columns(_fails=labels.fails(POLICIES["papers"]))
        started = frame.filter(pl.col("start").is_not_null())
        self.never_started += frame.height - started.height
        self._add(frame, REQUEST_FIELDS)
        self._add(started, tuple(GIVEN))

    def _add(self, frame: pl.DataFrame, fields: tuple[str, ...]) -> None:
        height, judged = frame.height, pl.col("_fails").is_not_null()
        without = frame.select(
            *(pl.col(f).is_null().sum().alias(f"{f} missing") for f in fields),
            *((pl.col(f).is_null() & judged).sum().alias(f"{f} judged") for f in fields),
            *((pl.col(f).is_null() & (pl.col("_fails") == 1)).sum().alias(f"{f} failed") for f in fields),
        ).row(0, named=True)
        for field in fields:
            self.rows[field] += height
            self.judged[field] += height - frame["_fails"].null_count()
            self.failed[field] += int(frame["_fails"].sum())
            self.missing[field] += without[f"{field} missing"]
            self.judged_without[field] += without[f"{field} judged"]
            self.failed_without[field] += without[f"{field} failed"]
            if 0 < without[f"{field} missing"] < height or field in self.values or field in GIVEN:
                self._count_values(field, frame)

    def _count_values(self, field: str, frame: pl.DataFrame) -> None:
        found = frame.select(pl.col(field).drop_nulls().value_counts(sort=True).head(1000)).unnest(field)
        if field in self.values:
            found = pl.concat([self.values[field], found]).group_by(field).agg(pl.col("count").sum())
        self.values[field] = found

    def findings(self, cluster: str) -> list[MissingField]:
        """Return the fields whose absence matters."""
        return [found for field in _FIELDS if (found := self._finding(cluster, field)) is not None]

    def _finding(self, cluster: str, field: str) -> MissingField | None:
        missing, rows = self.missing[field], self.rows[field]
        given = STAND_INS.get(field)
        if rows and missing == rows and given and self.missing[given] < self.rows[given]:
            policy = {"stand_in": given}
            if self.never_started or self.missing[given]:
                # Where the one that stands in is missing too, that must not show.
                policy["fill"] = self._most(given)
            return MissingField(cluster, field, missing, rows, None, None, policy)
        n, k = self.judged_without[field], self.failed_without[field]
        others = self.judged[field] - n
        if n < FEWEST or others < FEWEST:
            return None
        base = (self.failed[field] - k) / others
        low, high = wilson(k, n)
        if not ((low > 1 - NEARLY > base) or (high < NEARLY < base)):
            return None
        policy = {"fill": self._most(field)}
        if field in GIVEN and self.missing[GIVEN[field]] < self.rows[GIVEN[field]]:
            # Not a frequent value: given other than asked is rare, and would show the absence again.
            policy["stand_in"] = GIVEN[field]
        return MissingField(cluster, field, missing, rows, k / n, base, policy)

    def _most(self, field: str) -> Any:
        """Return the most frequent value of a field."""
        return self.values[field].sort("count", field, descending=[True, False])[field][0]


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Compute Wilson's interval of a share.

    >>> [round(x, 3) for x in wilson(98, 100)]
    [0.93, 0.994]
    """
    share, z2 = successes / n, _Z * _Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    spread = _Z / (1 + z2 / n) * (share * (1 - share) / n + z2 / (4 * n * n)) ** 0.5
    return middle - spread, middle + spread
