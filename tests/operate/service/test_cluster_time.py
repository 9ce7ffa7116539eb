"""What is done "now" is done at the time of the cluster, which a simulated one's jobs have."""

from __future__ import annotations

from pathlib import Path
from time import time

from forewarn.config import Config
from forewarn.operate.upkeep.erase import erase_user
from forewarn.operate.upkeep.prune import prune
from forewarn.operate.workspace import Workspace
from forewarn.sources.slurm.clock import Clock
from forewarn.store.base import ClusterFacts
from forewarn.store.opening import location_of
from tests.operate.test_engine import job, write_jobs

YEAR = 365 * 86400


class FastWorkspace(Workspace):
    """A workspace whose cluster is a year ahead of the wall clock."""

    @property
    def clock(self) -> Clock:
        """The cluster's clock."""
        return Clock(now=lambda: time() + YEAR)


def add_job(workspace: Workspace, number: int, submit: int) -> None:
    with workspace.writing().writing() as writer:
        writer.describe_cluster("alps", ClusterFacts())
    write_jobs(
        workspace.writing(),
        job(number, submit=submit, start=submit, end=submit + 1, user="zoe", outcome="completed"),
    )


def jobs(workspace: Workspace) -> list[str]:
    return [str(name) for frame in workspace.reading().scan(cluster="alps") for name in frame["job_id"]]


def test_erased_jobs_of_a_fast_cluster_do_not_come_back(tmp_path: Path) -> None:
    with FastWorkspace(Config(home=tmp_path)) as workspace:
        submit = workspace.now() - 100
        add_job(workspace, 1, submit)
        location_of(workspace.config).open_people().close()
        erase_user(workspace, "zoe")
        add_job(workspace, 1, submit)
        assert jobs(workspace) == []
        add_job(workspace, 2, workspace.now() + 100)
        assert jobs(workspace) == ["2"], "later jobs are recorded"
        with location_of(workspace.config).open_people() as people:
            (line,) = people.entries("audit")
    assert abs(line.at - time()) < 60, "an audit line has the time at which a person did it"


def test_jobs_are_pruned_by_the_time_of_the_cluster(tmp_path: Path) -> None:
    with FastWorkspace(Config(home=tmp_path, history_kept=30, audit_kept=30)) as workspace:
        add_job(workspace, 1, workspace.now() - 60 * 86400)
        add_job(workspace, 2, workspace.now() - 100)
        with location_of(workspace.config).open_people() as people:
            people.add("audit", {"action": "x"}, at=int(time()) - 86400)
        result = prune(workspace)
        assert (jobs(workspace), result.jobs, result.entries) == (["2"], {"alps": 1}, {})


def test_lists_and_trends_end_at_the_time_of_the_cluster(tmp_path: Path) -> None:
    with FastWorkspace(Config(home=tmp_path)) as workspace:
        add_job(workspace, 1, workspace.now() - 40 * 86400)
        add_job(workspace, 2, workspace.now() - 100)
        assert [one.job["job_id"] for one in workspace.job_list().page().jobs] == ["2"]
        assert sum(row.figures.jobs for row in workspace.trends().trend(every="day").rows) == 1
