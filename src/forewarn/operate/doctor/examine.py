"""All checks, in an order in which each one needs those before it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from forewarn.config import Config
from forewarn.errors import ForewarnError, SchedulerError, UsageError
from forewarn.operate.doctor import slurm, slurmrestd, store
from forewarn.operate.doctor.findings import DoctorFinding, Severity
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.connect import choose_scheduler, connect
from forewarn.sources.slurm.retry import RetryPolicy
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.sources.slurmrestd.client import SlurmrestdScheduler

Check = tuple[str, Callable[[], Iterator[DoctorFinding]]]


def examine(
    config: Config, *, environ: Mapping[str, str] = os.environ, clock: Clock | None = None
) -> Iterator[DoctorFinding]:
    """Yield each finding as soon as it is known; checks that need a failed one are skipped."""
    clock = clock or Clock()
    try:
        way = choose_scheduler(config, environ)
        # One attempt without retries: the user waits for the answer.
        scheduler = connect(config, environ=environ, clock=clock, retry=RetryPolicy(tries=1, clock=clock))
    except UsageError as error:
        yield DoctorFinding("config", Severity.PROBLEM, str(error))
    else:
        place = config.slurmrestd if way == "slurmrestd" else "sacct, scontrol and sdiag on PATH"
        yield DoctorFinding("config", Severity.FINE, f"connection to Slurm: {way}, {place}")
        try:
            yield from _run(_checks(scheduler, environ, clock))
        finally:
            scheduler.close()
    yield store.writable(config)


def _checks(scheduler: Scheduler, environ: Mapping[str, str], clock: Clock) -> Iterator[Check]:
    if isinstance(scheduler, SlurmrestdScheduler):
        session = scheduler.session
        yield "address", lambda: slurmrestd.reachable(session)
        yield "token", lambda: slurmrestd.token(session, clock)
        yield "api", lambda: slurmrestd.version(session)
    yield "controller", lambda: slurm.controller(scheduler, clock)
    yield "accounting", lambda: slurm.accounting(scheduler, clock)
    yield "jwt key", lambda: slurm.key(environ)


def _run(checks: Iterator[Check]) -> Iterator[DoctorFinding]:
    failed = ""
    for name, check in checks:
        # Accounting does not need the controller, and the key needs neither.
        if failed in ("address", "token", "api") and name != "jwt key":
            yield DoctorFinding(name, Severity.UNKNOWN, f"not checked: needs a working {failed}")
            continue
        try:
            yield from check()
        except ForewarnError as error:
            yield DoctorFinding(
                name, Severity.PROBLEM if isinstance(error, SchedulerError) else Severity.UNKNOWN, str(error)
            )
            failed = name
