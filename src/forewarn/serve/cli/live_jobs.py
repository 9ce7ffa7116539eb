"""What commands about live jobs share: which jobs, and what is said of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.errors import LearningError, UsageError
from forewarn.serve.cli.common import Decorator, configured

if TYPE_CHECKING:
    from forewarn.assess.assessment import Assessment

pending_option: Decorator = click.option("--pending", is_flag=True, help="All jobs that wait.")
running_option: Decorator = click.option("--running", is_flag=True, help="All jobs that run.")
user_option: Decorator = click.option(
    "-u", "--user", metavar="NAME", help="Jobs of this user that wait or run."
)


@contextmanager
def said_of(
    home: Path | None,
    job_ids: tuple[str, ...],
    *,
    pending: bool = False,
    running: bool = False,
    user: str | None = None,
    whole: bool = False,
    needs_model: bool = False,
) -> Iterator[list[Assessment]]:
    """What is said of the jobs asked for, in brief or with reasons and advice.

    An error of those that Slurm does not know, and with `needs_model` where no model serves and no risk is
    stated for any job, comes at the end, when the others have been told of.
    """
    if bool(job_ids) == bool(pending or running or user):
        raise UsageError("say which jobs: ids, or --pending, --running, -u NAME")
    from forewarn.learn.serving import Serving
    from forewarn.operate.advise import advise
    from forewarn.operate.predict import Wanted, predict, store_of_live, unknown_job
    from forewarn.serve.cli.progress import working
    from forewarn.sources.connect import connect

    config = configured(home=home)
    zone, now = config.of_cluster(config.cluster).timezone, int(time.time())
    serving = Serving(config.home / "models")
    unknown: list[str] = []
    how: dict[str, Any] = {"at": now, "timezone": zone, "unknown": unknown, "working": working}
    with (
        closing(connect(config)) as scheduler,
        store_of_live(config, scheduler.cluster, serving, at=now) as store,
    ):
        if whole:
            said = advise(store, scheduler, serving, job_ids, **how)
        else:
            wanted = Wanted(job_ids=job_ids, pending=pending, running=running, user=user)
            said = predict(store, scheduler, serving, wanted, **how)
    if said or not unknown:
        yield said
    if unknown:
        raise unknown_job(*unknown)
    if said and not any(one.failure or one.route.model for one in said):
        served = {name.cluster for name in serving.names()}
        nobody = [one.cluster for one in said if one.phase != "ended" and one.cluster not in served]
        if nobody and needs_model:
            raise LearningError(f"no model serves {nobody[0]} yet: `forewarn train` makes one")
