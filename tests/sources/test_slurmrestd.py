from __future__ import annotations

import gzip
import io
import json
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.errors import BadRow, CutShortError, SourceError
from forewarn.job.outcomes import UnknownStateWarning
from forewarn.job.units import UNLIMITED
from forewarn.sources.base import INCOMPLETE, Batch, SourceOptions
from forewarn.sources.slurm.json_stream import JsonReader
from forewarn.sources.slurmrestd import SlurmrestdSource
from tests.sources.contract import Sample, TextSourceContract

META = {"slurm": {"release": "24.11.5", "cluster": "lab"}}


def wrapped(number: float, *, set_: bool = True, infinite: bool = False) -> dict[str, Any]:
    return {"set": set_, "infinite": infinite, "number": number}


def slurmdb_job(**changes: Any) -> dict[str, Any]:
    """Return a job of the database as in v0.0.42, with the members that are read."""
    job: dict[str, Any] = {
        "account": "science",
        "array": {"job_id": 0, "task_id": wrapped(0, set_=False), "task": ""},
        "cluster": "lab",
        "constraints": "",
        "exit_code": {
            "status": ["SUCCESS"],
            "return_code": wrapped(0),
            "signal": {"id": wrapped(0, set_=False)},
        },
        "het": {"job_id": 0, "job_offset": wrapped(0, set_=False)},
        "job_id": 7,
        "name": "sweep_017",
        "nodes": "n[1-2]",
        "partition": "main",
        "priority": wrapped(128),
        "qos": "normal",
        "required": {"CPUs": 4, "memory_per_cpu": wrapped(0, set_=False), "memory_per_node": wrapped(100)},
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "steps": [],
        "time": {
            "eligible": 1000,
            "end": 1100,
            "limit": wrapped(5),
            "start": 1010,
            "submission": 1000,
            "suspended": 0,
            "total": {"seconds": 3, "microseconds": 500_000},
        },
        "tres": {
            "requested": [tres("cpu", 4), tres("mem", 200), tres("node", 2)],
            "allocated": [tres("cpu", 4), tres("mem", 200), tres("energy", -2), tres("node", 2)],
        },
        "user": "alice",
        "working_directory": "/home/alice",
    }
    return job | changes


def slurmdb_pending_job() -> dict[str, Any]:
    """Return a job of the database that may begin at 9000, which v0.0.36 and v0.0.37 show as its start."""
    return slurmdb_job(
        job_id=9,
        nodes="None assigned",
        state={"current": ["PENDING"], "reason": "BeginTime"},
        time={"eligible": 9000, "start": 9000, "end": 0, "limit": wrapped(5), "submission": 1000},
    )


def tres(kind: str, count: int, name: str = "") -> dict[str, Any]:
    return {"type": kind, "name": name, "id": 1, "count": count}


def slurm_job(**changes: Any) -> dict[str, Any]:
    """Return a job of the controller as in v0.0.42, with the members that are read."""
    job: dict[str, Any] = {
        "account": "science",
        "array_job_id": wrapped(0),
        "array_task_id": wrapped(0, set_=False),
        "array_task_string": "",
        "cluster": "lab",
        "job_id": 8,
        "job_state": ["RUNNING"],
        "nodes": "n1",
        "tasks": wrapped(1),
        "memory_per_cpu": wrapped(0, set_=False),
        "memory_per_node": wrapped(100),
        "flags": [
            "EXACT_MEMORY_REQUESTED",
            "USING_DEFAULT_QOS",
            "USING_DEFAULT_ACCOUNT",
            "USING_DEFAULT_WCKEY",
        ],
        "eligible_time": wrapped(1000),
        "start_time": wrapped(1010),
        "end_time": wrapped(9999),
        "submit_time": wrapped(1000),
        "time_limit": wrapped(0, set_=False, infinite=True),
        "exit_code": {
            "status": ["SUCCESS"],
            "return_code": wrapped(0),
            "signal": {"id": wrapped(0, set_=False)},
        },
        "tres_req_str": "cpu=1,mem=100M,node=1,billing=1",
        "tres_alloc_str": "cpu=1,mem=100M,node=1,billing=1",
        "user_name": "alice",
        "user_id": 2002,
    }
    return job | changes


def answer(records: list[Any], key: str = "jobs", **more: Any) -> bytes:
    return json.dumps({key: records} | {"meta": META, "errors": [], "warnings": []} | more).encode()


class TestDatabase(TextSourceContract):
    source = SlurmrestdSource
    records = (slurmdb_job(), slurmdb_job(job_id=8), {"job_id": "x", "time": 3}, 5, slurmdb_pending_job())

    def sample(self) -> Sample:
        return Sample(
            self.many(1),
            ids=("7", "8", "9"),
            lines=(1, 2, 5),
            bad_lines=(3, 4),
            written_at=1100,
            unended=("9",),
            file="a.json",
        )

    def many(self, copies: int) -> bytes:
        return answer([*self.records] * copies)


class TestController(TextSourceContract):
    source = SlurmrestdSource

    def sample(self) -> Sample:
        return Sample(
            self.many(1),
            ids=("8", "9"),
            lines=(1, 3),
            bad_lines=(2,),
            written_at=1234,
            unended=("8", "9"),
            file="a.json",
        )

    def many(self, copies: int) -> bytes:
        records = [slurm_job(), slurm_job(submit_time="soon"), slurm_job(job_id=9)]
        return answer(records * copies, last_update=wrapped(1234))


class TestNodes(TextSourceContract):
    source = SlurmrestdSource

    def sample(self) -> Sample:
        return Sample(
            self.many(1),
            ids=("n1", "n2"),
            lines=(1, 3),
            bad_lines=(2,),
            written_at=1234,
            kind="node",
            file="a.json",
        )

    def many(self, copies: int) -> bytes:
        first = {"name": "n1", "state": ["IDLE", "DRAIN"], "cpus": 64, "cpu_load": 613}
        nodes = [first | {"operating_system": "Linux " * 300}, {}, {"name": "n2"}]
        return answer(nodes * copies, "nodes", last_update=wrapped(1234))


def read(tmp_path: Path, data: bytes, **options: Any) -> tuple[list[dict[str, Any]], list[BadRow]]:
    path = tmp_path / "saved.json"
    path.write_bytes(data)
    batches = list(SlurmrestdSource(path, SourceOptions(**options)).batches())
    return read_rows(batches), [row for batch in batches for row in batch.bad]


def read_rows(batches: list[Batch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.frame.iter_rows(named=True)]


def one(tmp_path: Path, record: dict[str, Any], key: str = "jobs", **more: Any) -> dict[str, Any]:
    (row,), bad = read(tmp_path, answer([record], key, **more))
    assert bad == []
    return row


def check(row: dict[str, Any], **expected: Any) -> None:
    assert {name: row[name] for name in expected} == expected


# --- what a record means -----------------------------------------------------------------------------


def test_a_job_of_the_database(tmp_path: Path) -> None:
    step = {
        "time": {"total": {"seconds": 4, "microseconds": 0}},
        "statistics": {"energy": {"consumed": wrapped(70)}},
        "tres": {
            "requested": {"max": [tres("mem", 5000)], "total": [tres("mem", 9000), tres("fs", 11, "disk")]},
            "consumed": {"max": [], "total": [tres("fs", 13, "disk")]},
        },
    }
    small = {"tres": {"requested": {"max": [tres("mem", 4000)], "total": [tres("fs", 1, "disk")]}}}
    check(
        one(tmp_path, slurmdb_job(steps=[step, small], script="#!/bin/bash\nmodule load gcc\npython a.py\n")),
        cluster="lab",
        job_id="7",
        raw_id=7,
        user="alice",
        work_dir="/home/alice",
        script_language="python",
        script_modules="gcc",
        nodes="n[1-2]",
        memory_asked=100 << 20,
        memory_per="node",
        time_limit=300,
        tres_asked="cpu=4,mem=200M,node=2",
        nodes_asked=2,
        cpus_asked=4,
        gpus_asked=None,
        tres_given="cpu=4,mem=200M,node=2",
        memory_given=200 << 20,
        submit=1000,
        start=1010,
        end=1100,
        outcome="completed",
        reason=None,
        exit_code=0,
        exit_signal=0,
        cpu_time=4.0,
        max_memory=5000,
        io_read=12,
        io_written=13,
        energy=70,
        seen_at=1100,
        reconstructed=True,
    )


def test_a_running_job_of_the_controller_was_seen_at_the_time_of_the_answer(tmp_path: Path) -> None:
    check(
        one(tmp_path, slurm_job(), last_update=wrapped(1234)),
        job_id="8",
        time_limit=UNLIMITED,
        defaulted="account,qos",
        start=1010,
        end=None,
        outcome=None,
        exit_code=None,
        seen_at=1234,
        reconstructed=False,
    )


def test_without_a_time_of_its_own_an_answer_is_reconstructed(tmp_path: Path) -> None:
    check(one(tmp_path, slurm_job()), seen_at=1010, reconstructed=True)


def test_the_time_of_the_answer_may_stand_first_last_or_plain(tmp_path: Path) -> None:
    first = {"last_update": 1234, "jobs": [slurm_job()], "errors": []}
    last = {"meta": META, "jobs": [slurm_job(name="a], ")], "x": ["]"], "last_update": 1234, "y": 1}
    for whole in (first, last):
        assert read(tmp_path, json.dumps(whole).encode())[0][0]["seen_at"] == 1234
    assert one(tmp_path, slurm_job(), last_update=1234)["seen_at"] == 1234
    (row,), _ = read(tmp_path, gzip.compress(answer([slurm_job()], last_update=wrapped(1234))))
    assert row["seen_at"] == 1234


def test_memory_that_the_user_did_not_ask_for_is_a_default(tmp_path: Path) -> None:
    assert one(tmp_path, slurm_job(flags=[]))["defaulted"] == "memory_asked"
    assert one(tmp_path, slurm_job(flags=["JOB_MEM_SET", "JOB_CPUS_SET "]))["defaulted"] is None


@pytest.mark.parametrize(
    ("changes", "job_id", "parts"),
    [
        ({"array_job_id": 9, "array_task_id": wrapped(0)}, "9_0", {"array_job_id": 9, "array_task_id": 0}),
        (
            {"array_job_id": wrapped(9), "array_task_string": "3-9", "array_max_tasks": wrapped(2)},
            "9_[3-9%2]",
            {"array_job_id": 9, "array_tasks": "3-9%2", "array_task_id": None},
        ),
        ({"het_job_id": wrapped(6), "het_job_offset": 2}, "6+2", {"het_job_id": 6, "het_offset": 2}),
    ],
)
def test_ids(tmp_path: Path, changes: dict[str, Any], job_id: str, parts: dict[str, Any]) -> None:
    check(one(tmp_path, slurm_job(**changes)), job_id=job_id, raw_id=8, **parts)


def test_tasks_that_never_started_are_a_bit_mask(tmp_path: Path) -> None:
    """Accounting has this for the rest of an array that was cancelled while pending."""
    limits = {"max": {"running": {"tasks": 2}}}
    array = {"job_id": 9, "task": "0x1d", "task_id": wrapped(0, set_=False), "limits": limits}
    check(one(tmp_path, slurmdb_job(array=array)), job_id="9_[0,2-4%2]", array_tasks="0,2-4%2")


@pytest.mark.parametrize(
    ("state", "read_as", "outcome"),
    [
        ("COMPLETED", "COMPLETED", "completed"),
        (["CANCELLED", "COMPLETING"], "CANCELLED", "cancelled"),
        (["COMPLETING", "TIMEOUT"], "TIMEOUT", "timeout"),
        (["RUNNING", "COMPLETING"], "RUNNING", None),
        (["COMPLETING"], "COMPLETING", None),
        ([], None, None),
    ],
)
def test_states(tmp_path: Path, state: Any, read_as: str | None, outcome: str | None) -> None:
    check(one(tmp_path, slurm_job(job_state=state)), state=read_as, outcome=outcome)


def test_an_earlier_run_of_a_requeued_job_is_over(tmp_path: Path) -> None:
    job = slurmdb_job(state={"current": ["PENDING", "REQUEUED"], "reason": "None"})
    check(one(tmp_path, job), state="REQUEUED", outcome="preempted", end=1100)


def test_an_unknown_state_is_warned_about_once(tmp_path: Path) -> None:
    jobs = [slurm_job(job_state=["TELEPORTED"], job_id=n) for n in (1, 2)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows, bad = read(tmp_path, answer(jobs))
    assert [row["outcome"] for row in rows] == ["unknown", "unknown"]
    assert [w.category for w in caught] == [UnknownStateWarning]
    assert bad == []


@pytest.mark.parametrize(
    ("exit_code", "code", "signal"),
    [
        (256, 1, 0),
        (139, 0, 11),  # with a core dump
        (253, 0, 125),
        ({"status": ["ERROR"], "return_code": wrapped(3), "signal": {"id": wrapped(0, set_=False)}}, 3, 0),
        ({"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 9, "name": "Killed"}}, 0, 9),
        ({"status": "SUCCESS", "return_code": 0}, None, 0),  # v0.0.38 of the database: exited, but how?
        (None, None, None),
    ],
)
def test_exit_codes(tmp_path: Path, exit_code: Any, code: int | None, signal: int | None) -> None:
    row = one(tmp_path, slurm_job(job_state="FAILED", end_time=1020, exit_code=exit_code))
    check(row, exit_code=code, exit_signal=signal)


def test_what_lies_ahead_is_left_out(tmp_path: Path) -> None:
    pending = slurm_job(job_state="PENDING", nodes="", start_time=5000, end_time=6000, eligible_time=4000)
    check(one(tmp_path, pending, last_update=1234), start=None, end=None, eligible=None, seen_at=1234)
    check(one(tmp_path, pending), start=None, end=None, eligible=None, seen_at=1000)
    check(one(tmp_path, pending, last_update=4500), eligible=4000)


def test_a_job_cancelled_while_it_waited_never_started(tmp_path: Path) -> None:
    job = slurm_job(job_state=["CANCELLED"], nodes="", start_time=1100, end_time=1100, eligible_time=3000)
    check(one(tmp_path, job, last_update=5000), start=None, end=1100, eligible=None, outcome="cancelled")


def test_gpus_where_they_are_not_accounted(tmp_path: Path) -> None:
    job = slurm_job(tres_per_node="gres/gpu:h100:2", node_count=2, gres_detail=["gpu:h100:2(IDX:0-1)"] * 2)
    check(one(tmp_path, job), gpus_asked=4, gpus_given=4)
    accounted = slurm_job(tres_req_str="cpu=1,gres/gpu=3", tres_per_node="gres/gpu:9")
    check(one(tmp_path, accounted), gpus_asked=3, gpus_given=None)


def test_old_memory_is_counted_by_what_makes_the_whole(tmp_path: Path) -> None:
    asked = {"requested": [tres("cpu", 4), tres("mem", 200), tres("node", 2)]}
    check(one(tmp_path, slurmdb_job(required={"memory": 100}, tres=asked)), memory_per="node")
    check(one(tmp_path, slurmdb_job(required={"memory": 50}, tres=asked)), memory_per="cpu")
    alike = {"requested": [tres("cpu", 2), tres("mem", 200), tres("node", 2)]}
    check(one(tmp_path, slurmdb_job(required={"memory": 100}, tres=alike)), memory_per=None)


def test_a_row_before_the_job_s_own_record_is_no_job(tmp_path: Path) -> None:
    """slurmdbd of 22.05 has this for some seconds after a short job has ended."""
    early = slurmdb_job(
        name="allocation",
        partition="",
        group="root",
        qos=None,
        working_directory="",
        required={"CPUs": 0, "memory": 0},
        tres={"allocated": [tres("cpu", 3)], "requested": []},
    )
    rows, (bad,) = read(tmp_path, answer([early, slurmdb_job(job_id=8, name="allocation")]))
    assert [row["job_id"] for row in rows] == ["8"], "a job may be named so"
    assert (bad.line, bad.reason) == (1, INCOMPLETE)


def test_an_old_user_without_a_name_is_their_number(tmp_path: Path) -> None:
    assert one(tmp_path, slurm_job(user_name=""))["user"] == "2002"


def test_nodes(tmp_path: Path) -> None:
    node = {
        "name": "gpu1",
        "state": ["MIXED", "DRAIN"],
        "cpu_load": 212,
        "free_mem": wrapped(870),
        "gres": "gpu:h100:4(S:0-1),nvme:1",
        "features": ["fast", "ib"],
        "partitions": ["gpu", "main"],
        "real_memory": 1024,
    }
    check(
        one(tmp_path, node, "nodes", last_update=wrapped(1234)),
        cluster="lab",
        state="MIXED+DRAIN",
        cpu_load=2.12,
        gpus=4,
        features="fast,ib",
        partitions="gpu,main",
        memory=1 << 30,
        seen_at=1234,
    )
    old = {"name": "n1", "state": "idle", "state_flags": ["DRAIN"], "free_memory": 5, "features": "fast,ib"}
    row = one(tmp_path, old, "nodes")
    check(row, state="IDLE+DRAIN", features="fast,ib", memory_free=5 << 20, reconstructed=True)
    assert row["seen_at"] == int((tmp_path / "saved.json").stat().st_mtime)


def test_partitions(tmp_path: Path) -> None:
    new = {
        "name": "main",
        "nodes": {"configured": "n[1-4]", "total": 4},
        "cpus": {"total": 256},
        "flags": ["DEFAULT"],
        "partition": {"state": ["UP"]},
        "maximums": {
            "time": wrapped(0, set_=False, infinite=True),
            "nodes": wrapped(0, set_=False, infinite=True),
            "partition_memory_per_cpu": wrapped(0, set_=False),
            "partition_memory_per_node": wrapped(0),
        },
        "defaults": {"time": wrapped(60), "partition_memory_per_cpu": wrapped(100)},
        "priority": {"tier": 1},
    }
    same = {
        "state": "UP",
        "is_default": True,
        "nodes": "n[1-4]",
        "nodes_total": 4,
        "cpus_total": 256,
        "time_max": UNLIMITED,
        "nodes_max": None,
        "time_default": 3600,
        "memory_max": None,
        "memory_default": 100 << 20,
        "memory_default_per": "cpu",
        "priority_tier": 1,
    }
    check(one(tmp_path, new, "partitions"), **same)
    old = {
        "name": "main",
        "nodes": "n[1-4]",
        "total_nodes": 4,
        "total_cpus": 256,
        "flags": ["default"],
        "state": "UP",
        "max_time_limit": -1,
        "maximum_nodes_per_job": -1,
        "default_time_limit": 60,
        "maximum_memory_per_node": 0,
        "default_memory_per_cpu": 100,
        "priority_tier": 1,
    }
    check(one(tmp_path, old, "partitions"), **same)


def test_the_cluster_is_the_records_then_the_sites_then_the_answers(tmp_path: Path) -> None:
    assert read(tmp_path, answer([{"name": "n"}], "nodes", last_update=1))[0][0]["cluster"] == "lab"
    named = read(tmp_path, answer([{"name": "n"}], "nodes", last_update=1), cluster="site")
    assert named[0][0]["cluster"] == "site"
    assert read(tmp_path, answer([slurm_job(cluster="own")]), cluster="site")[0][0]["cluster"] == "own"
    assert read(tmp_path, b'{"partitions": [{"name": "p"}]}')[0][0]["cluster"] == "saved"


def test_what_nobody_knows_yet_does_no_harm(tmp_path: Path) -> None:
    job = slurm_job(
        telepathy={"set": True}, name="\ud83d half a pair", exit_code={"status": ["NEW"], "signal": None}
    )
    check(one(tmp_path, job), job_id="8", name="? half a pair")


def test_a_value_that_cannot_be_is_a_bad_row_with_its_field(tmp_path: Path) -> None:
    strange = [
        slurm_job(job_id="x"),
        slurm_job(submit_time=wrapped(0)),
        slurm_job(tres_req_str="cpu"),
        slurm_job(job_state=["COMPLETED"], start_time=50, end_time=40),
        slurm_job(priority=[]),
        slurm_job(tasks=1e999),
        slurm_job(tasks=10**20),
        slurm_job(priority=1e30),
        slurm_job(memory_per_node=wrapped(2**50)),
        slurm_job(time_limit=wrapped(2**60)),
        slurm_job(tres_req_str="cpu=99999999999999999999"),
        slurm_job(submit_time=wrapped(10**12)),
        slurm_job(job_state=["COMPLETED"], exit_code={"return_code": wrapped(300), "signal": {"id": 1}}),
        slurm_job(job_state={"current": 1}),
    ]
    rows, bad = read(tmp_path, answer([slurm_job(), *strange]))
    assert len(rows) == 1
    assert {row.line: row.field for row in bad} == {
        2: "job_id",
        3: "submit",
        4: "tres_asked",
        5: "start",
        6: "priority",
        7: "tasks_asked",
        8: "tasks_asked",
        9: "priority",
        10: "memory_asked",
        11: "time_limit",
        12: "tres_asked",
        13: "submit",
        14: "exit_code",
        15: "state",
    }


def test_numbers_of_the_database_beyond_all_bounds(tmp_path: Path) -> None:
    tres = {"type": "fs", "name": "disk", "count": 10**18}
    step = {"tres": {"requested": {"total": [tres]}}}
    strange = [
        slurmdb_job(tres={"requested": [{"type": "mem", "name": "", "count": 2**50}]}),
        slurmdb_job(steps=[step] * 10),
    ]
    rows, bad = read(tmp_path, answer([slurmdb_job(), *strange]))
    assert len(rows) == 1
    assert [row.field for row in bad] == ["tres_asked", "cpu_time"]


# --- answers that are none ---------------------------------------------------------------------------


def refused(tmp_path: Path, data: bytes) -> str:
    with pytest.raises(SourceError) as caught:
        read(tmp_path, data)
    return str(caught.value)


def test_an_answer_with_errors_repeats_slurms_message(tmp_path: Path) -> None:
    errors = [{"description": "Unknown flag", "error_number": 9207, "error": "invalid flag"}]
    assert "Unknown flag: invalid flag (error 9207)" in refused(tmp_path, answer([], errors=errors))
    old = [{"error": "unknown job 99", "error_code": 0}]
    assert "unknown job 99" in refused(tmp_path, json.dumps({"errors": old, "jobs": []}).encode())


def test_errors_beside_records_are_a_note(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(answer([slurm_job()], errors=[{"error": "too many"}]))
    source = SlurmrestdSource(path)
    assert len(read_rows(list(source.batches()))) == 1
    assert source.notes == ["a.json: may be incomplete, Slurm says: too many"]


def test_a_start_that_is_the_eligible_time_is_put_right(tmp_path: Path) -> None:
    """v0.0.36 and v0.0.37."""
    times = {"submission": 900, "eligible": 1000, "start": 1000, "end": 1100, "elapsed": 60, "suspended": 10}
    check(one(tmp_path, slurmdb_job(time=times)), start=1030, end=1100)
    check(one(tmp_path, slurmdb_job(time=times | {"elapsed": 90})), start=1000)


def test_no_job_is_no_error(tmp_path: Path) -> None:
    old = [{"description": "Nothing found", "error_number": 9003, "error": "Nothing found with query"}]
    assert read(tmp_path, answer([], errors=old)) == ([], [])
    assert read(tmp_path, answer([])) == ([], [])
    assert read(tmp_path, b'{"jobs": null}') == ([], [])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"pings": [], "meta": {}}', "not an answer with jobs, nodes or partitions: it holds pings, meta"),
        (b"[1]", "not an answer of slurmrestd"),
        (b"Unable find requested URL.", "not an answer of slurmrestd"),
        (answer([slurm_job()]) + b"200", "more text after the end"),
        (answer([slurm_job()])[:-300], "cut short"),
        (b'{"jobs": [{"job_id" 1}]}', "not JSON at character 21"),
        (b'{"jobs": [' + b"[" * 100_000, "nested too deeply"),
        (b'{"jobs": [' + b"1" * 5000 + b"]}", "not JSON at character 11"),
        (answer([{"job_id": "1", "state": ["RUNNING"]}]), "have no submit time"),
    ],
)
def test_what_is_no_answer(tmp_path: Path, data: bytes, words: str) -> None:
    message = refused(tmp_path, data)
    assert words in message
    assert str(tmp_path / "saved.json") in message


# --- the reader of JSON ------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def pulled(data: bytes, block: int) -> dict[str, Any]:
    reader = JsonReader(io.BytesIO(data), "f", block)
    found = {k: list(reader.elements()) if k == "jobs" else reader.value() for k in reader.members()}
    reader.finish()
    return found


@given(
    st.dictionaries(st.text(), values, max_size=4),
    st.lists(values, max_size=5),
    st.integers(1, 40),
    st.sampled_from([None, 1]),
)
def test_pieces_are_what_the_whole_is(
    rest: dict[str, Any], jobs: list[Any], block: int, indent: int | None
) -> None:
    whole = rest | {"jobs": jobs}
    for ascii_only in (True, False):
        text = json.dumps(whole, indent=indent, ensure_ascii=ascii_only)
        assert pulled(text.encode("utf-8", "surrogatepass"), block) == json.loads(text)


@given(st.lists(values, min_size=1, max_size=5), st.integers(1, 40), st.data())
def test_a_part_is_never_taken_for_the_whole(jobs: list[Any], block: int, data: st.DataObject) -> None:
    text = json.dumps({"jobs": jobs, "last_update": 17}).encode()
    cut = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(SourceError):
        pulled(text[:cut], block)


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("element", "value"),
    [
        (b'"line\none\ttwo\x01\x00"', "line\none\ttwo\x01\x00"),  # Slurm has written them raw
        (b'"caf\xe9"', "caf\ufffd"),
        (b"18446744073709551614", 18446744073709551614),  # NO_VAL64, more than a signed integer holds
        (b"-Infinity", float("-inf")),
        (b'{"a": 1, "a": 2}', {"a": 2}),
    ],
)
def test_json_that_strict_readers_refuse(element: bytes, value: Any, block: int) -> None:
    assert pulled(b'{"jobs": [' + element + b"]}", block) == {"jobs": [value]}


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("text", "character"),
    [
        (b'{"jobs": [1, {"a":', 19),
        (b'{"jobs": [1, {"a": "x', 20),
        (b'{"jobs": [1]', 13),
        (b'{"jobs": [1, tru', 14),
    ],
)
def test_cut_json_is_reported_with_its_place(text: bytes, character: int, block: int) -> None:
    with pytest.raises(CutShortError, match=f"cut short at character {character} "):
        pulled(text, block)


def test_broken_utf8_is_replaced(tmp_path: Path) -> None:
    data = answer([slurm_job(name="caf_")]).replace(b"caf_", b"caf\xe9")
    assert read(tmp_path, data)[0][0]["name"] == "caf\ufffd"


# --- real answers ------------------------------------------------------------------------------------

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "slurmrestd"
RECORDED = FOLDER / "recorded"
ARRAYS = {"jobs": "job", "nodes": "node", "partitions": "partition"}


@pytest.mark.shared_data
@pytest.mark.parametrize("name", sorted(str(p.relative_to(FOLDER)) for p in FOLDER.rglob("*.json")))
def test_every_recorded_answer(shared_data: Path, name: str) -> None:
    path = FOLDER / name
    try:
        whole = json.loads(path.read_bytes())
    except ValueError:
        whole = None
    held = {k: whole[k] or [] for k in ARRAYS if k in whole} if isinstance(whole, dict) else {}
    count = sum(len(records) for records in held.values())
    if not held or (count == 0 and whole["errors"]) or path.name == "slurm_jobs_state.json":
        with pytest.raises(SourceError):
            list(SlurmrestdSource(path).batches())
        return
    batches = list(SlurmrestdSource(path).batches())
    assert sum(batch.frame.height for batch in batches) == count
    assert [row for batch in batches for row in batch.bad] == []
    assert {batch.kind for batch in batches} == {ARRAYS[k] for k in held}


def recorded(release: str, place: str) -> dict[str, dict[str, Any]]:
    rows = read_rows(list(SlurmrestdSource(RECORDED / release / place).batches()))
    return {row["job_id" if "job_id" in row else "name"]: row for row in rows}


def differing(one: dict[str, dict[str, Any]], other: dict[str, dict[str, Any]]) -> dict[str, set[str]]:
    """Map each field to the records in which it differs."""
    found: dict[str, set[str]] = {}
    for key in one.keys() & other.keys():
        for field in one[key]:
            if one[key][field] != other[key][field]:
                found.setdefault(field, set()).add(key)
    return found


# The versions of a release were asked one after the other: what moved meanwhile, and what an old version
# does not say. Job 4 of 22.05 reached its limit between v0.0.37 and v0.0.38, and the database got the final
# start of jobs 16 to 19.
MOVED = {"seen_at", "line"}
ENDED_MEANWHILE = {"state", "outcome", "end", "reason", "exit_code", "exit_signal", "derived_exit_code"}
USED = {"cpu_time", "max_memory", "io_read", "io_written"}
UNEQUAL: dict[tuple[str, str], set[str]] = {
    # v0.0.36 looks no user up, and no version before v0.0.38 a group.
    ("22.05.8", "slurm_jobs"): {"user", "group", *ENDED_MEANWHILE},
    ("22.05.8", "slurmdb_jobs"): {"start", *ENDED_MEANWHILE, *USED},
    # v0.0.36 knows no MIXED, no use and no partitions of a node, no state of a partition; it and v0.0.37
    # give every default time limit as 0.
    ("22.05.8", "slurm_nodes"): {"state", "last_busy", "cpus_given", "memory_given", "partitions"},
    ("22.05.8", "slurm_partitions"): {"state", "time_default"},
    ("24.11.5", "slurmdb_jobs"): {"restarts"},  # since v0.0.42
    ("26.05.5", "slurm_jobs"): {"submit_line"},  # since v0.0.44
    ("26.05.5", "slurm_partitions"): {"is_default"},  # v0.0.39 to v0.0.44 give no flags
}


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["slurm_jobs", "slurmdb_jobs", "slurm_nodes", "slurm_partitions"])
@pytest.mark.parametrize("release", ["22.05.8", "24.11.5", "26.05.5"])
def test_every_version_gives_the_same_records(shared_data: Path, release: str, name: str) -> None:
    versions = sorted(p.name for p in (RECORDED / release).glob("v0.0.*"))
    newest = recorded(release, f"{versions[-1]}/{name}.json")
    for version in versions[:-1]:
        older = recorded(release, f"{version}/{name}.json")
        assert older.keys() == newest.keys()
        found = differing(older, newest)
        assert found.keys() <= UNEQUAL.get((release, name), set()) | MOVED, version
        if name == "slurm_jobs":
            assert set().union(*(found.get(f, ()) for f in ENDED_MEANWHILE)) <= {"4"}


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("release", "version"), [("22.05.8", "v0.0.38"), ("24.11.5", "v0.0.42"), ("26.05.5", "v0.0.45")]
)
def test_the_controller_and_the_database_agree(shared_data: Path, release: str, version: str) -> None:
    controller = recorded(release, f"{version}/slurm_jobs.json")
    database = recorded(release, f"{version}/slurmdb_jobs.json")
    assert len(database) == 18
    assert database.keys() < controller.keys()
    allowed = {
        *MOVED,
        "reconstructed",
        *("tasks_asked", "defaulted", "submit_line"),  # only one of the two has them
        *("cancelled_by", *USED),
        "reason",  # of the end, and of the waiting before it
        "exit_signal",  # of a job killed by its limit or its user: the database says none
    }
    if release == "22.05.8":
        # Exit codes lost, memory without what it is counted by; restarts came later.
        allowed |= {"exit_code", "derived_exit_code", "memory_per", "restarts"}
    found = differing(controller, database)
    assert found.keys() <= allowed
    assert found.get("exit_signal", set()) <= {"4", "6"}


@pytest.mark.shared_data
def test_what_the_recorded_jobs_were(shared_data: Path) -> None:
    for release, place in (("22.05.8", "v0.0.36"), ("24.11.5", "v0.0.40"), ("26.05.5", "v0.0.45")):
        jobs = {row["name"]: row for row in recorded(release, f"{place}/slurm_jobs.json").values()}
        check(jobs["ok"], outcome="completed", exit_code=0, cpus_asked=2, memory_asked=200 << 20)
        check(jobs["fail1"], outcome="failed", exit_code=1, exit_signal=0)
        check(jobs["sig"], outcome="failed", exit_code=0, exit_signal=11)
        check(jobs["oom"], outcome="out_of_memory", exit_code=0, exit_signal=125)
        check(jobs["cancel_pending"], outcome="cancelled", start=None, nodes=None)
        check(jobs["running"], outcome=None, end=None, exit_code=None, time_limit=1800)
        check(jobs["dep_ok_never"], dependency="afterok:10", start=None, reason="DependencyNeverSatisfied")
        check(jobs["unsched"], cpus_asked=2, cpus_given=128, memory_per="cpu", memory_given=12800 << 20)
        assert "memory_asked" in jobs["unsched"]["defaulted"]


def test_frames_keep_their_types_when_every_value_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(answer([{"job_id": 1, "submit_time": 5}]))
    (batch,) = SlurmrestdSource(path).batches()
    assert batch.frame.schema["cpu_time"] == pl.Float64


# --- how jobs ended by their steps ---------------------------------------------------------------


def ended_step(name: str, state: Any, start: int, end: int) -> dict[str, Any]:
    return {"step": {"id": f"7.{name}", "name": name}, "state": state, "time": {"start": start, "end": end}}


@pytest.mark.parametrize(
    ("steps", "outcome"),
    [
        ([ended_step("0", ["OUT_OF_MEMORY"], 1010, 1020)], "out_of_memory"),
        ([ended_step("0", "OUT_OF_MEMORY", 1010, 1020)], "out_of_memory"),
        ([ended_step("0", ["TIMEOUT"], 1010, 1020)], "timeout"),
        ([ended_step("0", ["NODE_FAIL"], 1010, 1020)], "node_fail"),
        (
            [ended_step("0", ["OUT_OF_MEMORY"], 1010, 1020), ended_step("1", ["FAILED"], 1030, 1040)],
            "failed",
        ),
        ([ended_step("0", ["FAILED"], 1010, 1020)], "failed"),
    ],
)
def test_a_step_tells_how_its_failed_job_ended(
    tmp_path: Path, steps: list[dict[str, Any]], outcome: str
) -> None:
    batch = ended_step("batch", ["FAILED"], 1010, 1100)
    job = one(tmp_path, slurmdb_job(state={"current": ["FAILED"]}, steps=[batch, *steps]))
    assert (job["outcome"], job["state"]) == (outcome, "FAILED")
    job = one(tmp_path, slurmdb_job(state={"current": ["COMPLETED"]}, steps=steps))
    assert job["outcome"] == "completed", "the script dealt with it"


def test_the_controller_tells_an_out_of_memory_step(tmp_path: Path) -> None:
    """It has no steps, but the highest exit code of them."""
    marked = {
        "status": ["SIGNALED"],
        "return_code": wrapped(0, set_=False),
        "signal": {"id": wrapped(125), "name": "125"},
    }
    failed = slurm_job(job_state=["FAILED"], derived_exit_code=marked, end_time=wrapped(1100))
    job = one(tmp_path, failed)
    assert (job["outcome"], job["state"]) == ("out_of_memory", "FAILED")
