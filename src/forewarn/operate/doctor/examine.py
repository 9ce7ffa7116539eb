"""The steps, in an order in which each needs those before it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from forewarn.config import Config
from forewarn.errors import ForewarnError, SchedulerError, UsageError
from forewarn.operate.doctor import slurm, slurmrestd, store
from forewarn.operate.doctor.findings import DoctorFinding, Severity
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.connect import connect, how
from forewarn.sources.slurm.retry import RetryPolicy
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.sources.slurmrestd.client import SlurmrestdScheduler

Step = tuple[str, Callable[[], Iterator[DoctorFinding]]]


def examine(
    config: Config, *, environ: Mapping[str, str] = os.environ, clock: Clock | None = None
) -> Iterator[DoctorFinding]:
    """Every finding as soon as it is made; after a problem the steps that need what failed are not taken."""
    clock = clock or Clock()
    try:
        way = how(config, environ)
        # Tried once: whoever waits for the doctor wants to know what is wrong now.
        scheduler = connect(config, environ=environ, clock=clock, patience=RetryPolicy(tries=1, clock=clock))
    except UsageError as error:
        yield DoctorFinding("config", Severity.PROBLEM, str(error))
    else:
        place = config.slurmrestd if way == "slurmrestd" else "sacct, scontrol and sdiag on PATH"
        yield DoctorFinding("config", Severity.FINE, f"Slurm is asked through {way}: {place}")
        try:
            yield from _in_turn(_steps(scheduler, environ, clock))
        finally:
            scheduler.close()
    yield store.writable(config)


def _steps(scheduler: Scheduler, environ: Mapping[str, str], clock: Clock) -> Iterator[Step]:
    if isinstance(scheduler, SlurmrestdScheduler):
        asker = scheduler.asker
        yield "address", lambda: slurmrestd.reachable(asker)
        yield "token", lambda: slurmrestd.token(asker, clock)
        yield "api", lambda: slurmrestd.version(asker)
    yield "controller", lambda: slurm.controller(scheduler, clock)
    yield "accounting", lambda: slurm.accounting(scheduler, clock)
    yield "jwt key", lambda: slurm.key(environ)


def _in_turn(steps: Iterator[Step]) -> Iterator[DoctorFinding]:
    broken = ""
    for name, look in steps:
        # Accounting does not need the controller, nor does the key need either.
        if broken in ("address", "token", "api") and name != "jwt key":
            yield DoctorFinding(name, Severity.UNKNOWN, f"not looked at: it needs the {broken}")
            continue
        try:
            yield from look()
        except ForewarnError as error:
            yield DoctorFinding(
                name, Severity.PROBLEM if isinstance(error, SchedulerError) else Severity.UNKNOWN, str(error)
            )
            broken = name
