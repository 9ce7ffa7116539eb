"""How jobs ended, by user, partition, week or any other field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import polars as pl

from forewarn.errors import UsageError
from forewarn.features.labels import fails
from forewarn.job.outcomes import POLICIES
from forewarn.serve.cli.fields import chosen, columns_of, written
from forewarn.serve.cli.output import print_json, print_table, say, share

# Of the submit time as it is written, in the clock of the job's cluster.
_TIMES: Mapping[str, str] = MappingProxyType({"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m"})
_LABEL_COLUMNS = ("outcome", "start", "end", "suspended", "time_limit")
_BAR = 24  # characters of the longest bar
LIMIT = 50  # jobs or groups that are shown where nobody says how many


def columns_for(by: str) -> list[str]:
    """The columns of the store that a breakdown needs."""
    fields = ("submit",) if by in _TIMES else chosen(by, option="--by")
    if len(fields) > 1:
        raise UsageError(f"--by: one field at a time, not {by!r}")
    return list(dict.fromkeys([*columns_of(fields), *_LABEL_COLUMNS]))


def broken_down(
    frames: Iterable[pl.DataFrame], by: str, zones: Mapping[str, str], policy: str
) -> pl.DataFrame:
    """One row a group: its jobs, those that the policy judges, and those of them that failed."""
    if by in _TIMES:
        group = written("submit", zones, exact=False).str.to_datetime().dt.strftime(_TIMES[by])
    else:
        group = written(by, zones, exact=False)
    counts = [
        pl.len().cast(pl.Int64).alias("jobs"),
        pl.col("failed").is_not_null().sum().cast(pl.Int64).alias("judged"),
        pl.col("failed").sum().cast(pl.Int64),
    ]
    parts = [
        frame.select(group.alias(by), fails(POLICIES[policy]).alias("failed")).group_by(by).agg(counts)
        for frame in frames
    ]
    if not parts:
        return pl.DataFrame(schema={by: pl.String, "jobs": pl.Int64, "judged": pl.Int64, "failed": pl.Int64})
    total = pl.concat(parts).group_by(by).agg(pl.all().sum())
    return total.sort(by) if by in _TIMES else total.sort("jobs", by, descending=[True, False])


def print_breakdown(table: pl.DataFrame, by: str, policy: str, limit: int | None, *, as_json: bool) -> None:
    """The groups with most jobs, or the newest times, with the share that failed as a bar.

    Without a limit all times, but not all groups; 0 is all.
    """
    if by in _TIMES:
        shown, which = table.tail(limit) if limit else table, "newest"
    else:
        limit = LIMIT if limit is None else limit
        shown, which = table.head(limit) if limit else table, "first"
    if as_json:
        for row in shown.iter_rows(named=True):
            print_json(row)
        return
    if shown.is_empty():
        say("no such jobs")
        return
    rates = [failed / judged if judged else 0.0 for _, _, judged, failed in shown.iter_rows()]
    scale = _BAR / max([*rates, 0.01])
    print_table(
        (by, "jobs", "failed", "share", ""),
        [
            (group, f"{jobs:,}", f"{failed:,}", share(failed, judged), bar(rate * scale))
            for (group, jobs, judged, failed), rate in zip(shown.iter_rows(), rates, strict=True)
        ],
        right=("jobs", "failed", "share"),
        drop=[""],
    )
    more = f"; the {which} {limit} of {table.height:,}" if shown.height < table.height else ""
    say(f"failed under policy {policy}, share of the jobs that it judges{more}")


def bar(length: float) -> str:
    """A bar of so many characters.

    >>> bar(2.5)
    '██▌'
    """
    eighths = round(length * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
