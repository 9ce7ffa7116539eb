"""`forewarn collect` and `predict` as users run them, on a slurmrestd with prepared answers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.assess.assessment import Failure, Reason, Route
from forewarn.assess.codes import ReasonCode
from forewarn.assess.verdict import with_verdict
from forewarn.assess.wording import Reader
from forewarn.errors import LearningError, SchedulerError, UsageError
from forewarn.serve.cli.commands.predict import _stated_by
from forewarn.serve.cli.terminal.assessment import show
from tests.assess.test_verdict import PLAIN
from tests.serve.conftest import Forewarn
from tests.sources.fake_slurmrestd import FakeSlurmrestd, jwt, serving
from tests.sources.test_slurmrestd import META, slurm_job, slurmdb_job
from tests.sources.test_slurmrestd_client import jobs, script

pytestmark = pytest.mark.slow

EXECUTABLE = Path(sys.executable).parent / "forewarn"
NOW = int(time.time())
TIMES = {"submission": NOW - 90, "eligible": NOW - 90, "start": NOW - 60, "end": NOW - 50}
ANSWERS: dict[str, Any] = {
    "ping": (200, {"pings": [], "meta": META}),
    "diag": (200, {"statistics": {"req_time": NOW, "dbd_agent_queue_size": 0}, "meta": META}),
    "jobs_db": jobs(slurmdb_job(time=TIMES)),
    "jobs": jobs(slurm_job(submit_time=NOW - 30, start_time=NOW - 20), last_update=NOW),
    "job_8": jobs(slurm_job(submit_time=NOW - 30, start_time=NOW - 20), last_update=NOW),
    "job_9": jobs(),
    "job_9_db": jobs(),
    "nodes": (200, {"nodes": [{"name": "n1", "state": ["IDLE"]}], "last_update": NOW, "meta": META}),
    "partitions": (200, {"partitions": [], "last_update": NOW, "meta": META}),
}


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlurmrestd]:
    with serving(script(42, **ANSWERS)) as fake:
        monkeypatch.setenv("FOREWARN_SLURMRESTD", fake.address)
        monkeypatch.setenv("SLURM_JWT", jwt(issued=NOW - 10, expires=NOW + 3600))
        yield fake


@pytest.mark.usefixtures("slurm")
def test_collect_once(forewarn: Forewarn) -> None:
    first = forewarn("collect", "--once", "--since", "now-1hour")
    assert first.code == 0, first.err
    assert "2 new jobs" in first.err
    assert first.out == ""
    (again,) = forewarn("collect", "--once", "--json").lines
    assert (again["new_jobs"], again["changed_jobs"], again["lag"], again["troubles"]) == (0, 0, 0, {})
    assert again["requests"] > 3
    assert again["received"] > 1000
    listed = forewarn("jobs", "--json").lines
    assert {row["job_id"]: row["outcome"] for row in listed} == {"7": "completed", "8": None}


@pytest.mark.usefixtures("slurm")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_how_it_ends(how: signal.Signals, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with out.open("w") as file:
        running = subprocess.Popen(
            [EXECUTABLE, "collect", "--interval", "1", "--json", "--since", "now-1hour"],
            env=os.environ | {"FOREWARN_HOME": str(home)},
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 60
        while out.read_text().count("\n") < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        running.send_signal(how)
        _, errors = running.communicate(timeout=30)
    assert (running.returncode, errors.splitlines()[-1]) == (0, "stopped")
    assert out.read_text().count("\n") >= 2


@pytest.mark.parametrize("body", [b"<html>busy</html>", b"", b"[]", b'{"jobs": ['])
def test_answers_that_make_no_sense_are_waited_out(
    body: bytes, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All answers of a second, though they are answers: a proxy's, or a server's that is restarting."""
    served, until = script(42, **ANSWERS), [0.0]
    with serving(lambda asked: (200, body) if time.monotonic() < until[0] else served(asked)) as fake:
        monkeypatch.setenv("FOREWARN_SLURMRESTD", fake.address)
        monkeypatch.setenv("SLURM_JWT", jwt(issued=NOW - 10, expires=NOW + 3600))
        out, err = tmp_path / "out", tmp_path / "err"
        with out.open("w") as file, err.open("w") as errors:
            command = [str(EXECUTABLE), "collect", "--interval", "1", "--json", "--since", "now-1hour"]
            environ = os.environ | {"FOREWARN_HOME": str(home)}
            running = subprocess.Popen(command, env=environ, stdout=file, stderr=errors)
            try:
                _wait_for(lambda: out.read_text().count("\n") >= 1)
                until[0] = time.monotonic() + 1000
                _wait_for(lambda: "cannot read" in err.read_text())
                until[0] = 0.0
                _wait_for(lambda: "reading again" in err.read_text())
            finally:
                running.terminate()
            assert running.wait(30) == 0
    assert re.search(r"note: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC  cannot read live jobs", err.read_text())


def _wait_for(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_nobody_answers(forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FOREWARN_SLURMRESTD", f"unix:{tmp_path}/no.sock")
    monkeypatch.setenv("SLURM_JWT", jwt())
    result = forewarn("collect", "--once")
    assert result.code == SchedulerError.exit_code
    assert "no such socket" in result.err


@pytest.mark.usefixtures("slurm")
@pytest.mark.parametrize("command", ["predict", "runtime"])
@pytest.mark.parametrize("args", [(), ("7", "--pending"), ("7", "-u", "ann")])
def test_predict_wants_to_know_which(forewarn: Forewarn, command: str, args: tuple[str, ...]) -> None:
    result = forewarn(command, *args)
    assert result.code == UsageError.exit_code
    assert "name the jobs: either ids, or --pending" in result.err


@pytest.mark.usefixtures("slurm")
def test_predict_without_a_model_or_a_job(forewarn: Forewarn, registry_home: Path) -> None:
    assert registry_home.is_dir()
    result = forewarn("predict", "8")
    assert result.code == LearningError.exit_code
    assert "`forewarn train` trains one" in result.out, "nobody can say, and why"
    assert "train one with `forewarn train`" in result.err
    (of_8,) = json.loads(forewarn("predict", "8", "--json").out)
    assert of_8["job_id"] == "8"
    assert forewarn("predict", "9").code == SchedulerError.exit_code
    nobody = forewarn("predict", "-u", "nobody")
    assert (nobody.code, nobody.out, nobody.err) == (0, "", "no pending or running job matches\n")


def test_predict_says_who_states_a_risk(
    forewarn: Forewarn, registry_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert registry_home.is_dir()
    times = [dict(TIMES, submission=NOW - 900 + n, eligible=NOW - 900 + n) for n in range(250)]
    ended = jobs(*(slurmdb_job(job_id=1000 + n, time=time) for n, time in enumerate(times)))
    # For a new name and request there is no estimate yet.
    live = slurm_job(submit_time=NOW - 30, start_time=NOW - 20, name=slurmdb_job()["name"])
    waits = dict.fromkeys(("jobs", "job_8"), jobs(live, last_update=NOW))
    with serving(script(42, **ANSWERS | {"jobs_db": ended} | waits)) as fake:
        monkeypatch.setenv("FOREWARN_SLURMRESTD", fake.address)
        monkeypatch.setenv("SLURM_JWT", jwt(issued=NOW - 10, expires=NOW + 3600))
        assert forewarn("collect", "--once", "--since", "now-1hour").code == 0
        answer = forewarn("predict", "8")
        assert answer.code == 0, "a risk is stated, though no model serves"
        head, row = (re.split(r"\s{2,}", line) for line in answer.out.splitlines()[:2])
        assert row[head.index("by")] == "untrained"
        assert "rough estimate from recent outcomes, not a trained model" in answer.err


def test_a_rule_that_serves_in_place_of_a_model_is_labelled() -> None:
    failure = Failure(probability=0.4, threshold=0.3, warns=True, base_rate=0.2, rests_on=900)
    route = Route(model="c.submit.generic", version=1, phase="submit", feature_set="generic")
    by_model = replace(PLAIN, failure=failure, route=route)
    by_rule = replace(by_model, route=replace(route, rule="last_user"))
    nobody = replace(by_model, failure=None)
    assert [*map(_stated_by, (by_model, by_rule, nobody))] == ["model", "rule", None]


def test_a_page_speaks_to_who_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    values = {"streak": 4, "ended": 9}
    reason = Reason(code=ReasonCode.REQUEST, values=values, group="same_request", weight=1.0)
    assessment = with_verdict(replace(PLAIN, reasons=(reason,)))
    for viewer, expected in ((assessment.user, "+ your last 4 jobs"), ("bob", "+ ann's last 4 jobs")):
        show(assessment, "job 1", Reader.of(assessment.user, viewer))
        out = capsys.readouterr().out
        assert out.startswith("job 1: cannot say\n")
        assert expected in out


@pytest.mark.usefixtures("slurm")
@pytest.mark.parametrize("command", ["predict", "runtime", "advise"])
def test_jobs_that_nobody_knows_among_others(command: str, forewarn: Forewarn, registry_home: Path) -> None:
    assert registry_home.is_dir()
    result = forewarn(command, "9", "8")
    assert result.code == SchedulerError.exit_code
    assert "8" in result.out, "the other is reported"
    assert "job 9: neither slurmctld nor accounting knows it" in result.err


@pytest.mark.usefixtures("slurm")
def test_runtime_without_a_model_says_nothing_false(forewarn: Forewarn, registry_home: Path) -> None:
    assert registry_home.is_dir()
    result = forewarn("runtime", "8")
    assert result.code == 0
    assert "n/a" in result.out
    assert "no run time is predicted" in result.err
    (forecast,) = json.loads(forewarn("runtime", "8", "--json").out)
    assert (forecast["job_id"], forecast["run_time"], forecast["resources"]) == ("8", None, None)


@pytest.mark.usefixtures("slurm")
def test_learning_from_accounting(forewarn: Forewarn) -> None:
    result = forewarn("train", "slurm:now-1hour", "--family", "online")
    assert result.code == LearningError.exit_code, "one job is too little, and it was read"
    assert forewarn("train", "slurm:", "--status", "swf").code == UsageError.exit_code
    assert "not a time" in forewarn("bench", "slurm:whenever").err
