from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from forewarn.config import Config
from forewarn.errors import SourceError
from forewarn.job.sbatch.script_facts import script_facts
from forewarn.job.units import UNLIMITED
from forewarn.operate.ingest_file import ingest
from forewarn.sources.base import SourceOptions, open_source
from forewarn.sources.jobcomp import JobcompSource
from forewarn.store.opening import open_store
from tests.sources.contract import Sample, TextSourceContract

NOON = 1_717_243_200  # 2024-06-01T12:00:00Z
SCRIPT = '#!/bin/bash\nmodule load gcc\nsrun python a.py "ä"\n'
Document = dict[str, Any]


def document(**changes: Any) -> Document:
    """Return the document of a completed job in Slurm 24.11; a member changed to ... is left out."""
    whole = {
        "jobid": 7,
        "container": None,
        "username": "ann",
        "user_id": 2002,
        "groupname": "staff",
        "group_id": 50,
        "@start": "2024-06-01T12:00:10",
        "@end": "2024-06-01T12:01:10",
        "elapsed": 60,
        "partition": "main",
        "alloc_node": "login1",
        "nodes": "n[1-2]",
        "total_cpus": 64,
        "total_nodes": 2,
        "derived_ec": "0:0",
        "exit_code": "0:0",
        "state": "COMPLETED",
        "failed_node": None,
        "cpu_hours": 1.0666667,
        "pack_job_id": 0,
        "pack_job_offset": 0,
        "het_job_id": 0,
        "het_job_offset": 0,
        "priority": 169,
        "@submit": "2024-06-01T12:00:00",
        "@eligible": "2024-06-01T12:00:05",
        "@queue_wait": 5,
        "work_dir": "/home/ann",
        "std_in": "/dev/null",
        "std_out": "/home/ann/%j.out",
        "cluster": "fox",
        "qos": "normal",
        "ntasks": 4,
        "ntasks_per_node": 0,
        "cpus_per_task": 2,
        "time_limit": 300,
        "job_name": 'tab\there "q"',
        "tres_req_raw": "1=8,2=200,4=2,5=8",
        "tres_req": "cpu=8,mem=200M,node=2,billing=8,gres/gpu=1",
        "tres_alloc_raw": "1=64,2=12800,3=18446744073709551614,4=2,5=64",
        "tres_alloc": "cpu=64,mem=12.50G,node=2,billing=64,gres/gpu=1",
        "account": "science",
        "script": SCRIPT,
        "parent_accounts": "/root/science",
    }
    return {name: value for name, value in (whole | changes).items() if value is not ...}


CANCELLED_WAITING = document(
    **{"jobid": 8, "state": "CANCELLED", "nodes": None, "total_nodes": 0, "total_cpus": 0, "elapsed": 0},
    **{"@start": "2024-06-01T12:05:00", "@end": "2024-06-01T12:05:00", "@eligible": "2024-06-01T13:00:00"},
    **{"tres_alloc": ..., "tres_alloc_raw": ...},
)
TASK = document(**{"jobid": 12, "array_job_id": 9, "array_task_id": 3, "state": "FAILED", "exit_code": "1:0"})
COMPONENT = document(**{"jobid": 14, "het_job_id": 13, "het_job_offset": 1, "script": ...})
BAD_TIME = document(**{"jobid": 15, "@submit": "yesterday"})
BACKWARDS = document(**{"jobid": 16, "@end": "2024-06-01T12:00:01", "elapsed": -9})
NAMELESS = document(**{"jobid": 17, "cluster": "", "username": "", "exit_code": "x"})
REQUEUED = document(**{"jobid": 18, "state": "PENDING"})
STARTED = document(
    **{"jobid": 19, "state": None, "@end": ..., "elapsed": ..., "exit_code": ..., "derived_ec": ...}
)
ALL = [CANCELLED_WAITING, TASK, COMPONENT, BAD_TIME, BACKWARDS, NAMELESS, REQUEUED, STARTED]
IDS = ("8", "9_3", "13+1", "18", "19")
TIMES: Any = {"written_at": 1717243500, "unended": ("19",)}  # 2024-06-01T12:05:00


def hit(source: Document) -> Document:
    return {"_index": "slurm", "_id": "1qfdPYsB", "_score": 1.0, "_source": source}


def lines_of(documents: list[Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in documents)


def answer_of(documents: list[Any]) -> bytes:
    found = {"total": {"value": len(documents), "relation": "eq"}, "max_score": 1.0}
    found["hits"] = [hit(one) for one in documents]
    return json.dumps({"took": 5, "_shards": {"total": 1}, "hits": found, "timed_out": False}).encode()


class TestLines(TextSourceContract):
    source = JobcompSource

    def sample(self) -> Sample:
        data = b"\n" + lines_of(ALL[:3]) + b'{"jobid": 1, \n' + lines_of([hit(one) for one in ALL[3:]])
        bad = (5, 6, 7, 8)
        return Sample(data, IDS, (2, 3, 4, 9, 10), **TIMES, bad_lines=bad, file="jobs.jsonl")


class TestArray(TextSourceContract):
    source = JobcompSource

    def sample(self) -> Sample:
        data = json.dumps([hit(one) for one in ALL], indent=4).encode() + b"\n"
        return Sample(data, IDS, (1, 2, 3, 7, 8), **TIMES, bad_lines=(4, 5, 6), file="jobs.json")

    def many(self, copies: int) -> bytes:
        return json.dumps(ALL * copies).encode()


class TestAnswer(TextSourceContract):
    source = JobcompSource

    def sample(self) -> Sample:
        return Sample(answer_of(ALL), IDS, (1, 2, 3, 7, 8), **TIMES, bad_lines=(4, 5, 6))

    def many(self, copies: int) -> bytes:
        return answer_of(ALL * copies)


def read(tmp_path: Path, *documents: Any, options: SourceOptions | None = None) -> pl.DataFrame:
    path = tmp_path / "jobs.jsonl"
    path.write_bytes(lines_of(list(documents)))
    (batch,) = JobcompSource(path, options).batches()
    assert not batch.bad
    return batch.frame


def job(tmp_path: Path, one: Document) -> dict[str, Any]:
    return read(tmp_path, one).row(0, named=True)


def test_every_field_of_a_document(tmp_path: Path) -> None:
    found = job(
        tmp_path, document(reservation_name="r", features="skl|hsw", orig_dependency="afterok:5(failed)")
    )
    facts = script_facts(SCRIPT)
    megabyte = 1 << 20
    assert {name: value for name, value in found.items() if value is not None} == {
        "cluster": "fox",
        "job_id": "7",
        "raw_id": 7,
        "submit": NOON,
        "user": "ann",
        "group": "staff",
        "account": "science",
        "name": 'tab\there "q"',
        "work_dir": "/home/ann",
        "script_hash": facts.hash,
        "script_language": "python",
        "script_modules": "gcc",
        "script_launcher": "srun",
        "dependency": "afterok:5",
        "partition": "main",
        "qos": "normal",
        "reservation": "r",
        "constraint": "skl|hsw",
        "nodes": "n[1-2]",
        "nodes_asked": 2,
        "tasks_asked": 4,
        "cpus_asked": 8,
        "memory_asked": 100 * megabyte,
        "memory_per": "node",
        "time_limit": 300,
        "gpus_asked": 1,
        "tres_asked": "billing=8,cpu=8,gres/gpu=1,mem=200M,node=2",
        "priority": 169,
        "nodes_given": 2,
        "cpus_given": 64,
        "memory_given": 12800 * megabyte,
        "gpus_given": 1,
        "tres_given": "billing=64,cpu=64,gres/gpu=1,mem=12800M,node=2",
        "eligible": NOON + 5,
        "start": NOON + 10,
        "end": NOON + 70,
        "state": "COMPLETED",
        "outcome": "completed",
        "exit_code": 0,
        "exit_signal": 0,
        "derived_exit_code": 0,
        "seen_at": NOON + 70,
        "source": "jobcomp",
        "reconstructed": True,
        "line": 1,
    }


def test_the_same_documents_in_every_form(tmp_path: Path) -> None:
    path, frames = tmp_path / "jobs", []
    good = [CANCELLED_WAITING, TASK, COMPONENT, REQUEUED, STARTED]
    wrapped = [hit(one) for one in good]
    texts = [lines_of(good), lines_of(wrapped), json.dumps(good, indent=1).encode(), answer_of(good)]
    for text in (*texts, b"\xef\xbb\xbf" + texts[2], json.dumps(wrapped).encode()):
        path.write_bytes(text)
        frames.append(pl.concat(batch.frame for batch in JobcompSource(path).batches()))
    assert frames[0].height == len(good)
    for frame in frames[1:]:
        assert_frame_equal(frame, frames[0])


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("2024-06-01T12:00:00", NOON),
        ("2024-06-01T12:00:00Z", NOON),
        ("2024-06-01T13:00:00+01:00", NOON),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(tmp_path: Path, written: str, seconds: int) -> None:
    """Whatever the zone of the cluster's clock: the plugin writes UTC."""
    frame = read(tmp_path, document(**{"@submit": written}), options=SourceOptions(timezone="Europe/Zurich"))
    assert frame["submit"].to_list() == [seconds]


def test_a_job_that_was_cancelled_while_it_waited_never_started(tmp_path: Path) -> None:
    found = job(tmp_path, CANCELLED_WAITING)
    assert (found["start"], found["end"], found["eligible"]) == (None, NOON + 300, None)
    assert (found["cpus_given"], found["nodes_given"], found["tres_given"]) == (None, None, None)


def test_nor_did_it_start_again_though_it_names_the_nodes_it_had_before(tmp_path: Path) -> None:
    found = job(tmp_path, CANCELLED_WAITING | {"nodes": "n1", "total_cpus": 64})
    assert (found["start"], found["nodes"], found["cpus_given"]) == (None, None, None)


def test_a_start_that_lay_ahead_when_the_job_was_cancelled(tmp_path: Path) -> None:
    found = job(tmp_path, CANCELLED_WAITING | {"@start": "Unknown", "elapsed": -300})
    assert (found["start"], found["end"]) == (None, NOON + 300)


def test_a_run_that_was_requeued_ended_as_accounting_tells_it(tmp_path: Path) -> None:
    found = job(tmp_path, REQUEUED)
    assert (found["state"], found["outcome"]) == ("REQUEUED", "preempted")
    assert (found["start"], found["end"]) == (NOON + 10, NOON + 70)


def test_a_start_message_is_of_a_running_job(tmp_path: Path) -> None:
    found = job(tmp_path, STARTED)
    assert (found["state"], found["outcome"], found["end"]) == ("RUNNING", None, None)
    assert (found["start"], found["seen_at"], found["exit_code"]) == (NOON + 10, NOON + 10, None)


def test_a_job_that_was_resized_started_when_it_did(tmp_path: Path) -> None:
    resized = document(**{"@start": "2024-06-01T12:00:40"})
    assert job(tmp_path, resized)["start"] == NOON + 10
    while_it_ran = job(
        tmp_path, resized | {"state": "RESIZING", "@start": "2024-06-01T12:00:10", "elapsed": 300}
    )
    assert (while_it_ran["start"], while_it_ran["end"], while_it_ran["outcome"]) == (NOON + 10, None, None)


def test_no_limit_is_left_out(tmp_path: Path) -> None:
    assert job(tmp_path, document(time_limit=...))["time_limit"] == UNLIMITED


def test_without_trackable_resources_tasks_tell_the_cpus(tmp_path: Path) -> None:
    bare = {"tres_req": ..., "tres_alloc": ..., "tres_req_raw": ..., "tres_alloc_raw": ...}
    found = job(tmp_path, document(**bare))
    assert (found["cpus_asked"], found["cpus_given"], found["nodes_given"]) == (8, 64, 2)
    assert found["memory_asked"] is None
    without_tasks = job(tmp_path, document(**bare, ntasks=0))
    assert (without_tasks["cpus_asked"], without_tasks["tasks_asked"]) == (None, None)


@pytest.mark.parametrize(("raw", "joules"), [("3=0", None), ("1=1,3=1210,4=1", 1210), ("13=5", None)])
def test_energy(tmp_path: Path, raw: str, joules: int | None) -> None:
    assert job(tmp_path, document(tres_alloc_raw=raw))["energy"] == joules


def test_a_step_that_was_killed_for_memory(tmp_path: Path) -> None:
    found = job(tmp_path, document(state="FAILED", exit_code="1:0", derived_ec="0:125"))
    assert (found["state"], found["outcome"]) == ("FAILED", "out_of_memory")


def test_users_without_a_name_have_their_number(tmp_path: Path) -> None:
    found = job(tmp_path, document(username=..., groupname=None))
    assert (found["user"], found["group"]) == ("2002", "50")


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"jobid": ...}, "job_id", "missing"),
        ({"@submit": ...}, "submit", "missing"),
        ({"@start": 5}, "start", "@start is not a time: 5"),
        ({"time_limit": "long"}, "time_limit", "invalid literal"),
        ({"time_limit": 1e300}, "time_limit", "that is too large"),
        ({"exit_code": "1"}, "exit_code", "not an exit code and a signal: '1'"),
        ({"exit_code": 256}, "exit_code", "unknown shape"),
        ({"tres_req": "cpu"}, "tres_asked", "not a TRES string"),
        ({"state": 5}, "state", "not a state: 5"),
    ],
)
def test_a_bad_document_names_its_line_and_field(
    tmp_path: Path, changes: Document, field: str, reason: str
) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_bytes(lines_of([document(), document(**changes), document(jobid=9)]))
    (batch,) = JobcompSource(path).batches()
    (bad,) = batch.bad
    assert batch.frame["job_id"].to_list() == ["7", "9"]
    assert (bad.file, bad.line, bad.field) == (str(path), 2, field)
    assert reason in bad.reason


@pytest.mark.parametrize("cut", [-1, -2, -40, -300])
@pytest.mark.parametrize("write", [lambda docs: json.dumps(docs).encode(), answer_of])
def test_a_file_that_ends_too_early_has_its_whole_documents(tmp_path: Path, write: Any, cut: int) -> None:
    path = tmp_path / "jobs.json"
    path.write_bytes(write([document(), document(jobid=8), document(jobid=9)])[:cut])
    (batch,) = JobcompSource(path).batches()
    (bad,) = batch.bad
    whole = batch.frame.height
    assert batch.frame["job_id"].to_list() == ["7", "8", "9"][:whole]
    assert whole >= 2
    assert (bad.line, bad.field) == (whole + 1, "document")
    assert "the file ends here" in bad.reason


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "no document"),
        ("[1, 2]", "the first one holds 1"),
        ('{"took": 1, "hits": {"hits": []}}', "no document"),
        ('{"error": {"type": "index_not_found_exception"}, "status": 404}', "holds error, status"),
        ('{"jobs": [], "meta": {}}', "holds jobs, meta"),
        ('{\n "jobid": 7\n}', "one document a line"),
        ("[{", "the file ends here"),
        ('[{"jobid": 7}, oops]', "not JSON"),
        ("JobID|State\n7|COMPLETED\n", "not JSON"),
    ],
)
def test_what_is_no_file_of_documents(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "jobs.json"
    path.write_text(text)
    with pytest.raises(SourceError, match=message):
        list(JobcompSource(path).batches())


def test_documents_without_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "elk.jsonl"
    path.write_bytes(lines_of([document(), document(cluster=...)]))
    source = JobcompSource(path)
    (batch,) = source.batches()
    assert batch.frame["cluster"].to_list() == ["fox", "elk"]
    assert source.notes == [
        "elk.jsonl: 1 documents name no cluster: they are read as those of 'elk'; see --cluster"
    ]


def test_a_job_that_was_requeued_ends_as_its_last_run(tmp_path: Path) -> None:
    """Some versions leave it its submit time: no contradiction, whatever comes first in the file."""
    runs = [
        document(state="CANCELLED", **{"@end": "2024-06-01T12:09:00", "elapsed": 530}),
        document(state="NODE_FAIL"),
        document(state="PENDING", **{"@end": "2024-06-01T12:00:20", "elapsed": 10}),
        document(**{"state": None, "@end": ..., "elapsed": ..., "exit_code": ..., "derived_ec": ...}),
        document(state="FAILED", jobid=8, **{"@end": "2024-06-01T12:00:10", "elapsed": 0}),
        document(
            **{"jobid": 8, "state": None, "@end": ..., "elapsed": ..., "exit_code": ..., "derived_ec": ...}
        ),
    ]
    path = tmp_path / "jobs.jsonl"
    path.write_bytes(lines_of([*runs, runs[0]]))
    with open_store(Config(home=tmp_path / "home")) as store:
        report = ingest(store, JobcompSource(path))
        assert (report.new, report.same, report.new_jobs) == (6, 1, 2)
        again = ingest(store, JobcompSource(path))
        assert (again.new, again.same) == (0, 7)
        (jobs,) = store.scan(columns=["job_id", "end", "outcome"])
        assert jobs.rows() == [("7", NOON + 540, "cancelled"), ("8", NOON + 10, "failed")]
        assert store.clusters()["fox"].fields["tasks_asked"] == {"hide": True}, "read as Slurm's records are"


def test_two_documents_of_one_end_that_differ_contradict_each_other(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_bytes(lines_of([document(), document(qos="high")]))
    with open_store(Config(home=tmp_path / "home")) as store:
        report = ingest(store, JobcompSource(path), rejects=lambda: tmp_path / "rejects")
    assert (report.new, report.bad) == (1, 1)


# --- what Slurm wrote ----------------------------------------------------------------------------


@pytest.mark.shared_data
def test_documents_of_2023(shared_data: Path) -> None:
    source = open_source(
        f"jobcomp:{shared_data / 'modern' / 'jobcomp-elasticsearch-2023.json.gz'}",
        SourceOptions(cluster="deucalion"),
    )
    batches = list(source.batches())
    jobs = pl.concat(batch.frame for batch in batches)
    (bad,) = (row for batch in batches for row in batch.bad)
    assert (jobs.height, bad.line, bad.field) == (1685, 1686, "document"), (
        "the file ends in its last document"
    )
    assert jobs["cluster"].unique().to_list() == ["deucalion"]
    outcomes = dict(jobs["outcome"].value_counts().iter_rows())
    assert outcomes == {
        **{"completed": 1373, "cancelled": 179, "failed": 86, "timeout": 35, "node_fail": 5},
        **{"out_of_memory": 4, "preempted": 3},
    }
    # Limits are in seconds: who timed out had run that long, and less than a minute more.
    late = jobs.filter(outcome="timeout").select(pl.col("end") - pl.col("start") - pl.col("time_limit"))
    assert late.min().item() >= 0
    assert late.max().item() < 60
    assert jobs.filter(outcome="completed")["start"].null_count() == 0
    assert jobs.filter(pl.col("start").is_null())["outcome"].unique().sort().to_list() == [
        "cancelled",
        "failed",
    ]


@pytest.mark.shared_data
@pytest.mark.parametrize(("version", "messages"), [("24.11", 34), ("26.05", 62)])
def test_messages_of_kafka_have_the_same_fields(
    shared_data: Path, tmp_path: Path, version: str, messages: int
) -> None:
    path = shared_data / "jobcomp-kafka" / f"jobcomp-{version}.jsonl"
    with open_store(Config(home=tmp_path / "home")) as store:
        report = ingest(store, open_source(f"jobcomp:{path}"))
        assert (report.new, report.bad, report.new_jobs) == (messages, 0, 34)
        (jobs,) = store.scan()
    by_name = {row["name"]: row for row in jobs.sort("submit").iter_rows(named=True)}  # of each the last run
    ends = {name: row["outcome"] for name, row in by_name.items()}
    assert (
        ends | {"timeout": "timeout", "oom": "out_of_memory", "sig": "failed", "selfrq": "completed"} == ends
    )
    assert jobs.filter(state="REQUEUED")["name"].sort().to_list() == ["requeued", "selfrq"]
    assert set(jobs.filter(name="array")["job_id"]) == {f"9_{task}" for task in range(6)}
    assert set(jobs.filter(name="het")["job_id"]) == {"24+0", "24+1"}
    assert by_name["sig"]["exit_signal"] == 11
    assert by_name["multinode"]["memory_asked"] == 100 << 20
    assert by_name["dep_any"]["dependency"] == "afterany:10"
    assert jobs["energy"].null_count() == jobs.height
    assert set(jobs.filter(pl.col("outcome").is_null())["name"]) <= {"running"}
    never = jobs.filter(pl.col("start").is_null())
    assert {"cancel_pending", "dep_ok_never", "held"} <= set(never["name"])
    assert set(never["state"]) <= {"CANCELLED", "FAILED"}
