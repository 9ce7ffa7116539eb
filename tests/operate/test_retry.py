"""A retry verdict from Python: by a job's id, and by a record that a workflow engine has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import forewarn
from forewarn.assess.retry.verdict import RetryAction
from forewarn.errors import UsageError
from forewarn.job.record import Job
from tests.serve.conftest import sacct_line, write_sacct

GIB = 1 << 30
SUBMIT = 1_705_000_000


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> forewarn.Site:
    for name in ("HOME", "CONFIG", "POLICY", "CLUSTER", "TIMEZONE", "SLURMRESTD"):
        monkeypatch.delenv(f"FOREWARN_{name}", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    return forewarn.open(tmp_path / "home", cluster="alps")


def record(number: int = 7, **fields: object) -> Job:
    job = Job(
        cluster="alps",
        job_id=str(number),
        submit=SUBMIT,
        start=SUBMIT + 10,
        end=SUBMIT + 900,
        user="ann",
        name="fit",
        state="FAILED",
        outcome="failed",
        exit_code=1,
        time_limit=3600,
        memory_asked=GIB,
        memory_per="node",
    )
    return replace(job, **fields)  # type: ignore[arg-type]


def test_by_id(site: forewarn.Site, tmp_path: Path) -> None:
    path = write_sacct(tmp_path / "h.txt", sacct_line("3", state="OUT_OF_MEMORY", code="0:125"))
    site.ingest(f"sacct:{path}")
    found = site.retry("3")
    assert isinstance(found, forewarn.RetryVerdict)
    assert found.options == ("--mem=8G",)
    with pytest.raises(UsageError, match="no job 4"):
        site.retry("4")


def test_by_record_without_any_store(site: forewarn.Site) -> None:
    found = site.retry_of(record(outcome="timeout", state="TIMEOUT", end=SUBMIT + 3610))
    assert (found.verdict, found.time_limit) == (RetryAction.MORE_TIME, 7200)
    assert found.cases == 0
    assert not site.config.home.exists()


def test_a_record_with_a_wrong_id(site: forewarn.Site) -> None:
    with pytest.raises(UsageError, match="job id"):
        site.retry_of(record(job_id="rm -rf"))


def test_attempts_of_the_store_count(site: forewarn.Site, tmp_path: Path) -> None:
    """The record of the second attempt is not in the store yet, as a workflow engine is faster."""
    lines = [sacct_line("3", state="FAILED", code="1:0")]
    site.ingest(f"sacct:{write_sacct(tmp_path / 'h.txt', *lines)}")
    (first,) = site.jobs()
    assert site.retry_of(first).attempts == 1
    assert site.retry_of(first).verdict is RetryAction.RETRY
    assert first.end is not None
    second = replace(first, job_id="4", submit=first.end + 60, start=first.end + 70, end=first.end + 4000)
    found = site.retry_of(second)
    assert (found.attempts, found.verdict) == (2, RetryAction.DO_NOT_RETRY)


def test_attempts_that_a_program_remembers(site: forewarn.Site) -> None:
    from forewarn.operate.retry import retry_of
    from forewarn.operate.workspace import Workspace

    first = record(6)
    second = record(7, submit=SUBMIT + 1000, start=SUBMIT + 1010, end=SUBMIT + 1900)
    with Workspace(site.config) as workspace:
        assert retry_of(workspace, second).verdict is RetryAction.RETRY
        found = retry_of(workspace, second, attempts=[first])
    assert (found.attempts, found.verdict) == (2, RetryAction.DO_NOT_RETRY)


def test_others_jobs_are_counted_over_five_users_only(site: forewarn.Site, tmp_path: Path) -> None:
    def pair(number: int, user: str) -> list[str]:
        again = {
            "submit": "2024-01-10T10:00:00",
            "start": "2024-01-10T10:01:00",
            "end": "2024-01-10T11:00:00",
        }
        failed = sacct_line(str(number), user=user, state="FAILED", code="1:0")
        return [failed, sacct_line(str(number + 1), user=user, **again)]

    few = [line for i in range(4) for line in pair(100 + 2 * i, f"u{i}")]
    site.ingest(f"sacct:{write_sacct(tmp_path / 'few.txt', *few)}")
    job = record(submit=1_704_960_000, start=1_704_960_010, end=1_704_961_000, name="run", exit_code=1)
    codes = [str(one.code) for one in site.retry_of(job).evidence]
    assert "retries_elsewhere" in codes
    many = [line for i in range(4, 9) for line in pair(100 + 2 * i, f"u{i}")]
    site.ingest(f"sacct:{write_sacct(tmp_path / 'many.txt', *many)}")
    with forewarn.open(site.config.home, cluster="alps") as fresh:
        found = fresh.retry_of(job)
    (counted,) = [one for one in found.evidence if str(one.code) == "retries_of_cluster"]
    assert counted.values["users"] == 9
    assert "u1" not in str(found.to_json())
