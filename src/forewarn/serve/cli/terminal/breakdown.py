"""Show outcomes by user, partition, week or any other field, as a table with bars."""

from __future__ import annotations

from forewarn.operate.breakdown import Breakdown
from forewarn.serve.cli.terminal.output import print_json, print_table, say, share

_BAR = 24  # characters of the longest bar
LIMIT = 50  # jobs or groups that are shown by default


def print_breakdown(found: Breakdown, limit: int | None, *, as_json: bool) -> None:
    """Print the groups with most jobs, or the newest times, with the share that failed as a bar.

    Without a limit all times are shown, but not all groups; 0 shows all.
    """
    table = found.groups
    if found.is_by_time:
        shown, which = table.tail(limit) if limit else table, "newest"
    else:
        limit = LIMIT if limit is None else limit
        shown, which = table.head(limit) if limit else table, "first"
    if as_json:
        for row in shown.iter_rows(named=True):
            print_json(row)
        return
    if shown.is_empty():
        say("no jobs match")
        return
    rates = [failed / judged if judged else 0.0 for _, _, judged, failed in shown.iter_rows()]
    scale = _BAR / max([*rates, 0.01])
    print_table(
        (found.by, "jobs", "failed", "share", ""),
        [
            (group, f"{jobs:,}", f"{failed:,}", share(failed, judged), bar(rate * scale))
            for (group, jobs, judged, failed), rate in zip(shown.iter_rows(), rates, strict=True)
        ],
        right=("jobs", "failed", "share"),
        drop=[""],
    )
    more = f"; the {which} {limit} of {table.height:,}" if shown.height < table.height else ""
    say(f"failed by failure policy {found.policy}; share of the jobs that this policy counts{more}")


def bar(length: float) -> str:
    """Draw a bar of so many characters.

    >>> bar(2.5)
    '██▌'
    """
    eighths = round(length * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
