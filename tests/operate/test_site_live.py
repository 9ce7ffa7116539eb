"""The methods of a site that ask Slurm, on a slurmrestd with prepared answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import forewarn
from forewarn.errors import LearningError, RefusedError, UsageError
from tests.sources.fake_slurmrestd import FakeSlurmrestd, jwt, serving
from tests.sources.test_slurmrestd import META, slurm_job, slurmdb_job
from tests.sources.test_slurmrestd_client import jobs, script

NOW = int(time.time())
TIMES = {"submission": NOW - 90, "eligible": NOW - 90, "start": NOW - 60, "end": NOW - 50}
RUNNING = slurm_job(submit_time=NOW - 30, start_time=NOW - 20)
ANSWERS: dict[str, Any] = {
    "ping": (200, {"pings": [], "meta": META}),
    "diag": (200, {"statistics": {"req_time": NOW, "dbd_agent_queue_size": 0}, "meta": META}),
    "jobs_db": jobs(slurmdb_job(time=TIMES)),
    "jobs": jobs(RUNNING, last_update=NOW),
    "job_8": jobs(RUNNING, last_update=NOW),
    "job_9": jobs(),
    "job_9_db": jobs(),
    "nodes": (200, {"nodes": [{"name": "n1", "state": ["IDLE"]}], "last_update": NOW, "meta": META}),
    "partitions": (200, {"partitions": [], "last_update": NOW, "meta": META}),
}


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlurmrestd]:
    for name in ("HOME", "CONFIG", "POLICY", "CLUSTER", "TIMEZONE", "SLURMRESTD", "MODEL"):
        monkeypatch.delenv(f"FOREWARN_{name}", raising=False)
    monkeypatch.setenv("SLURM_JWT", jwt(issued=NOW - 10, expires=NOW + 3600))
    with serving(script(42, **ANSWERS)) as fake:
        yield fake


@pytest.fixture
def site(slurm: FakeSlurmrestd, tmp_path: Path) -> Iterator[forewarn.Site]:
    with forewarn.open(tmp_path / "home", slurmrestd=slurm.address) as opened:
        yield opened


def test_collecting_reads_history_and_live_jobs(site: forewarn.Site) -> None:
    with site.collecting(since=NOW - 3600, assess=True) as collector:
        (only,) = collector.once()
    assert (only.new_jobs, only.assessed, only.troubles) == (2, 1, {})
    assert {job.job_id: job.outcome for job in site.jobs()} == {"7": "completed", "8": None}
    (saved,) = site.assessments()
    assert (saved.cluster, saved.job_id) == ("lab", "8")
    assert site.assessments(job_id="8", cluster="lab", since=NOW - 60) == [saved]
    assert site.assessments(until=NOW - 60) == []


def test_a_collector_is_stopped_from_another_round(site: forewarn.Site) -> None:
    rounds = 0
    with site.collecting(since=NOW - 3600, assess=False) as collector:
        for _ in collector.forever(interval=0.01):
            rounds += 1
            if rounds == 3:
                collector.stop()
    assert rounds == 3
    assert site.assessments() == [], "assessing was switched off"


def test_live_jobs_are_predicted_and_advised(site: forewarn.Site) -> None:
    result = site.predict(running=True)
    assert [(one.job_id, one.state) for one in result.assessments] == [("8", "RUNNING")]
    assert result.unserved == "lab"
    with pytest.raises(LearningError, match="no model serves lab yet"):
        result.check(needs_model=True)
    assert site.predict(pending=True).assessments == ()
    assert site.predict(user="nobody").assessments == ()
    (advised,) = site.advise("8").assessments
    assert (advised.job_id, advised.advice) == ("8", ()), "a running job cannot be changed"
    with pytest.raises(UsageError, match="name the jobs"):
        site.predict()
    with pytest.raises(UsageError, match="name the jobs"):
        site.predict("8", pending=True)


def test_an_unknown_job_is_named(site: forewarn.Site) -> None:
    result = site.predict("8", "9")
    assert [one.job_id for one in result.assessments] == ["8"]
    assert result.unknown == ("9",)
    with pytest.raises(RefusedError, match="job 9: neither slurmctld nor accounting knows it"):
        result.check()


def test_a_running_job_is_explained_from_slurm_alone(site: forewarn.Site) -> None:
    report = site.explain("8")
    assert (report.cluster, report.job_id, report.state) == ("lab", "8", "RUNNING")
    assert not (site.config.home / "store").exists(), "an explanation writes nothing"
