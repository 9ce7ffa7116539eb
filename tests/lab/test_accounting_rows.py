"""What accounting tells too early, or in a form of its own: incomplete rows, and what is left of arrays."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from forewarn.config import Config
from forewarn.job.arrays import split_arrays
from forewarn.sources.commands import CommandScheduler
from forewarn.sources.slurm.connect import connect
from forewarn.sources.slurm.scheduler import Scheduler
from lab.cluster import Lab
from lab.jobs import records, submit, wait_ended, wait_until
from tests.lab.conftest import LABS
from tests.lab.test_features_live import waiting

ROUNDS = 3


@pytest.fixture(params=["slurmrestd", "commands"])
def scheduler(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Scheduler]:
    config = Config(cluster="lab", slurmrestd=lab.rest_url, slurm_user="root", scheduler=request.param)
    path = f"{lab.state / 'bin'}:{os.environ['PATH']}"
    with closing(connect(config, environ={"PATH": path, "SLURM_JWT": lab.token("root")})) as opened:
        yield opened


@pytest.mark.parametrize("lab", [LABS["22.05"]], indirect=True, scope="session")
def test_what_is_asked_about_too_early(lab: Lab, scheduler: Scheduler) -> None:
    """22.05 tells slurmdbd of a job some seconds after its start, of its steps and its end at once."""
    asked, given = 0, []
    for _ in range(ROUNDS):
        array = submit(lab, "erin", "-J", "soon over", "--array=0-1", script="true")
        own = [array, array + 1]  # the numbers of its tasks, which are all that such a row has
        wait_until(lambda own=own: bool(records(lab, own)), 30, "accounting has heard of it", every=0.1)  # type: ignore[misc]
        before = [record for record in records(lab, own) if not record.whole]
        given += [batch.frame for batch in scheduler.accounting_records([str(job) for job in own])]
        after = [record for record in records(lab, own) if not record.whole]
        asked += bool(before and after)
        wait_ended(lab, [array])
        job_rows = [
            row for batch in scheduler.accounting_records([str(array)]) for row in batch.frame["job_id"]
        ]
        assert sorted(job_rows) == [f"{array}_0", f"{array}_1"]
    assert asked, "slurmdbd had half a record when it was asked"
    seen = [row for frame in given for row in frame.iter_rows(named=True)]
    assert [row for row in seen if row["name"] != "soon over" or row["array_job_id"] is None] == []


def test_an_array_that_is_cancelled_while_it_waits(lab: Lab, scheduler: Scheduler) -> None:
    """It is its tasks, and keeps no other job's script from being read."""
    since = int(time.time())
    ended = submit(lab, "erin", script="true # beside an array")
    wait_ended(lab, [ended])
    with waiting(lab):
        array = submit(lab, "erin", "--array=0,2-3%2", script="true")
        wait_until(lambda: bool(records(lab, [array])), 60, "accounting has heard of it")
        lab.run("erin", "scancel", str(array))
    wait_ended(lab, [array])
    frames = [split_arrays(piece.batch.frame) for piece in scheduler.history(since)]
    job_rows = {row["job_id"]: row for frame in frames for row in frame.iter_rows(named=True)}
    assert [job_rows[f"{array}_{n}"]["outcome"] for n in (0, 2, 3)] == ["cancelled"] * 3
    if lab.settings.version != "22.05" or isinstance(scheduler, CommandScheduler):  # v0.0.38 has no scripts
        assert job_rows[str(ended)]["script_hash"] is not None
