"""`forewarn explain` as its user meets it: on a simulated cluster, without Slurm, and with a slurmrestd."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from forewarn.errors import UsageError
from tests.serve.conftest import Forewarn
from tests.sources.fake_slurmrestd import jwt, serving
from tests.sources.test_slurmrestd import META, slurm_job
from tests.sources.test_slurmrestd_client import UNKNOWN, jobs, script

NOW = int(time.time())


@pytest.fixture
def no_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("FOREWARN_SLURMRESTD", raising=False)


@pytest.fixture
def simulated(forewarn: Forewarn, no_slurm: None, tmp_path: Path) -> Forewarn:
    result = forewarn("simulate", "--scenario", "small", "--jobs", "1500", "--seed", "3", "--ingest")
    assert result.code == 0, result.err
    return forewarn


@pytest.mark.slow
def test_jobs_of_a_simulated_cluster(simulated: Forewarn) -> None:
    listed = simulated("jobs", "-s", "failed,OOM,timeout,node_fail,completed", "-n", "0", "--json").lines
    families = {"out_of_memory": "out_of_memory", "timeout": "time_limit", "node_fail": "node_failure"}
    explained = set()
    for row in {row["outcome"]: row for row in listed}.values():
        result = simulated("explain", row["job_id"], "--json")
        assert result.code == 0, result.err
        assert result.json["outcome"] == row["outcome"]
        if row["outcome"] in families:
            assert result.json["family"] == families[row["outcome"]]
            explained.add(row["outcome"])
        assert result.json["logs"] == [] or not result.json["logs"][0]["read"]
    assert {"out_of_memory", "timeout"} <= explained


def test_for_people(simulated: Forewarn, tmp_path: Path) -> None:
    row = simulated("jobs", "-s", "OOM", "-n", "1", "--json").lines[0]
    result = simulated("explain", row["job_id"])
    assert result.code == 0
    assert result.out.startswith(f"Job {row['job_id']} (")
    for words in (
        "The job ran out of memory",
        "Confidence: certain",
        "Evidence",
        "What to do",
        "#SBATCH --mem=",
    ):
        assert words in result.out
    log = tmp_path / "my.out"
    log.write_text("one\nMemoryError\n")
    result = simulated("explain", row["job_id"], "--log", log)
    assert f"In {log}" in result.out
    assert "line 2  MemoryError" in result.out


@pytest.mark.slow
@pytest.mark.parametrize("token", [True, False])
def test_the_store_is_enough_where_slurmrestd_is_away(
    simulated: Forewarn, monkeypatch: pytest.MonkeyPatch, token: bool
) -> None:
    row = simulated("jobs", "-s", "OOM", "-n", "1", "--json").lines[0]
    monkeypatch.setenv("FOREWARN_SLURMRESTD", "http://127.0.0.1:1")
    monkeypatch.delenv("SLURM_JWT", raising=False)
    if token:
        monkeypatch.setenv("SLURM_JWT", jwt(issued=NOW - 10, expires=NOW + 3600))
    result = simulated("explain", row["job_id"])
    assert result.code == 0, result.err
    assert "The job ran out of memory" in result.out
    assert "Slurm could not be queried" in result.err
    unknown = simulated("explain", "99999999")
    assert unknown.code == UsageError.exit_code
    assert ("nothing listens there" if token else "token") in unknown.err


def test_a_job_that_nobody_knows(simulated: Forewarn) -> None:
    result = simulated("explain", "99999999")
    assert result.code == UsageError.exit_code
    assert "no job 99999999 in the store" in result.err
    assert simulated("explain", "not-an-id").code == UsageError.exit_code


@pytest.mark.usefixtures("no_slurm")
def test_nothing_to_ask(forewarn: Forewarn) -> None:
    result = forewarn("explain", "7")
    assert result.code == UsageError.exit_code
    assert "no job 7" in result.err


def test_a_job_that_waits_in_slurm(forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = slurm_job(
        job_state=["PENDING"],
        state_reason="QOSMaxJobsPerUserLimit",
        submit_time=NOW - 60,
        start_time=NOW + 7260,
        nodes="",
    )
    answers = {
        "ping": (200, {"pings": [], "meta": META}),
        "job_8": jobs(waiting, last_update=NOW),
        "job_8_db": (200, UNKNOWN),
    }
    with serving(script(42, **answers)) as fake:
        monkeypatch.setenv("FOREWARN_SLURMRESTD", fake.address)
        monkeypatch.setenv("SLURM_JWT", jwt(issued=NOW - 10, expires=NOW + 3600))
        result = forewarn("explain", "8", "--json")
        assert result.code == 0, result.err
        assert result.json["phase"] == "pending"
        assert "its QOS limits the jobs per user, and the limit is reached" in result.json["cause"]
        assert result.json["start_estimate"] == NOW + 7260
        assert "Slurm's own estimate" in forewarn("explain", "8").out
