"""Jobs that slurmdbd knows only by a step and an end so far: nothing is believed of them yet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from forewarn.config import Config
from forewarn.sources.connect import connect
from forewarn.sources.live import Scheduler
from lab.cluster import Lab
from lab.jobs import records, submit, wait_ended, wait_until
from tests.lab.conftest import LABS

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
        given += [batch.frame for batch in scheduler.accounted([str(job) for job in own])]
        after = [record for record in records(lab, own) if not record.whole]
        asked += bool(before and after)
        wait_ended(lab, [array])
        told = [row for batch in scheduler.accounted([str(array)]) for row in batch.frame["job_id"]]
        assert sorted(told) == [f"{array}_0", f"{array}_1"]
    assert asked, "slurmdbd had half a record when it was asked"
    seen = [row for frame in given for row in frame.iter_rows(named=True)]
    assert [row for row in seen if row["name"] != "soon over" or row["array_job_id"] is None] == []
