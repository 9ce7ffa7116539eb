"""Count jobs and failures by user, partition, week or any other field.

`count_groups` is the one computation of such counts; trends over time (`trend_counts.py`) use it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import polars as pl

from forewarn.errors import UsageError
from forewarn.features.labels import fails
from forewarn.job.outcomes import POLICIES
from forewarn.operate.job_fields import as_text, columns_of, moment_text, parse_fields
from forewarn.operate.queries import Query, timezones
from forewarn.progress import ShowProgress, no_progress, with_progress
from forewarn.store.base import Store

# Formats of a time, in the time zone of the job's cluster. Their texts sort as the times do.
PERIODS: Mapping[str, str] = MappingProxyType({"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m"})
LABEL_COLUMNS = ("outcome", "start", "end", "suspended", "time_limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Counts of jobs by group: all jobs, those that the failure policy judges, and failures among these."""

    by: str
    policy: str
    groups: pl.DataFrame  # `by` as text, jobs, judged, failed; times in order, else most jobs first

    @property
    def is_by_time(self) -> bool:
        """Whether the groups are days, weeks or months."""
        return self.by in PERIODS


def break_down(
    store: Store, query: Query, by: str, policy: str, watch: ShowProgress = no_progress
) -> Breakdown:
    """Count jobs and failures by a field of `job_fields.FIELDS`, or by day, week or month of submission."""
    by = by.lower()
    columns, group = _columns(by), _group(by, timezones(store))
    frames = with_progress(query.all(store, columns), "counting", watch)
    total = count_groups(frames, {by: group}, job_counts(policy))
    in_order = total.sort(by) if by in PERIODS else total.sort("jobs", by, descending=[True, False])
    return Breakdown(by=by, policy=policy, groups=in_order)


def count_groups(
    frames: Iterable[pl.DataFrame], groups: Mapping[str, pl.Expr], sums: Sequence[pl.Expr]
) -> pl.DataFrame:
    """Sum measures of jobs by groups, frame by frame: one row a group, in no order.

    `groups` are texts by name, `sums` aggregate to one number each.
    """
    names = list(groups)
    parts = [
        frame.with_columns(text.alias(f"_{name}") for name, text in groups.items())
        .group_by(f"_{name}" for name in names)
        .agg(sums)
        .rename({f"_{name}": name for name in names})
        for frame in frames
    ]
    if not parts:
        measures = {expression.meta.output_name(): pl.Int64() for expression in sums}
        return pl.DataFrame(schema={**dict.fromkeys(names, pl.String()), **measures})
    return pl.concat(parts).group_by(names).agg(pl.all().sum())


def job_counts(policy: str) -> list[pl.Expr]:
    """Build the counts of jobs, of those that a failure policy judges, and of failures among these."""
    failed = fails(POLICIES[policy])
    return [
        pl.len().cast(pl.Int64).alias("jobs"),
        failed.is_not_null().sum().cast(pl.Int64).alias("judged"),
        failed.sum().cast(pl.Int64).alias("failed"),
    ]


def _columns(by: str) -> list[str]:
    """Return the columns of the store that a breakdown needs."""
    fields = ("submit",) if by in PERIODS else parse_fields(by, option="--by")
    if len(fields) > 1:
        raise UsageError(f"--by: one field at a time, not {by!r}")
    return list(dict.fromkeys([*columns_of(fields), *LABEL_COLUMNS]))


def _group(by: str, zones: Mapping[str, str]) -> pl.Expr:
    if by in PERIODS:
        return moment_text(pl.col("submit"), zones, PERIODS[by])
    return as_text(by, zones, exact=False)
