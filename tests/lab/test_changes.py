"""Jobs submitted, changed and cancelled by both clients on a real Slurm, as an ordinary user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from forewarn.config import Config
from forewarn.errors import RefusedError, SchedulerError, UsageError
from forewarn.sources.slurm.connect import connect
from forewarn.sources.slurm.job_requests import JobUpdate
from forewarn.sources.slurm.scheduler import DENIED, Scheduler
from forewarn.sources.slurm.script_submission import submission_from_script
from lab.cluster import Lab
from lab.jobs import submit, wait_running
from tests.sources.scheduler_contract import SchedulerContract, rows_of


def opened(lab: Lab, way: str, user: str) -> Scheduler:
    """Return a scheduler that acts as a user."""
    config = Config(cluster="lab", slurmrestd=lab.rest_url, slurm_user=user, scheduler=way)
    path = f"{lab.state / 'bin'}:{os.environ['PATH']}"
    return connect(config, environ={"PATH": path, "SLURM_JWT": lab.token(user), "LAB_USER": user})


@pytest.fixture(params=["slurmrestd", "commands"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def scheduler(lab: Lab, way: str) -> Iterator[Scheduler]:
    with closing(opened(lab, way, "alice")) as found:
        yield found


class TestBothClients(SchedulerContract):
    """The contract of a live scheduler, on each version of Slurm."""

    partition, other_partition = "main", "short"

    @pytest.fixture(autouse=True)
    def _knows_what_22_05_lacks(self, lab: Lab, way: str, request: pytest.FixtureRequest) -> None:
        if lab.settings.version == "22.05" and way == "slurmrestd" and "array" in request.node.name:
            request.applymarker(pytest.mark.xfail(raises=RefusedError, strict=True))


def test_the_memory_of_a_running_job_and_others_jobs_stay(lab: Lab, scheduler: Scheduler, way: str) -> None:
    mine, other = (submit(lab, user, "-t", "9", script="sleep 60") for user in ("alice", "bob"))
    try:
        wait_running(lab, mine)
        with pytest.raises(RefusedError):
            scheduler.update(str(mine), JobUpdate(memory_per_node=300 << 20))
        with pytest.raises(RefusedError):
            scheduler.update(str(mine), JobUpdate(time_limit=3600))
        with pytest.raises(RefusedError) as error:
            scheduler.update(str(other), JobUpdate(time_limit=60))
        assert error.value.code in DENIED
        with pytest.raises(SchedulerError):
            scheduler.cancel(str(other))
        with closing(opened(lab, way, "root")) as operator:
            operator.update(str(mine), JobUpdate(time_limit=1200))
        assert rows_of(scheduler, str(mine))[0]["time_limit"] == 1200
    finally:
        lab.run("root", "scancel", str(mine), str(other))


SCRIPTS = {
    "little": "#SBATCH -n 3",
    "nodes": "#SBATCH -N 2 -c 2",
    "a range": "#SBATCH -N 1-3 --ntasks-per-node=2 --mem-per-cpu=50M",
    "much": (
        "#SBATCH -J much -A teaching -p main --qos=normal -t 1-00:00:00 -n 4 -c 2 --mem=300\n"
        "#SBATCH --output=o.%j --error=e.%j --comment='a b' --nice=7 --no-requeue\n"
        "#SBATCH --mail-type=END,FAIL --mail-user=alice@example.org --array=1-4%2"
    ),
    "exclusive": "#SBATCH --exclusive -N 1 --requeue",
    "depends": "#SBATCH --dependency=singleton -J once",
}
COMPARED = (
    *("JobName", "Account", "QOS", "Partition", "TimeLimit", "NumNodes", "NumCPUs", "NumTasks", "CPUs/Task"),
    *("MinMemoryNode", "MinMemoryCPU", "OverSubscribe", "Requeue", "Dependency", "Comment", "Nice"),
    *("ExcNodeList", "ReqNodeList", "NtasksPerN:B:S:C", "StdOut", "StdErr", "ArrayTaskId"),
    *("ArrayTaskThrottle", "MailUser", "MailType", "ReqTRES", "TRES"),
)


def shown(lab: Lab, job_id: str) -> dict[str, str]:
    """Return what scontrol shows of a job, without its own number."""
    words = lab.run("root", "scontrol", "-o", "show", "job", job_id).replace(job_id, "ID").split()
    pairs = (word.partition("=") for word in words)
    return {name: value for name, _, value in pairs if name in COMPARED}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_over_rest_requests_what_sbatch_does(lab: Lab, name: str) -> None:
    script = f"#!/bin/bash\n#SBATCH --hold\n{SCRIPTS[name]}\nsleep 1\n"
    with closing(opened(lab, "slurmrestd", "alice")) as rest:
        if lab.settings.version == "22.05" and name in ("a range", "much"):
            with pytest.raises(UsageError, match="has no field for"):
                rest.submit(submission_from_script(script, work_dir="/tmp"))
            return
        over_rest = rest.submit(submission_from_script(script, work_dir="/tmp", name="sbatch"))
        by_sbatch = lab.run("alice", "sbatch", "--parsable", "--chdir=/tmp", text=script).strip()
        try:
            ours, theirs = shown(lab, over_rest), shown(lab, by_sbatch)
            if lab.settings.version == "22.05":  # no most nodes over REST
                ours["NumNodes"], theirs["NumNodes"] = ours["NumNodes"][:1], theirs["NumNodes"][:1]
                del ours["TRES"], theirs["TRES"]
            assert ours == theirs
        finally:
            lab.run("root", "scancel", over_rest, by_sbatch)


def test_nodes_over_rest(lab: Lab) -> None:
    node = lab.settings.node_names[0]
    script = f"#!/bin/bash\n#SBATCH --hold -x {node}\ntrue\n"
    with closing(opened(lab, "slurmrestd", "alice")) as rest:
        submission = submission_from_script(script, work_dir="/tmp")
        if lab.settings.version == "22.05":
            with pytest.raises(UsageError, match="no field for --exclude"):
                rest.submit(submission)
            return
        job_id = rest.submit(submission)
        assert shown(lab, job_id)["ExcNodeList"] == node
        other = lab.settings.node_names[1]
        rest.update(job_id, JobUpdate(excluded_nodes=f"{node},{other}"))
        assert other[-1] in shown(lab, job_id)["ExcNodeList"]
        rest.cancel(job_id)
