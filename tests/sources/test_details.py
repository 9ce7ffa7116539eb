"""Tests of the details of one job: outputs, script, steps, estimated start."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.sources.slurm.scheduler import StepRecord
from tests.sources.fake_slurmrestd import NOW, client_of, serving
from tests.sources.test_commands import calls_of, command, scheduler
from tests.sources.test_slurmrestd import RECORDED, slurm_job, slurmdb_job, wrapped
from tests.sources.test_slurmrestd_client import UNKNOWN, jobs, script

__all__ = ["command"]
KILLED = {
    "step": {"id": "8.0", "name": "solver"},
    "state": ["OUT_OF_MEMORY"],
    "exit_code": {"status": ["SIGNALED"], "return_code": wrapped(0), "signal": {"id": wrapped(125)}},
    "nodes": {"range": "n1"},
}


def test_by_slurmrestd() -> None:
    waiting = slurm_job(
        job_state=["PENDING"],
        start_time=wrapped(NOW + 500),
        standard_output="/w/%x.out",
        standard_error="",
        stdout_expanded="/w/fit.out",
    )
    past = slurmdb_job(steps=[KILLED], script="#!/bin/sh\ntrue\n")
    with (
        serving(script(45, job_8=jobs(waiting), job_8_db=jobs(past))) as fake,
        client_of(fake.address) as client,
    ):
        found = client.details("8")
    assert found.outputs == ("/w/fit.out",)
    assert found.start_estimate == NOW + 500
    assert found.script == "#!/bin/sh\ntrue\n"
    assert found.steps == (
        StepRecord(
            name="0", state="OUT_OF_MEMORY", exit_code=0, exit_signal=125, nodes="n1", command="solver"
        ),
    )
    assert found.notes == ()


def test_an_id_that_slurm_used_again() -> None:
    """What accounting still has of an earlier job of another user is not the new one's; each has an owner."""
    live, past = slurm_job(user_name="ann"), slurmdb_job(steps=[KILLED], script="#!/bin/sh\ntrue\n")
    for owner, steps in (("ann", 1), ("bob", 0)):
        old = past | {"user": None, "association": {"user": owner}}
        with (
            serving(script(45, job_8=jobs(live), job_8_db=jobs(old))) as fake,
            client_of(fake.address) as client,
        ):
            found = client.details("8")
        assert (found.user, len(found.steps), found.script is None) == ("ann", steps, not steps)
    only_past = script(45, job_8=(200, UNKNOWN), job_8_db=jobs(past | {"user": "bob"}))
    with serving(only_past) as fake, client_of(fake.address) as client:
        assert client.details("8").user == "bob"


def test_a_running_job_has_no_estimate() -> None:
    answers = {"job_8": jobs(slurm_job(start_time=wrapped(NOW + 500))), "job_8_db": (200, UNKNOWN)}
    with serving(script(45, **answers)) as fake, client_of(fake.address) as client:
        assert client.details("8").start_estimate is None


def test_the_task_that_was_asked_for() -> None:
    tasks = [
        slurm_job(array_job_id=wrapped(8), array_task_id=wrapped(n), standard_output=f"/w/{n}.out")
        for n in range(3)
    ]
    with serving(script(42, job_8=jobs(*tasks), job_8_db=jobs())) as fake, client_of(fake.address) as client:
        assert client.details("8_1").outputs == ("/w/1.out",)


def test_accounting_that_is_away_is_a_note() -> None:
    down = (200, {"errors": [{"error_number": 7000, "error": "Unable to connect to database"}], "jobs": []})
    with (
        serving(script(42, job_8=jobs(slurm_job()), job_8_db=down)) as fake,
        client_of(fake.address) as client,
    ):
        found = client.details("8")
    assert found.steps == ()
    assert "could not read accounting's record" in found.notes[0]


@pytest.mark.shared_data
@pytest.mark.parametrize("version", ["22.05.8/v0.0.38", "24.11.5/v0.0.42", "26.05.5/v0.0.45"])
def test_what_real_servers_answered(shared_data: Path, version: str) -> None:
    folder = RECORDED / version
    live = json.loads((folder / "slurm_jobs.json").read_text())
    past = json.loads((folder / "slurmdb_jobs.json").read_text())
    number = int(version.rpartition(".")[2])
    of_job = [job for job in past["jobs"] if job["job_id"] == 3]
    mine = [job for job in live["jobs"] if job["job_id"] == 3]
    answers = {"job_3": jobs(*mine), "job_3_db": jobs(*of_job)}
    with serving(script(number, **answers)) as fake, client_of(fake.address) as client:
        found = client.details("3")
    assert len(found.outputs) >= 1
    assert found.outputs[-1].endswith((".out",))
    assert [step.name for step in found.steps][:1] == ["batch"]
    assert found.notes == ()


SHOWN = (
    "JobId=7 JobName=a b UserId=ann(5) JobState=PENDING Reason=Priority StartTime=1800000000 "
    "WorkDir=/w StdErr=/w/e.log StdIn=/dev/null StdOut=/w/o.log"
)
STEPS = "7|FAILED|1:0|n1|ann|fit\n7.batch|FAILED|9:0|n1||batch\n7.0|OUT_OF_MEMORY|0:125|n1||my|solver\n"


def test_by_commands(command: Callable[[str, str], Path], tmp_path: Path) -> None:
    command("scontrol", f"echo '{SHOWN}'")
    kept = f"printf 'Batch Script for 7\\n%s\\n#!/bin/sh\\ntrue\\n' {'-' * 80}"
    command("sacct", f"case \"$*\" in *-B*) {kept};; *) printf '{STEPS}';; esac")
    found = scheduler(tmp_path).details("7")
    assert found.outputs == ("/w/e.log", "/w/o.log")
    assert found.start_estimate == 1_800_000_000
    assert found.script == "#!/bin/sh\ntrue\n"
    assert [(step.name, step.state, step.command) for step in found.steps] == [
        ("batch", "FAILED", None),
        ("0", "OUT_OF_MEMORY", "my|solver"),
    ]
    assert [(step.exit_code, step.exit_signal) for step in found.steps] == [(137, 0), (0, 125)]
    assert calls_of(tmp_path, "scontrol") == ["-o show job 7"]
    assert found.user == "ann"


def test_an_id_used_again_by_commands(command: Callable[[str, str], Path], tmp_path: Path) -> None:
    command("scontrol", f"echo '{SHOWN}'")
    command("sacct", f"printf '{STEPS.replace('|ann|', '|bob|')}'")
    found = scheduler(tmp_path).details("7")
    assert (found.user, found.steps, found.script) == ("ann", (), None)
    command("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    found = scheduler(tmp_path).details("7")
    assert (found.user, len(found.steps)) == ("bob", 2)


def test_commands_that_know_little(command: Callable[[str, str], Path], tmp_path: Path) -> None:
    command("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    command(
        "sacct",
        'case "$*" in --helpformat) echo "JobID StdErr StdOut";; *StdOut*) echo "|/w/%j.out";; '
        '*-B*) echo NONE;; *) echo "sacct: error: Problem talking to the database" >&2; exit 1;; esac',
    )
    found = scheduler(tmp_path).details("7")
    assert found.outputs == ("/w/%j.out",)
    assert (found.script, found.steps, found.start_estimate) == (None, (), None)
    assert len(found.notes) == 1
    assert "could not read the steps" in found.notes[0]
