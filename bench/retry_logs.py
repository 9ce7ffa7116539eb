"""Retry verdicts on real logs, where only what users did can be judged.

    python bench/retry_logs.py /path/to/data [--most 3000] [--logs ctc,graham] [--least 0.25]

Each job of the later half of a log that is a resubmission of a failed one is a case: the failed job is judged
with what was known when it had ended (no model, no log files), and the resubmission says what became of it.
All resubmissions of one failed job count as one case. Two tables:

1. The cases by verdict: where it says to stop, as the user did (the same change, or none), or with another
   change than the user's. Nothing is estimated here.
2. Policies, for the next attempt only: what a policy would have done in each case is estimated by the
   observed resubmissions of that kind, with the same cause and attempt, in the same period (matching). Users
   choose what they resubmit and may correct it in between, so the rates are upper bounds of what a machine
   would reach, for every policy alike.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from forewarn.assess.post_mortem.explain import explain
from forewarn.assess.retry.chain import attempt_chain
from forewarn.assess.retry.decide import decide
from forewarn.assess.retry.experience import LAST_ATTEMPT, RetryExperience
from forewarn.assess.retry.resubmissions import COLUMNS, RequestChange, completed_column, resubmissions
from forewarn.assess.retry.situation import LEAST_CHANCE, RetrySituation
from forewarn.assess.retry.verdict import RetryAction
from forewarn.job.columns import to_records
from forewarn.job.record import Job
from forewarn.sources.base import SourceOptions, open_source
from forewarn.store.base import KNOWN_AT

LOGS = {
    "ctc": "swf:swf/CTC-SP2-1996-3.1-cln.swf.gz",
    "sdsc-sp2": "swf:swf/SDSC-SP2-1998-4.2-cln.swf.gz",
    "lanl": "swf:swf/LANL-CM5-1994-4.1-cln.swf.gz",
    "thunder": "swf:swf/LLNL-Thunder-2007-1.1-cln.swf.gz",
    "graham": "sacct:modern/graham-2021.sacct.gz",
}
WEEK = 7 * 86_400
FEWEST = 8  # cases that a rate is taken from
MORE = {RequestChange.MEMORY, RequestChange.TIME, RequestChange.BOTH}
# The changes that count as an action.
DONE_BY: Mapping[str, frozenset[str]] = {
    RetryAction.RETRY: frozenset({RequestChange.NONE}),
    RetryAction.ANOTHER_NODE: frozenset({RequestChange.NONE}),
    RetryAction.MORE_MEMORY: frozenset({RequestChange.MEMORY, RequestChange.BOTH}),
    RetryAction.MORE_TIME: frozenset({RequestChange.TIME, RequestChange.BOTH}),
    "doubling": frozenset(MORE),
}


@dataclass(frozen=True)
class Case:
    """A resubmission, what the verdict would have said, and what became of it."""

    cause: str
    attempt: int
    change: str
    action: str  # of the verdict
    completed: bool
    hours: float  # CPU hours that it took


def jobs_of(spec: str, folder: Path, name: str) -> pl.DataFrame:
    source, path = spec.split(":", 1)
    batches = open_source(f"{source}:{folder / path}", SourceOptions(cluster=name)).batches()
    jobs = pl.concat([batch.frame for batch in batches if batch.kind == "job"])
    ended = jobs.filter(pl.col("outcome").is_not_null()).unique(["job_id", "submit"], keep="last")
    return ended.with_columns(pl.col("end").alias(KNOWN_AT))


def cases(jobs: pl.DataFrame, most: int, least: float) -> Iterator[Case]:
    """Judge the resubmissions of the later half of a log, in order of time."""
    found = resubmissions(jobs.select(COLUMNS)).with_columns(completed=completed_column())
    middle = int(found["submit"].median() or 0)  # type: ignore[arg-type]
    later = found.filter(
        (pl.col("submit") >= middle)
        & pl.col("before_cause").is_not_null()
        & pl.col("completed").is_not_null()
    )
    # One of the resubmissions of each failed job, so that a bulk is one case.
    later = later.sample(fraction=1.0, shuffle=True, seed=1).unique("before_row", keep="first")
    later = later.sort("submit", "job_id")
    if later.height > most:
        later = later[np.sort(np.random.default_rng(1).choice(later.height, most, replace=False))]
    columns = [name for name in jobs.columns if name in Job.__dataclass_fields__]
    records = {(job.job_id, job.submit): job for job in to_records(jobs.select(columns), Job)}
    own = {user: part.sort("submit") for (user,), part in jobs.select(COLUMNS).group_by("user")}
    submits = dict(zip(found["row"], found["submit"], strict=True))
    week, experience = -1, RetryExperience.none()
    for row in later.iter_rows(named=True):
        if row["submit"] // WEEK != week:
            week = row["submit"] // WEEK
            experience = known_at(jobs, row["submit"])
        failed = records[row["before_job_id"], submits[row["before_row"]]]
        again = records[row["job_id"], row["submit"]]
        since = failed.submit - 30 * 86_400
        recent = own[row["user"]].filter(pl.col("submit").is_between(since, failed.submit))
        situation = RetrySituation(
            job=failed,
            report=explain(failed),
            experience=experience,
            chain=attempt_chain(recent, failed),
            least_chance=least,
        )
        cpus = again.cpus_given or again.cpus_asked or 1
        yield Case(
            cause=row["before_cause"],
            attempt=min(row["attempt"], LAST_ATTEMPT),
            change=row["change"],
            action=str(decide(situation).verdict),
            completed=row["completed"],
            hours=(again.run_time or 0) * cpus / 3600,
        )


def known_at(jobs: pl.DataFrame, at: int) -> RetryExperience:
    """Count the resubmissions of what was known at a moment."""
    known = pl.col(KNOWN_AT) < at
    ends = ("end", "outcome", "exit_code", "exit_signal", "max_memory", KNOWN_AT)
    seen = jobs.filter(pl.col("submit") < at).select(COLUMNS)
    return RetryExperience.of(seen.with_columns(pl.when(known).then(pl.col(name)) for name in ends))


def by_verdict(name: str, found: Sequence[Case]) -> str:
    """Return the row of the first table."""
    stop = [one for one in found if one.action in (RetryAction.DO_NOT_RETRY, RetryAction.CANNOT_SAY)]
    same = [one for one in found if one.change in DONE_BY.get(one.action, frozenset())]
    other = [one for one in found if one not in stop and one not in same]
    cells = [f"{len(found):,}, {rate(found):.0%}"]
    for some in (same, other, stop):
        cells.append(f"{len(some):,}, {rate(some):.0%}" if some else "0")
    wasted = [sum(o.hours for o in some if not o.completed) for some in (stop, found)]
    gained = [sum(o.hours for o in some if o.completed) for some in (stop, found)]
    shares = [f"{part / max(whole, 1e-9):.0%}" for part, whole in (wasted, gained)]
    return f"| {name} | {' | '.join(cells)} | {' | '.join(shares)} |"


def rate(some: Sequence[Case]) -> float:
    return sum(o.completed for o in some) / max(len(some), 1)


def policies(name: str, found: Sequence[Case]) -> Iterator[str]:
    """Yield the rows of the second table."""
    for policy in ("always", "doubling", "verdict"):
        tried = completed = wasted = unjudged = 0.0
        for one in found:
            action = {"always": str(RetryAction.RETRY), "doubling": "doubling"}.get(policy, one.action)
            if action not in DONE_BY:
                continue
            like = matched(found, one, DONE_BY[action])
            if like is None:
                unjudged += 1
                continue
            tried += 1
            completed += like[0]
            wasted += like[1]
        cells = (f"{tried:,.0f}", f"{completed:,.0f}", f"{tried / max(completed, 1e-9):.2f}")
        hours = f"{wasted / max(completed, 1e-9):,.1f}"
        yield f"| {name} | {policy} | {' | '.join(cells)} | {hours} | {unjudged:,.0f} |"


_MATCHED: dict[tuple[int, str, int, frozenset[str]], tuple[float, float] | None] = {}


def matched(found: Sequence[Case], one: Case, changes: frozenset[str]) -> tuple[float, float] | None:
    """Return the rate, and the CPU hours wasted, of observed resubmissions of a kind like this one."""
    key = id(found), one.cause, one.attempt, changes
    if key not in _MATCHED:
        alike = [o for o in found if o.cause == one.cause and o.change in changes]
        near = [o for o in alike if o.attempt == one.attempt]
        some = near if len(near) >= FEWEST else alike
        lost = sum(o.hours for o in some if not o.completed)
        _MATCHED[key] = (rate(some), lost / len(some)) if len(some) >= FEWEST else None
    return _MATCHED[key]


def main(folder: Path, logs: Sequence[str], most: int, least: float) -> None:
    found = {name: list(cases(jobs_of(LOGS[name], folder, name), most, least)) for name in logs}
    print("| log | cases, completed | as the verdict says | with another change | verdict: do not retry | "
          "of the wasted CPU hours avoided | of the useful ones given up |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for name, some in found.items():
        print(by_verdict(name, some))
    print("\n| log | policy | attempts | completed | attempts each | wasted CPU hours each | not judged |")
    print("|---|---|---|---|---|---|---|")
    for name, some in found.items():
        for line in policies(name, some):
            print(line)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--logs", default=",".join(LOGS))
    parser.add_argument("--most", type=int, default=3000)
    parser.add_argument("--least", type=float, default=LEAST_CHANCE)
    args = parser.parse_args()
    main(args.folder, args.logs.split(","), args.most, args.least)
