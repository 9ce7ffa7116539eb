"""What commands about live jobs share: which jobs, and what is said of them."""

from __future__ import annotations

import getpass
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.errors import UsageError
from forewarn.serve.cli.common import Decorator, configured, store_of

if TYPE_CHECKING:
    from forewarn.assess.assessment import Assessment

pending_option: Decorator = click.option("--pending", is_flag=True, help="All jobs that wait.")
running_option: Decorator = click.option("--running", is_flag=True, help="All jobs that run.")
user_option: Decorator = click.option(
    "-u", "--user", metavar="NAME", help="Jobs of this user that wait or run."
)


def said_of(
    home: Path | None,
    job_ids: tuple[str, ...],
    *,
    pending: bool = False,
    running: bool = False,
    user: str | None = None,
    whole: bool = False,
) -> list[Assessment]:
    """What is said of the jobs asked for, in brief or with reasons and advice."""
    if bool(job_ids) == bool(pending or running or user):
        raise UsageError("say which jobs: ids, or --pending, --running, -u NAME")
    from forewarn.learn.serving import Serving
    from forewarn.operate.advise import advise
    from forewarn.operate.predict import Wanted, predict
    from forewarn.sources.connect import connect

    config = configured(home=home)
    zone, now = config.of_cluster(config.cluster).timezone, int(time.time())
    serving = Serving(config.home / "models")
    with store_of(config) as store, closing(connect(config)) as scheduler:
        if whole:
            viewer = getpass.getuser()
            return advise(store, scheduler, serving, job_ids, at=now, timezone=zone, viewer=viewer)
        wanted = Wanted(job_ids=job_ids, pending=pending, running=running, user=user)
        return predict(store, scheduler, serving, wanted, at=now, timezone=zone)
