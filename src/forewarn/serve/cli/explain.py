"""`forewarn explain`: why a job failed, waits, or how it fares."""

from __future__ import annotations

import getpass
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.config import Config
from forewarn.errors import ForewarnError, SchedulerError, StoreError, UsageError
from forewarn.serve.cli.common import configured, home_option, json_option, store_of
from forewarn.serve.cli.output import note, print_json

if TYPE_CHECKING:
    from forewarn.assess.assessment import Assessment
    from forewarn.assess.post_mortem.advice import Forecast
    from forewarn.job.record import Job
    from forewarn.sources.live import Scheduler
    from forewarn.store.base import Store

_TRIES = 2  # a person waits for the answer


@click.command("explain")
@click.argument("job_id", metavar="JOBID")
@home_option
@click.option("-M", "--cluster", metavar="NAME", help="The cluster, where several have such a job.")
@click.option(
    "--log",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Its output, where that is not where Slurm says.",
)
@json_option
def command(job_id: str, home: Path | None, cluster: str | None, log: Path | None, as_json: bool) -> None:
    """Say why a job failed, or why it waits, with the evidence and what to do.

    Its record, its exit code and steps, what happened to its nodes and to other jobs at the time, and the
    lines of its output that match known errors are put together; no language model is asked. The job is
    looked up in the store, then in Slurm where that is within reach. The output is read where Slurm says it
    is, if you may read it.

    \b
    Examples:
      forewarn explain 123456
      forewarn explain 123456_7 --log run.out
      forewarn explain 123456 --json | jq .cause
    """
    from forewarn.assess.post_mortem import explain
    from forewarn.assess.post_mortem.finding import find_job
    from forewarn.assess.wording import Reader
    from forewarn.serve.cli.explain_output import print_report

    config = configured(home=home)
    with _store(config) as store, _scheduler(config) as (scheduler, unreachable):
        cluster = cluster or config.cluster
        found = find_job(job_id, store, scheduler, cluster=cluster, unreachable=unreachable)
        risk = _risk(config, found.job) if store is not None and found.job.outcome is None else None
        report = explain(
            found.job,
            store,
            details=found.details,
            log=log,
            risk=risk,
            foresee=lambda: _forecast(config, found.job),
        )
        zones = {} if store is None else {name: facts.timezone for name, facts in store.clusters().items()}
    reader = Reader.of(found.job.user, getpass.getuser())
    if as_json:
        print_json(report.to_json(reader) | {"notes": [*report.notes, *found.notes]})
        return
    print_report(report, found.job, zones.get(report.cluster, "UTC"), reader)
    for message in (*found.notes, *report.notes):
        note(message)


def _risk(config: Config, job: Job) -> float | None:
    """How likely a job fails that has not ended, where a model can say it."""
    made = _assessed(config, job)
    return made.failure.probability if made and made.failure else None


def _forecast(config: Config, job: Job) -> Forecast:
    """What an ended job needs, were it submitted again, where a model can say it."""
    from forewarn.assess.post_mortem.advice import Forecast, as_requested_now

    made = _assessed(config, as_requested_now(job, int(time.time())))
    return Forecast(
        memory=made.resources.memory_request if made and made.resources else None,
        seconds=made.run_time.seconds.high if made and made.run_time else None,
    )


def _assessed(config: Config, job: Job) -> Assessment | None:
    """What is said of a job in brief; None where there is nobody to say it."""
    from forewarn.operate.once import knowledge
    from forewarn.serve.cli.progress import working

    now, user = int(time.time()), job.user or ""
    try:
        with knowledge(config, cluster=job.cluster, user=user, at=now, working=working) as (_, assessor):
            return assessor.assess_all([job])[0]
    except ForewarnError:
        return None


@contextmanager
def _store(config: Config) -> Iterator[Store | None]:
    """The store, if there is one: Slurm alone can be enough."""
    try:
        store = store_of(config, read_only=True)
    except StoreError:
        yield None
        return
    with store:
        yield store


@contextmanager
def _scheduler(config: Config) -> Iterator[tuple[Scheduler | None, ForewarnError | None]]:
    """The scheduler, where one is configured or its commands are here; else why it cannot be asked."""
    if config.slurmrestd is None and config.scheduler == "auto" and shutil.which("sacct") is None:
        yield None, None
        return
    from forewarn.sources.connect import connect
    from forewarn.sources.patience import Patience

    try:
        connected = connect(config, patience=Patience(tries=_TRIES))
    except (SchedulerError, UsageError) as error:  # no token, a wrong address: the store may know the job
        yield None, error
        return
    with closing(connected) as scheduler:
        yield scheduler, None
