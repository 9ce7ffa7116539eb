"""The chain of attempts that a failed job belongs to: how often its request was tried in a row, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import polars as pl

from forewarn.assess.retry.resubmissions import COLUMNS, RequestChange, empty_jobs, resubmissions
from forewarn.job.record import Job
from forewarn.store.base import KNOWN_AT

_FIELDS = {field.name for field in fields(Job)}


@dataclass(frozen=True, slots=True)
class AttemptChain:
    """The attempts at one request up to a job."""

    attempts: int = 1  # this job included
    same_way: int = 1  # of them, the last in a row with the same cause and exit code
    more_memory: int = 0  # of them, those that requested more memory than the one before
    more_time: int = 0
    request: int | None = None  # its hash, as in the experience


def attempt_chain(own_jobs: pl.DataFrame, job: Job, known: Sequence[Job] = ()) -> AttemptChain:
    """Find the attempts before an ended job among its user's jobs, with the columns of `COLUMNS`.

    `known` are earlier attempts that are not among them.
    """
    if job.user is None:
        return AttemptChain()
    itself = (pl.col("job_id") == job.job_id) & (pl.col("submit") == job.submit)
    records = [
        {name: getattr(one, name) for name in COLUMNS if name in _FIELDS} | {KNOWN_AT: one.end}
        for one in (*known, job)
    ]
    last = pl.DataFrame(records, schema=empty_jobs().schema)
    earlier = own_jobs.select(COLUMNS).filter(~itself & (pl.col("submit") <= job.submit))
    found = resubmissions(pl.concat([earlier.cast(last.schema), last]))
    names = ("row", "before_row", "cause", "exit_code", "exit_signal", "attempt", "request", "change")
    by_row = {row["row"]: row for row in found.select(names).iter_rows(named=True)}
    this = by_row[found.filter(itself)["row"].item()]
    chain = [this]
    while len(chain) < this["attempt"]:
        chain.append(by_row[chain[-1]["before_row"]])
    alike = ("cause", "exit_code", "exit_signal")
    differs = (any(row[name] != this[name] for name in alike) for row in chain)
    same_way = next((number for number, other in enumerate(differs) if other), len(chain))
    # Two failures without exit codes, as in SWF logs, are not known to be the same.
    is_recorded = this["exit_code"] is not None or this["exit_signal"] is not None
    return AttemptChain(
        attempts=this["attempt"],
        same_way=same_way if is_recorded else 1,
        more_memory=sum(row["change"] in (RequestChange.MEMORY, RequestChange.BOTH) for row in chain[:-1]),
        more_time=sum(row["change"] in (RequestChange.TIME, RequestChange.BOTH) for row in chain[:-1]),
        request=this["request"],
    )
