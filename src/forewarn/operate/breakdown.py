"""Count jobs and failures by user, partition, week or any other field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import polars as pl

from forewarn.errors import UsageError
from forewarn.features.labels import fails
from forewarn.job.outcomes import POLICIES
from forewarn.operate.job_fields import as_text, columns_of, parse_fields
from forewarn.operate.queries import Query, timezones
from forewarn.progress import ShowProgress, no_progress, with_progress
from forewarn.store.base import Store

# Formats of the submit time, in the time zone of the job's cluster.
_TIMES: Mapping[str, str] = MappingProxyType({"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m"})
_LABEL_COLUMNS = ("outcome", "start", "end", "suspended", "time_limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Counts of jobs by group: all jobs, those that the failure policy judges, and failures among these."""

    by: str
    policy: str
    groups: pl.DataFrame  # `by` as text, jobs, judged, failed; times in order, else most jobs first

    @property
    def is_by_time(self) -> bool:
        """Whether the groups are days, weeks or months."""
        return self.by in _TIMES


def break_down(
    store: Store, query: Query, by: str, policy: str, watch: ShowProgress = no_progress
) -> Breakdown:
    """Count jobs and failures by a field of `job_fields.FIELDS`, or by day, week or month of submission."""
    by = by.lower()
    zones = timezones(store)
    counts = [
        pl.len().cast(pl.Int64).alias("jobs"),
        pl.col("failed").is_not_null().sum().cast(pl.Int64).alias("judged"),
        pl.col("failed").sum().cast(pl.Int64),
    ]
    columns, group = _columns(by), _group(by, zones)
    parts = [
        frame.select(group.alias(by), fails(POLICIES[policy]).alias("failed")).group_by(by).agg(counts)
        for frame in with_progress(query.all(store, columns), "counting", watch)
    ]
    schema = {by: pl.String, "jobs": pl.Int64, "judged": pl.Int64, "failed": pl.Int64}
    total = pl.concat([pl.DataFrame(schema=schema), *parts]).group_by(by).agg(pl.all().sum())
    in_order = total.sort(by) if by in _TIMES else total.sort("jobs", by, descending=[True, False])
    return Breakdown(by=by, policy=policy, groups=in_order)


def _columns(by: str) -> list[str]:
    """Return the columns of the store that a breakdown needs."""
    fields = ("submit",) if by in _TIMES else parse_fields(by, option="--by")
    if len(fields) > 1:
        raise UsageError(f"--by: one field at a time, not {by!r}")
    return list(dict.fromkeys([*columns_of(fields), *_LABEL_COLUMNS]))


def _group(by: str, zones: Mapping[str, str]) -> pl.Expr:
    if by in _TIMES:
        return as_text("submit", zones, exact=True).str.to_datetime().dt.strftime(_TIMES[by])
    return as_text(by, zones, exact=False)
