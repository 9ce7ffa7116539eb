"""The simulator as a live scheduler: time moves on, and what users do changes what happens."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from forewarn.config import Config
from forewarn.errors import RefusedError, StoreError, UsageError
from forewarn.job.columns import SCHEMAS
from forewarn.sources.simulator.live.folder import SimulatedTime, WorldFolder
from forewarn.sources.simulator.live.scheduler import SimulatedScheduler
from forewarn.sources.simulator.live.shared_world import SharedWorld
from forewarn.sources.slurm.connect import choose_scheduler, clock_of, connect
from forewarn.sources.slurm.job_requests import JobUpdate
from forewarn.sources.slurm.scheduler import DENIED, UNKNOWN_JOB
from forewarn.sources.slurm.script_submission import submission_from_script
from tests.sources.scheduler_contract import SchedulerContract, rows_of

START = 1_700_000_000.0
DAYS = 10


class Wall:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


class Site:
    """A simulated cluster in a folder, at 60 times the speed of a wall clock that the test moves."""

    def __init__(self, path: Path, *, wall: Wall | None = None, seed: int = 1, speed: float = 60.0) -> None:
        self.wall, self.path = wall or Wall(), path
        folder = WorldFolder(path, wall=self.wall)
        self.world = SharedWorld(folder, folder.open("small", seed=seed, speed=speed, days=DAYS))
        self.alice = SimulatedScheduler(self.world, acting="alice")
        self.root = self.alice.acting_as("root")

    def submit(self, script: str, *options: str) -> str:
        text = f"#!/bin/bash\n{script}\n"
        return self.alice.submit(submission_from_script(text, options, work_dir="/home/alice"))

    def wait(self, hours: float) -> None:
        """Let simulated time pass."""
        self.wall.now += hours * 3600 / 60

    def row(self, job_id: str) -> dict[str, Any]:
        (row,) = rows_of(self.alice, job_id)
        return row

    def history(self, since: int = 0) -> pl.DataFrame:
        return pl.concat([part.batch.frame for part in self.alice.history(since)])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "simulator")


class TestContract(SchedulerContract):
    """The contract of a live scheduler."""

    partition, other_partition = "main", "long"

    @pytest.fixture
    def scheduler(self, site: Site) -> SimulatedScheduler:
        return site.alice


# --- time -----------------------------------------------------------------------------------------


def test_history_and_live_jobs_are_those_of_one_cluster(site: Site) -> None:
    history = site.history()
    now = site.alice.diag().at
    assert now == START
    assert history.height > 1000
    assert history["end"].is_between(now - (DAYS + 1) * 86400, now).all()
    assert history["outcome"].null_count() == 0
    assert history["reconstructed"].all()
    assert dict(history.drop("line").schema) == SCHEMAS["job"]
    assert history.select("job_id").is_unique().all()
    live = next(site.alice.live_jobs()).frame
    assert {"RUNNING"} <= set(live["state"])
    running = live.filter(pl.col("state") == "RUNNING")
    assert running["end"].null_count() == running["outcome"].null_count() == running.height
    assert (running["start"] <= now).all()
    assert running["nodes"].null_count() == 0
    assert (live["seen_at"] == now).all()
    pending = live.filter(pl.col("state") == "PENDING")
    assert pending["nodes_given"].null_count() == pending.height


def test_a_running_job_ends_later_in_the_history(site: Site) -> None:
    before = next(site.alice.live_jobs()).frame.filter(pl.col("state") == "RUNNING")
    assert before.height
    site.wait(24 * 8)
    after = site.history(int(START)).filter(pl.col("job_id").is_in(before["job_id"].to_list()))
    assert set(after["job_id"]) == set(before["job_id"])
    joined = after.join(before, on=["job_id", "submit"], suffix="_before")
    assert joined.height == before.height
    assert (joined["start"] == joined["start_before"]).all()
    assert (joined["end"] > START).all()


def test_a_history_in_parts_loses_and_repeats_nothing(site: Site) -> None:
    whole = site.history()
    middle = int(START) - 3 * 86400 - 77
    parts = list(site.alice.history(0, middle))
    assert parts[-1].reached == middle
    assert parts[-1].share == 1.0
    first = pl.concat([part.batch.frame for part in parts])
    rest = site.history(middle + 1)
    assert first.height + rest.height == whole.height
    bare = pl.concat([part.batch.frame for part in site.alice.history(0, middle, steps=False)])
    assert bare["max_memory"].null_count() == bare.height


@pytest.mark.slow
def test_the_same_cluster_however_often_it_is_asked(tmp_path: Path) -> None:
    seldom, often = Site(tmp_path / "a"), Site(tmp_path / "b")
    for _ in range(40):
        often.wait(1.7)
        list(often.alice.live_jobs())
    seldom.wait(1.7 * 40)
    assert seldom.alice.diag().at == often.alice.diag().at
    assert seldom.history().equals(often.history())
    assert not seldom.history().equals(Site(tmp_path / "c", seed=2).history())


def test_simulated_time_goes_on_at_another_speed(tmp_path: Path) -> None:
    site = Site(tmp_path / "s")
    site.wait(2)
    again = Site(tmp_path / "s", wall=site.wall, speed=1.0)
    at = again.alice.diag().at
    assert at == START + 2 * 3600
    site.wall.now += 100
    assert again.alice.diag().at == site.alice.diag().at == at + 100
    assert SimulatedTime(wall=10.0, simulated=5.0, speed=2.0).at(9.0) == 5.0  # a clock set back


# --- what users do --------------------------------------------------------------------------------

NEEDS_2G = "#SBATCH -t 20 --mem=1G\n#SIM memory=2G time=0:10:00\nsrun ./a"


def test_more_memory_and_more_time_let_a_job_complete(site: Site) -> None:
    killed, saved = site.submit(NEEDS_2G), site.submit("#SBATCH --hold\n" + NEEDS_2G)
    late, in_time = (site.submit(f"#SBATCH -t 5 {o}\n#SIM time=0:10:00\ntrue") for o in ("", "--hold"))
    site.alice.update(saved, JobUpdate(memory_per_node=3 << 30, held=False))
    site.alice.update(in_time, JobUpdate(time_limit=900, held=False))
    site.wait(48)
    outcomes = {
        name: site.row(job)["outcome"]
        for name, job in zip("abcd", (killed, saved, late, in_time), strict=True)
    }
    assert outcomes == {"a": "out_of_memory", "b": "completed", "c": "timeout", "d": "completed"}
    record = site.row(saved)
    assert (record["user"], record["end"] - record["start"]) == ("alice", 600)
    assert killed in site.history()["job_id"].to_list()


def test_an_operator_extends_a_running_job(site: Site) -> None:
    job = site.submit("#SBATCH -p scavenger -t 1:00:00\n#SIM time=3:00:00\ntrue")
    while site.row(job)["state"] == "PENDING":
        site.wait(0.25)
    with pytest.raises(RefusedError) as error:
        site.alice.update(job, JobUpdate(time_limit=5 * 3600))
    assert error.value.code in DENIED
    with pytest.raises(RefusedError, match="no longer pending"):
        site.root.update(job, JobUpdate(memory_per_node=1 << 30))
    site.root.update(job, JobUpdate(time_limit=5 * 3600))
    site.wait(6)
    assert site.row(job)["outcome"] in ("completed", "preempted", "node_fail")


def test_a_running_job_is_cancelled_and_its_node_freed(site: Site) -> None:
    job = site.submit("#SIM time=20:00:00\ntrue", "-t", "24:00:00")
    while site.row(job)["state"] == "PENDING":
        site.wait(0.25)
    site.alice.cancel(job)
    site.wait(0.01)
    row = site.row(job)
    assert (row["state"], row["outcome"], row["cancelled_by"]) == ("CANCELLED", "cancelled", "alice")
    with pytest.raises(RefusedError, match="ended already"):
        site.alice.cancel(job)


def test_others_jobs_are_theirs(site: Site) -> None:
    row = next(site.alice.live_jobs()).frame.filter(pl.col("state") == "RUNNING").row(0, named=True)
    with pytest.raises(RefusedError) as error:
        site.alice.cancel(row["job_id"])
    assert error.value.code in DENIED
    site.alice.acting_as(row["user"]).cancel(row["job_id"])
    site.wait(0.01)
    assert site.row(row["job_id"])["outcome"] == "cancelled"
    only = SimulatedScheduler(site.world, user="alice")
    job = site.submit("sleep 9", "--hold")
    assert next(only.live_jobs()).frame["job_id"].to_list() == [job]


def test_jobs_wait_for_others(site: Site) -> None:
    first = site.submit("sleep 5; exit 3")
    after = site.submit("sleep 1", f"--dependency=afterany:{first}")
    never = site.submit("sleep 1", f"--dependency=afterok:{first}")
    otherwise = site.submit("sleep 1", f"--dependency=afternotok:{first}")
    assert site.row(after)["reason"] == "Dependency"
    site.wait(30)
    assert (site.row(first)["outcome"], site.row(first)["exit_code"]) == ("failed", 3)
    for job in (after, otherwise):
        assert site.row(job)["outcome"] == "completed"
        assert site.row(job)["start"] >= site.row(first)["end"]
    assert site.row(never)["reason"] == "DependencyNeverSatisfied"
    with pytest.raises(RefusedError, match="no job 99999999"):
        site.submit("true", "-d", "afterok:99999999")


@pytest.mark.slow
def test_a_job_that_waits_for_weeks_keeps_its_number(site: Site) -> None:
    held = site.submit("sleep 7", "--hold", "-J", "patient")
    for _ in range(3):
        site.wait(24 * 9)
        assert site.row(held)["state"] == "PENDING"
    site.alice.update(held, JobUpdate(held=False, comment="at last"))
    site.wait(24)
    assert (site.row(held)["outcome"], site.row(held)["name"]) == ("completed", "patient")
    # What has ended meanwhile has left the kernel.
    with site.world.now() as world:
        assert len(world.in_kernel()) < 3000
    assert site.history()["job_id"].to_list().count(held) == 1


def test_excluded_and_required_nodes(site: Site) -> None:
    away = site.submit("sleep 60", "-x", "n[001-019]")
    there = site.submit("sleep 60", "-w", "n003")
    site.wait(72)
    assert (site.row(away)["nodes"], site.row(there)["nodes"]) == ("n020", "n003")
    with pytest.raises(RefusedError, match="0 nodes are left"):
        site.submit("true", "-x", "n[001-020]")
    with pytest.raises(RefusedError, match="'n099'"):
        site.submit("true", "-x", "n099")


def test_an_array_and_the_same_script_again(site: Site) -> None:
    script = "#SBATCH --array=2-4 --mem=8G -t 4:00:00\nmodule load gromacs\nsrun gmx mdrun"
    arrays = [site.submit(script) for _ in range(2)]
    site.wait(24 * 6)
    ends = [
        [
            (row["array_task_id"], row["outcome"], row["end"] - row["start"])
            for row in rows_of(site.alice, job)
        ]
        for job in arrays
    ]
    assert [task for task, *_ in ends[0]] == [2, 3, 4]
    # The same needs; what strikes from outside may differ.
    inside = {"completed", "out_of_memory", "timeout", "failed"}
    same = [a == b for a, b in zip(*ends, strict=True) if {a[1], b[1]} <= inside]
    assert sum(same) >= 2


@pytest.mark.slow
def test_the_script_of_a_failed_job_fails_again_until_it_gets_more(site: Site) -> None:
    site.wait(24 * 20)
    failed = site.history().filter((pl.col("outcome") == "out_of_memory") & (pl.col("nodes_asked") == 1))
    row = failed.filter(pl.col("array_job_id").is_null()).row(-1, named=True)
    details = site.alice.details(row["job_id"])
    assert details.script is not None
    assert "oom_kill" in Path(details.outputs[0]).read_text()
    assert details.steps[0].state == "OUT_OF_MEMORY"
    owner = site.alice.acting_as(row["user"])
    again = submission_from_script(details.script, work_dir="/w")
    assert again.memory_per_node or again.memory_per_cpu or "memory_asked" in row["defaulted"]
    more = replace(again, memory_per_node=120 << 30, memory_per_cpu=None, time_limit=86400, partition="main")
    jobs = [owner.submit(replace(again, hold=None)), owner.submit(more)]
    site.wait(24 * 12)
    outcomes = [site.row(job)["outcome"] for job in jobs]
    assert outcomes[0] != "completed"
    assert outcomes[1] != "out_of_memory"
    assert site.row(jobs[0])["name"] == row["name"]
    assert site.row(jobs[0])["script_hash"] == row["script_hash"]


@pytest.mark.parametrize(
    ("options", "script", "words"),
    [
        (["-p", "gone"], "true", "invalid partition"),
        (["-A", "proj999"], "true", "invalid account"),
        (["-A", "x; drop table"], "true", "invalid account"),
        (["--mem=900G"], "true", "memory specification"),
        (["-N", "5"], "true", "node configuration"),
        (["--gpus=1"], "true", "node configuration"),
        (["-t", "9-0"], "true", "time limit"),
        (["--array=1-2000"], "true", "array"),
        (["-d", "after:1"], "true", "dependency"),
        (["--reservation=r"], "true", "reservation"),
        ([], "#SIM memory=lots\ntrue", "#SIM memory=lots"),
        ([], "#SIM colour=red\ntrue", "known are memory, time, exit, after"),
        ([], "# " + "x" * (1 << 18), "larger than"),
    ],
)
def test_what_is_refused_changes_nothing(site: Site, options: list[str], script: str, words: str) -> None:
    before = site.history().height, (site.path / "actions.jsonl").exists()
    with pytest.raises(RefusedError, match=words):
        site.submit(script, *options)
    assert (site.history().height, (site.path / "actions.jsonl").exists()) == before


def test_gpus(site: Site) -> None:
    job = site.submit("sleep 30", "-p", "gpu", "--gpus-per-node=2")
    site.wait(48)
    row = site.row(job)
    assert (row["gpus_asked"], row["gpus_given"], row["outcome"]) == (2, 2, "completed")


# --- what is kept ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_restart_and_other_processes_continue_the_same_cluster(tmp_path: Path) -> None:
    site = Site(tmp_path / "s")
    held = site.submit("sleep 7", "--hold")
    other = Site(tmp_path / "s", wall=site.wall)
    job = other.submit(NEEDS_2G)
    assert site.row(job)["state"] == other.row(job)["state"]
    site.wait(5)
    site.alice.update(held, JobUpdate(held=False))
    if other.row(job)["end"] is None:
        other.alice.update(job, JobUpdate(comment="a\nb"))
    site.wait(40)
    again = Site(tmp_path / "s", wall=site.wall)
    assert site.history().equals(again.history())
    assert site.history().equals(other.history())
    assert site.row(held)["outcome"] == "completed"


def test_an_action_that_comes_late_is_still_applied(tmp_path: Path) -> None:
    """A wall clock that differs between two machines: the cluster is computed again."""
    site, behind = Site(tmp_path / "s"), Wall()
    site.wait(10)
    site.alice.diag()
    job = Site(tmp_path / "s", wall=behind).submit("sleep 9")
    assert site.row(job)["submit"] == START
    assert site.alice.diag().at == START + 10 * 3600


def test_a_line_cut_short_is_dropped(tmp_path: Path) -> None:
    site = Site(tmp_path / "s")
    first = site.submit("sleep 9", "--hold")
    file = tmp_path / "s" / "actions.jsonl"
    with file.open("ab") as stream:
        stream.write(b'{"at": 1700000')
    again = Site(tmp_path / "s", wall=site.wall)
    second = again.submit("sleep 9", "--hold")
    lines = file.read_text().splitlines()
    assert [json.loads(line)["submission"]["hold"] for line in lines] == [True, True]
    assert {again.row(first)["state"], again.row(second)["state"]} == {"PENDING"}
    assert "environment" not in file.read_text() or '"environment":{}' in file.read_text()


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"version": 9}', '{"version": 1, "seed": "x"}'])
def test_a_broken_state_file_is_named(tmp_path: Path, content: str) -> None:
    Site(tmp_path / "s")
    (tmp_path / "s" / "world.json").write_text(content)
    with pytest.raises(StoreError, match=r"world\.json"):
        Site(tmp_path / "s")


def test_a_broken_action_is_named(tmp_path: Path) -> None:
    site = Site(tmp_path / "s")
    (tmp_path / "s" / "actions.jsonl").write_text('{"at": "x"}\n')
    with pytest.raises(StoreError, match="a line that cannot be read"):
        site.alice.diag()


def test_another_cluster_in_the_same_folder(tmp_path: Path) -> None:
    Site(tmp_path / "s")
    with pytest.raises(UsageError, match="holds another simulated cluster"):
        Site(tmp_path / "s", seed=2)


def test_configured(tmp_path: Path) -> None:
    config = Config(
        home=tmp_path,
        scheduler="simulator",
        simulator="small",
        simulator_days=3,
        slurm_user="ann",
        cluster="c",
    )
    assert choose_scheduler(config, {}) == "simulator"
    with closing(connect(config)) as scheduler, closing(connect(config, acting="bob")) as other:
        assert scheduler.cluster == "c"
        assert set(next(scheduler.nodes()).frame["cluster"]) == {"c"}
        script = submission_from_script("#!/bin/sh\n#SBATCH --hold\ntrue\n", work_dir="/w")
        job = scheduler.submit(script)
        assert rows_of(other, job)[0]["user"] == "ann"
        with pytest.raises(RefusedError):
            other.cancel(job)
        with pytest.raises(RefusedError) as error:
            scheduler.cancel("99999999")
        assert error.value.code == UNKNOWN_JOB
        assert abs(clock_of(config).now() - scheduler.diag().at) < 60
    assert clock_of(Config()).speed == 1.0
