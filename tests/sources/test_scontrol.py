from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from forewarn.errors import SourceError
from forewarn.sources.base import Source, SourceOptions
from forewarn.sources.sacct import SacctSource
from forewarn.sources.scontrol import ScontrolSource
from tests.sources.contract import Sample, TextSourceContract

JOBS = b"""\
JobId=7 JobName=a b=c Account=x
   UserId=ann(2002) GroupId=staff(50) MCS_label=N/A
   Priority=128 Nice=0 Account=science QOS=normal
   JobState=TIMEOUT Reason=TimeLimit Dependency=(null)
   Requeue=1 Restarts=1 BatchFlag=1 Reboot=0 ExitCode=0:15
   RunTime=00:01:00 TimeLimit=00:01:00 TimeMin=N/A
   SubmitTime=2024-06-01T00:00:00 EligibleTime=2024-06-01T00:00:00
   StartTime=2024-06-01T00:00:10 EndTime=2024-06-01T00:01:10 Deadline=N/A
   Partition=main AllocNode:Sid=localhost:0
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=n[1-2]
   NumNodes=2 NumCPUs=64 NumTasks=4 CPUs/Task=2 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=8,mem=200M,node=2,billing=8,gres/gpu=1
   AllocTRES=cpu=64,mem=12.50G,node=2,billing=64,gres/gpu=1
   MinCPUsNode=2 MinMemoryCPU=100M MinTmpDiskNode=0
   Features=skl|hsw DelayBoot=00:00:00
   Command=/my home/run it.sh --x=1 Nice=2
   SubmitLine=sbatch --comment=x=1 -t 1 "run
it.sh" Nice=5
   WorkDir=/my home
   Comment=slow Account=none
   StdErr=/my home/e r r
   StdOut=/o

JobId=8 JobName=wait UserId=bob(7) JobState=PENDING Reason=Resources SubmitTime=2024-06-01T00:00:01 \
StartTime=2024-06-02T00:00:00 EndTime=2024-06-03T00:00:00 LastSchedEval=2024-06-01T00:05:00 NodeList= \
NumNodes=1-4 NumCPUs=8 NumTasks=8 CPUs/Task=1 TRES=cpu=8,mem=1G,node=1 MinMemoryNode=1G \
TimeLimit=Partition_Limit WorkDir=/w
JobId=12 ArrayJobId=9 ArrayTaskId=3 JobName=arr UserId=bob(7) JobState=RUNNING \
SubmitTime=2024-06-01T00:00:02 StartTime=2024-06-01T00:00:05 EndTime=2024-06-08T00:00:00 \
RunTime=00:10:00 TimeLimit=7-00:00:00 NodeList=n3 NumNodes=1 NumTasks=2 CPUs/Task=3 TRES=cpu=64,node=1 \
ExitCode=0:0 WorkDir=/w
JobId=9 ArrayJobId=9 ArrayTaskId=4-9%2 JobName=a UserId=b(7) JobState=PENDING SubmitTime=2024-06-01T00:00:02
JobId=14 HetJobId=13 HetJobOffset=1 JobName=het UserId=bob(7) JobState=PENDING SubmitTime=2024-06-01T00:00:03
JobId=15 JobName=bad UserId=bob(7) JobState=PENDING SubmitTime=2024-06-01T00:00:03 TimeLimit=long
JobId=16 JobName=bad UserId=bob(7) JobState=FAILED SubmitTime=2024-06-01T00:00:03 NodeList=n1 \
StartTime=2024-06-01T00:00:09 EndTime=2024-06-01T00:00:05
"""

NODES = b"""\
NodeName=n1 Arch=x86_64 CoresPerSocket=1
   CPUAlloc=1 CPUEfctv=64 CPUTot=64 CPULoad=6.13
   AvailableFeatures=skl,big
   Gres=gpu:a100:4(S:0-1)
   NodeAddr=127.0.0.1 NodeHostName=n1 Port=18010 Version=22.05.8
   OS=Linux 6.18 #1 SMP State=odd
   RealMemory=64000 AllocMem=50 FreeMem=N/A Sockets=64 Boards=1
   State=DOWN*+DRAIN ThreadsPerCore=1 TmpDisk=1000 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=main,short
   BootTime=2024-06-01T00:00:00 SlurmdStartTime=2024-06-01T00:00:05
   LastBusyTime=Unknown
   Reason=bad disk = sdb [root@2024-06-02T00:00:00]

NodeName=n2 Arch=x86_64 CPULoad=N/A Gres=(null) State=IDLE
"""


class TestScontrolJobs(TextSourceContract):
    source = ScontrolSource

    def sample(self) -> Sample:
        return Sample(
            JOBS,
            ids=("7", "8", "9_3", "9_[4-9%2]", "13+1"),
            lines=(1, 25, 26, 27, 28),
            bad_lines=(29, 30),
            written_at=1717200605,  # 2024-06-01T00:10:05, when job 9_3 had run for ten minutes
            unended=("8", "9_3", "9_[4-9%2]", "13+1"),
            file="scontrol.txt",
        )


class TestScontrolNodes(TextSourceContract):
    source = ScontrolSource

    def sample(self) -> Sample:
        return Sample(
            NODES,
            ids=("n1", "n2"),
            lines=(1, 14),
            written_at=1717286400,  # 2024-06-02T00:00:00
            kind="node",
            file="nodes.txt",
        )


def read(tmp_path: Path, text: bytes, **options: str) -> list[dict[str, Any]]:
    path = tmp_path / "lab.txt"
    path.write_bytes(text)
    source = ScontrolSource(path, SourceOptions(**options))  # type: ignore[arg-type]
    return [row for batch in source.batches() for row in batch.frame.iter_rows(named=True)]


def test_values_with_spaces_equals_and_line_ends(tmp_path: Path) -> None:
    job = read(tmp_path, JOBS)[0]
    assert job["name"] == "a b=c Account=x"
    assert job["submit_line"] == 'sbatch --comment=x=1 -t 1 "run\nit.sh" Nice=5'
    assert (job["work_dir"], job["constraint"], job["account"]) == ("/my home", "skl|hsw", "science")


def test_a_job_that_ended(tmp_path: Path) -> None:
    job = read(tmp_path, JOBS)[0]
    expected = {
        "user": "ann",
        "group": "staff",
        "outcome": "timeout",
        "exit_code": 0,
        "exit_signal": 15,
        "nodes": "n[1-2]",
        "nodes_asked": 2,
        "tasks_asked": 4,
        "cpus_asked": 8,
        "cpus_given": 64,
        "memory_asked": 100 << 20,
        "memory_per": "cpu",
        "memory_given": 12800 << 20,
        "gpus_asked": 1,
        "gpus_given": 1,
        "tres_asked": "billing=8,cpu=8,gres/gpu=1,mem=200M,node=2",
        "time_limit": 60,
        "priority": 128,
        "restarts": 1,
        "dependency": None,
    }
    assert {name: job[name] for name in expected} == expected
    assert job["end"] - job["start"] == 60


def test_times_that_lie_ahead_are_left_out(tmp_path: Path) -> None:
    _, pending, running, *_ = read(tmp_path, JOBS)
    assert (pending["start"], pending["end"], pending["outcome"]) == (None, None, None)
    assert (running["end"], running["exit_code"]) == (None, None)


def test_a_record_tells_when_it_was_looked_at(tmp_path: Path) -> None:
    _, pending, running, *_ = read(tmp_path, JOBS)
    assert pending["seen_at"] - pending["submit"] == 299, "the last time it was considered"
    assert running["seen_at"] - running["start"] == 600, "its run time"


def test_what_one_tres_says_depends_on_whether_the_job_has_nodes(tmp_path: Path) -> None:
    _, pending, running, *_ = read(tmp_path, JOBS)
    assert (pending["cpus_asked"], pending["tres_given"]) == (8, None)
    assert (pending["nodes_asked"], pending["defaulted"]) == (1, "time_limit")
    assert (running["cpus_asked"], running["cpus_given"], running["tres_asked"]) == (6, 64, None)


def test_nodes(tmp_path: Path) -> None:
    first, second = read(tmp_path, NODES)
    assert (first["state"], first["reason"]) == ("DOWN*+DRAIN", "bad disk = sdb")
    assert first["reason_at"] == first["boot"] + 86_400
    assert (first["gpus"], first["memory"], first["memory_free"]) == (4, 64000 << 20, None)
    assert (first["features"], first["partitions"], first["cpu_load"]) == ("skl,big", "main,short", 6.13)
    assert (second["gpus"], second["cpu_load"], second["reason"]) == (None, None, None)


def test_partitions(tmp_path: Path) -> None:
    (partition,) = read(
        tmp_path,
        b"PartitionName=main\n   Default=YES QoS=N/A\n"
        b"   DefaultTime=NONE MaxNodes=UNLIMITED MaxTime=UNLIMITED\n"
        b"   Nodes=n[1-4]\n   PriorityTier=1\n   State=UP TotalCPUs=256 TotalNodes=4\n"
        b"   DefMemPerCPU=100 MaxMemPerNode=UNLIMITED\n",
    )
    assert (partition["is_default"], partition["qos"], partition["nodes"]) == (True, None, "n[1-4]")
    assert (partition["time_default"], partition["time_max"], partition["nodes_max"]) == (
        None,
        0xFFFFFFFF,
        None,
    )
    assert (partition["memory_default"], partition["memory_default_per"]) == (100 << 20, "cpu")
    assert (partition["memory_max"], partition["memory_max_per"]) == (None, None)


def test_kinds_may_follow_each_other(tmp_path: Path) -> None:
    path = tmp_path / "all.txt"
    path.write_bytes(NODES + JOBS + b"PartitionName=main\n   State=UP\n")
    assert [batch.kind for batch in ScontrolSource(path).batches()] == ["node", "job", "partition"]


def test_the_clusters_zone(tmp_path: Path) -> None:
    text = b"JobId=1 JobName=x UserId=a(1) JobState=PENDING SubmitTime=2024-07-01T12:00:00"
    assert read(tmp_path, text, timezone="Europe/Berlin")[0]["submit"] == 1719828000


def test_a_text_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not what `scontrol show` prints"):
        read(tmp_path, b"slurm_load_jobs error: Unable to contact slurm controller\n")


# --- recorded, and against the other sources -----------------------------------------------------

VERSIONS = ["22.05.8", "24.11.5", "26.05.5"]


def frame_of(source: Source) -> pl.DataFrame:
    batches = list(source.batches())
    assert [bad for batch in batches for bad in batch.bad] == []
    return pl.concat([batch.frame for batch in batches])


@pytest.mark.shared_data
@pytest.mark.parametrize("version", VERSIONS)
def test_recorded(shared_data: Path, version: str) -> None:
    folder = shared_data / "slurmrestd" / "recorded" / version / "cli"
    several = frame_of(ScontrolSource(folder / "scontrol_show_job.txt"))
    single = frame_of(ScontrolSource(folder / "scontrol_show_job_detail_oneline.txt"))
    assert several.height == single.height == 21
    # Only -d tells the derived exit code; the rest is the same, but for the moment of looking.
    apart = ["line", "cluster", "derived_exit_code", "seen_at"]
    assert several.drop(apart).equals(single.drop(apart))
    assert single.filter(pl.col("outcome").is_not_null())["derived_exit_code"].null_count() == 0
    nodes = frame_of(ScontrolSource(folder / "scontrol_show_node.txt"))
    assert nodes["name"].to_list()[0] == "n1"
    assert set(nodes["version"]) == {version}
    assert frame_of(ScontrolSource(folder / "scontrol_show_partition.txt"))["name"].to_list() == [
        "main",
        "short",
    ]


# Fields in which the commands do not say the same of the same job, and why. What one of them leaves out
# is not compared.
DIFFERENT = {
    "reason": "sacct keeps what the job last waited for, the controller why it ended",
    "memory_per": "sacct's text tells memory per node only; a default per CPU stays per CPU elsewhere",
    "exit_signal": "sacct shows 0:0 for jobs ended by a limit or cancelled, the controller 0:15",
    "defaulted": "each tells another part of it",
}


def differences(left: pl.DataFrame, right: pl.DataFrame) -> dict[str, list[Any]]:
    both = left.join(right, on=["job_id", "submit"], suffix="_right", validate="1:1")
    assert both.height > 10
    # A job that one command saw running and the other, moments later, ended says nothing here.
    both = both.filter(pl.col("state") == pl.col("state_right"))
    found = {}
    for name in set(left.columns) - {
        "cluster",
        "line",
        "source",
        "seen_at",
        "reconstructed",
        "job_id",
        "submit",
    }:
        apart = pl.col(name) != pl.col(f"{name}_right")
        if name == "cpu_time":  # the text ends at milliseconds, JSON at microseconds
            apart = (pl.col(name) - pl.col(f"{name}_right")).abs() > 0.002
        if (rows := both.filter(apart)).height:
            found[name] = rows.select("job_id", name, f"{name}_right").rows()
    return found


@pytest.mark.shared_data
@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_job_by_three_commands(shared_data: Path, version: str) -> None:
    folder = shared_data / "slurmrestd" / "recorded" / version / "cli"
    text = frame_of(SacctSource(folder / "sacct_steps_ALL.psv"))
    shown = frame_of(ScontrolSource(folder / "scontrol_show_job_detail_oneline.txt"))
    json = frame_of(SacctSource(folder / "sacct.json"))
    # The recorder shortened the paths of the text, not those of the JSON.
    json = json.with_columns(pl.col("work_dir", "submit_line").str.replace_all(r"/tmp/lab\w+", "/lab"))
    for left, right in ((text, shown), (text, json), (shown, json)):
        found = {name: rows for name, rows in differences(left, right).items() if name not in DIFFERENT}
        assert found == {}


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        ("Priority", "99999999999999999999", "priority"),
        ("ExitCode", "300:0", "exit_code"),
        ("ExitCode", "5", "exit_code"),
        ("TimeLimit", "99999999999999-00:00:00", "time_limit"),
        ("MinMemoryNode", "99999999999P", "memory_asked"),
        ("StartTime", "2024-13-01T00:00:00", "start"),
        ("StartTime", "99999999999999999999", "start"),
        ("StartTime", "99999999999", "start"),
        ("StartTime", "2023-12-31T00:00:00", "start"),
    ],
)
def test_a_value_that_cannot_be_is_a_bad_row(tmp_path: Path, key: str, value: str, field: str) -> None:
    path = tmp_path / "lab.txt"
    path.write_text(
        "JobId=1 JobName=a UserId=ann(5)\n   JobState=COMPLETED SubmitTime=2024-01-01T00:00:00 "
        f"NodeList=n1 {key}={value}\n"
    )
    (batch,) = ScontrolSource(path, SourceOptions(cluster="lab")).batches()
    assert batch.frame.is_empty()
    (bad,) = batch.bad
    assert (bad.line, bad.field) == (1, field)
    assert "zone" not in bad.reason


def test_in_the_hour_that_comes_twice_a_job_starts_after_its_submit(tmp_path: Path) -> None:
    text = b"""JobId=1 JobName=a UserId=ann(5)
   JobState=COMPLETED SubmitTime=2024-10-27T02:50:00 StartTime=2024-10-27T02:10:00
   EndTime=2024-10-27T02:20:00 NodeList=n1
"""
    (job,) = read(tmp_path, text, timezone="Europe/Berlin")
    assert (job["start"] - job["submit"], job["end"] - job["start"]) == (20 * 60, 10 * 60)
