"""All checks, in an order in which each one needs those before it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from forewarn.config import Config
from forewarn.errors import ForewarnError, SchedulerError, UsageError
from forewarn.operate.doctor import models, notices, permissions, service, slurm, slurmrestd, store
from forewarn.operate.doctor.findings import DoctorFinding, Severity
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.connect import choose_scheduler, clock_of, connect
from forewarn.sources.slurm.retry import RetryPolicy
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.sources.slurmrestd.client import SlurmrestdScheduler

Check = tuple[str, Callable[[], Iterator[DoctorFinding]]]


def examine(
    config: Config, *, environ: Mapping[str, str] = os.environ, clock: Clock | None = None
) -> Iterator[DoctorFinding]:
    """Yield each finding as soon as it is known; checks that need a failed one are skipped."""
    wall_clock = clock or Clock()
    try:
        clock = clock or clock_of(config)
        way = choose_scheduler(config, environ)
        # One attempt without retries: the user waits for the answer.
        scheduler = connect(config, environ=environ, clock=clock, retry=RetryPolicy(tries=1, clock=clock))
    except UsageError as error:
        yield DoctorFinding("config", Severity.PROBLEM, str(error))
    else:
        places = {
            "slurmrestd": f"connection to Slurm: slurmrestd, {config.slurmrestd}",
            "commands": "connection to Slurm: commands, sacct, scontrol and sdiag on PATH",
            "simulator": f"a simulated cluster, no Slurm: scenario {config.simulator}, seed "
            f"{config.simulator_seed}, {config.simulator_speed:g} times the speed of the wall clock",
        }
        yield DoctorFinding("config", Severity.FINE, places[way])
        try:
            yield from _run(_checks(scheduler, environ, clock))
        finally:
            scheduler.close()
    yield from _run(_own_checks(config, environ, clock or wall_clock, wall_clock))


def _checks(scheduler: Scheduler, environ: Mapping[str, str], clock: Clock) -> Iterator[Check]:
    if isinstance(scheduler, SlurmrestdScheduler):
        session = scheduler.session
        yield "address", lambda: slurmrestd.reachable(session)
        yield "token", lambda: slurmrestd.token(session, clock)
        yield "api", lambda: slurmrestd.version(session)
    yield "controller", lambda: slurm.controller(scheduler, clock)
    yield "accounting", lambda: slurm.accounting(scheduler, clock)
    yield "jwt key", lambda: slurm.key(environ)


def _own_checks(
    config: Config, environ: Mapping[str, str], clock: Clock, wall_clock: Clock
) -> Iterator[Check]:
    """List the checks that need no Slurm. The service lives by the wall clock, a simulated cluster not."""
    yield "store", lambda: store.store(config, clock)
    yield "registry", lambda: models.registry(config)
    yield "model", lambda: models.models(config, clock)
    yield "service", lambda: service.service(config, environ, wall_clock)
    yield "permissions", lambda: permissions.permissions(config, environ)
    yield "notices", lambda: notices.notices(config.notices)


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
        except OSError as error:  # such as a folder that this user may not look into
            place = f"{error.filename}: " if error.filename else ""
            yield DoctorFinding(name, Severity.UNKNOWN, f"not checked: {place}{error.strerror or error}")
