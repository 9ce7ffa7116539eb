"""The causes of failure that a retry depends on: of one explained job, and of a column of records.

A post mortem names one of some forty families of causes; for a retry they fall into the few below. A record
alone, as of the thousands of earlier jobs that a success rate is counted over, has only the first of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import polars as pl

from forewarn.assess.retry.verdict import RetryCause
from forewarn.features.labels import ran_to_limit
from forewarn.job.outcomes import SYSTEM_EXIT_CODES, SYSTEM_SIGNALS, Outcome
from forewarn.job.record import Job

AT_ONCE = 60  # seconds; a program that fails within them lacks something from the start


_PERMANENT = (
    *("missing_module", "missing_library", "python_package", "conda", "file_missing", "permission"),
    *("disk_full", "command_missing", "not_executable", "script_syntax", "line_ends", "usage"),
    *("wrong_architecture", "step_launch", "refused", "gpu_memory", "own_time_limit", "deadline"),
    *("dependency", "gpu"),
)
_OF_FAMILY: Mapping[str, RetryCause] = MappingProxyType(
    {
        "out_of_memory": RetryCause.MEMORY,
        "time_limit": RetryCause.TIME,
        "preempted": RetryCause.PREEMPTED,
    }
    | dict.fromkeys(("node_failure", "gpu_hardware"), RetryCause.NODE)
    | dict.fromkeys(("network", "file_system", "outage", "license", "launch"), RetryCause.PASSING)
    | dict.fromkeys(_PERMANENT, RetryCause.PERMANENT)
)  # any other family, and a cause that is not known: the program itself


def cause_of(job: Job, family: str | None) -> RetryCause:
    """Return the cause of a failed job by the family that its post mortem found likely.

    >>> job = Job(cluster="c", job_id="1", submit=0, start=0, end=4, outcome="failed")
    >>> str(cause_of(job, "missing_module")), str(cause_of(job, None))
    ('permanent', 'at_once')
    """
    found = _OF_FAMILY.get(family or "")
    if found is not None:
        return found
    ran = job.run_time
    return RetryCause.AT_ONCE if ran is not None and ran <= AT_ONCE else RetryCause.PROGRAM


def cause_column() -> pl.Expr:
    """Build the cause of each record; null for a job that did not fail or whose end tells nothing."""
    outcome = pl.col("outcome")
    failed = outcome == str(Outcome.FAILED)
    by_system = pl.col("exit_code").is_in(SYSTEM_EXIT_CODES) | pl.col("exit_signal").is_in(SYSTEM_SIGNALS)
    # Logs that have no state for time-outs call them failed or cancelled.
    at_limit = outcome.is_in([str(Outcome.FAILED), str(Outcome.CANCELLED)]) & ran_to_limit()
    node = outcome.is_in([str(Outcome.NODE_FAIL), str(Outcome.BOOT_FAIL)])
    ran = pl.col("end") - pl.col("start") - pl.col("suspended").fill_null(0)
    return (
        pl.when(outcome == str(Outcome.OUT_OF_MEMORY))
        .then(pl.lit(str(RetryCause.MEMORY)))
        .when((outcome == str(Outcome.TIMEOUT)) | at_limit)
        .then(pl.lit(str(RetryCause.TIME)))
        .when(node)
        .then(pl.lit(str(RetryCause.NODE)))
        .when(outcome == str(Outcome.PREEMPTED))
        .then(pl.lit(str(RetryCause.PREEMPTED)))
        .when(failed & by_system.fill_null(False))
        .then(pl.lit(str(RetryCause.PASSING)))
        .when(failed & (ran <= AT_ONCE).fill_null(True))
        .then(pl.lit(str(RetryCause.AT_ONCE)))
        .when(failed)
        .then(pl.lit(str(RetryCause.PROGRAM)))
    )
