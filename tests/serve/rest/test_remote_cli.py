"""Commands with FOREWARN_URL: the same output as without, from a machine that has no home."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from forewarn.job.record import Job
from forewarn.serve.cli.remote.explain import may_send
from tests.serve.rest.running import RunningService
from tests.test_architecture import LEARNERS

pytestmark = pytest.mark.slow
SCRIPT = "#!/bin/bash\n#SBATCH --time=1:00:00\n#SBATCH --mem=4G\nsrun /bin/true\n"
BROKEN = "#!/bin/bash\n#SBATCH --tim=1:00:00\n#SBATCH --mem=4QB\ncat nothing-here.txt\n"
HEAVY = ("polars", "numpy", "numba", "sqlite3", *LEARNERS)
Run = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def job_ids(service: RunningService) -> list[str]:
    from forewarn import Client

    with Client(service.url) as client:
        page = client.jobs_page(state="failed", order="submit", limit=2)
    return [job["job_id"] for job in page["jobs"]]


def forewarn(*arguments: str, folder: Path, **variables: str) -> Run:
    """Run a command where there is neither a home nor a Slurm."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("FOREWARN_", "SLURM_"))
    }
    own = {"FOREWARN_HOME": str(folder / "no-home"), **variables}
    return subprocess.run(
        [sys.executable, "-m", "forewarn", *arguments],
        env={**clean, **own},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def both(service: RunningService, home: Path, folder: Path, *arguments: str) -> tuple[Run, Run]:
    """Run a command with the service, and with a home as the service's."""
    remote = forewarn(*arguments, folder=folder, FOREWARN_URL=service.url)
    return remote, forewarn(*arguments, folder=folder, FOREWARN_HOME=str(home))


def without_time(value: Any) -> Any:
    """Leave out what differs between two moments."""
    if isinstance(value, dict):
        return {name: without_time(one) for name, one in value.items() if name not in ("made_at", "at")}
    return [without_time(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("text", [SCRIPT, BROKEN, "#!/bin/bash\n#SBATCH --mem=9000G\nsrun \xff\n"])
def test_check_is_the_same(service: RunningService, served_home: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/job.sbatch").write_text(text, encoding="latin-1")
    arguments = ("check", "runs/job.sbatch", "--json", "--", "--nodes=2")
    remote, local = both(service, served_home, tmp_path, *arguments)
    assert remote.returncode == local.returncode, remote.stderr
    both_found = [without_time(json.loads(run.stdout)) for run in (remote, local)]
    for found in both_found:
        found.pop("submit")
    assert both_found[0] == both_found[1]


def test_check_for_people_fixes_and_reads_standard_input(service: RunningService, tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").write_text(BROKEN)
    shown = forewarn("check", "job.sbatch", "--fix", "--diff", "--url", service.url, folder=tmp_path)
    assert shown.returncode == 2, shown.stderr
    assert "nothing-here.txt" in shown.stdout  # found here: the service cannot see this machine
    assert not (tmp_path / "no-home").exists()
    piped = subprocess.run(
        [sys.executable, "-m", "forewarn", "check", "-"],
        env={**os.environ, "FOREWARN_URL": service.url},
        input=SCRIPT.encode(),
        capture_output=True,
        check=False,
    )
    assert b"standard input" in piped.stdout


def test_check_without_an_answer_judges_the_script_alone(tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").write_text(BROKEN)
    (tmp_path / "fine.sbatch").write_text(SCRIPT)
    away = {"FOREWARN_URL": "http://127.0.0.1:1"}
    broken = forewarn("check", "job.sbatch", folder=tmp_path, **away)
    assert broken.returncode == 2
    assert "checking only the script" in broken.stderr
    fine = forewarn("check", "fine.sbatch", folder=tmp_path, **away)
    alone = forewarn("check", "fine.sbatch", folder=tmp_path)
    assert (fine.returncode, fine.stdout) == (alone.returncode, alone.stdout)


@pytest.mark.parametrize("name", ["check", "predict", "explain", "advise", "health"])
def test_commands_that_ask_a_service_need_neither_store_nor_learners(
    service: RunningService, tmp_path: Path, job_ids: list[str], name: str
) -> None:
    """What they load, with an answer of the service, counted in modules."""
    (tmp_path / "job.sbatch").write_text(SCRIPT)
    arguments = {"check": ["job.sbatch"], "health": []}.get(name, [job_ids[0]])
    code = f"import sys; from forewarn.serve.cli.main import cli\ntry: cli({[name, *arguments]})\n"
    code += f"except SystemExit: pass\nprint('LOADED', *(m for m in {HEAVY} if m in sys.modules))"
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("FOREWARN_", "SLURM_"))}
    own = {"FOREWARN_HOME": str(tmp_path / "no-home"), "FOREWARN_URL": service.url}
    command = [sys.executable, "-c", code]
    ran = subprocess.run(
        command, env={**clean, **own}, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    answer, _, modules = ran.stdout.rpartition("LOADED")
    assert answer.strip(), ran.stderr  # it was answered
    assert "does not answer" not in ran.stderr
    assert modules.split() == []
    assert not (tmp_path / "no-home").exists()


def test_other_commands_say_that_the_service_is_away(tmp_path: Path) -> None:
    away = {"FOREWARN_URL": "http://127.0.0.1:1"}
    for name in ("predict", "advise", "explain"):
        found = forewarn(name, "1", folder=tmp_path, **away)
        assert (found.returncode, found.stdout) == (10, "")
        assert "does not answer" in found.stderr
    for arguments in (("health",), ("retry", "1")):  # their codes are verdicts
        assert forewarn(*arguments, folder=tmp_path, **away).returncode == 3
    nagios = forewarn("health", "--nagios", folder=tmp_path, **away)
    assert nagios.stdout.startswith("FOREWARN UNKNOWN")
    wrong = forewarn("health", folder=tmp_path, FOREWARN_URL="nonsense")
    assert "no address of a service" in wrong.stderr


def test_flags_of_the_home_override_the_variable(service: RunningService, tmp_path: Path) -> None:
    both_flags = forewarn("health", "--url", service.url, "--home", "x", folder=tmp_path)
    assert "exclude each other" in both_flags.stderr
    own = forewarn("health", "--home", str(tmp_path / "x"), folder=tmp_path, FOREWARN_URL=service.url)
    assert own.returncode == 3  # there is no store


def test_health_is_the_same(service: RunningService, served_home: Path, tmp_path: Path) -> None:
    remote, local = both(service, served_home, tmp_path, "health", "--all", "--json")
    assert remote.returncode == local.returncode, remote.stderr
    names = [{one["node"] for one in json.loads(run.stdout)["judged"]} for run in (remote, local)]
    assert names[0] == names[1] != set()
    assert forewarn("health", "--nagios", folder=tmp_path, FOREWARN_URL=service.url).stdout.startswith(
        "FOREWARN "
    )


def test_explain_is_the_same(
    service: RunningService, served_home: Path, tmp_path: Path, job_ids: list[str]
) -> None:
    log = tmp_path / "job.out"
    log.write_text("ModuleNotFoundError: No module named 'torch'\n")
    remote, local = both(service, served_home, tmp_path, "explain", job_ids[0], "--log", str(log))
    assert remote.returncode == local.returncode == 0, remote.stderr
    assert remote.stdout == local.stdout
    as_json = forewarn("explain", job_ids[0], "--json", folder=tmp_path, FOREWARN_URL=service.url)
    assert json.loads(as_json.stdout)["job_id"] == job_ids[0]
    unknown = forewarn("explain", "999999999", folder=tmp_path, FOREWARN_URL=service.url)
    assert unknown.returncode == 2


def test_predict_advise_and_retry(service: RunningService, tmp_path: Path, job_ids: list[str]) -> None:
    url = {"FOREWARN_URL": service.url}
    predicted = forewarn("predict", *job_ids, "--json", folder=tmp_path, **url)
    assert [one["job_id"] for one in json.loads(predicted.stdout)] == job_ids
    assert "probability" in forewarn("predict", *job_ids, folder=tmp_path, **url).stdout
    nothing = forewarn("predict", "--pending", folder=tmp_path, **url)
    assert nothing.returncode == 0, nothing.stderr
    assert f"job {job_ids[0]}" in forewarn("advise", job_ids[0], folder=tmp_path, **url).stdout
    assert forewarn("predict", "999999999", folder=tmp_path, **url).returncode == 8
    retry = forewarn("retry", job_ids[0], "--json", folder=tmp_path, **url)
    assert json.loads(retry.stdout)["job_id"] == job_ids[0]


def test_only_the_output_of_an_own_job_is_sent(tmp_path: Path) -> None:
    """A service must not fetch keys by naming them as a job's output."""
    now = int(time.time())
    log = tmp_path / "job.out"
    log.write_text("x")
    own = Job(cluster="c", job_id="1", submit=now - 100, start=now - 50, user=getpass.getuser())
    assert may_send(log, own)
    assert not may_send(log, Job(cluster="c", job_id="1", submit=1, start=1, user="somebody"))
    hidden = tmp_path / ".ssh"
    hidden.mkdir()
    (hidden / "id").write_text("key")
    assert not may_send(hidden / "id", own)
    (tmp_path / "link.out").symlink_to(hidden / "id")
    assert not may_send(tmp_path / "link.out", own)
    os.utime(log, (now - 1000, now - 1000))
    assert not may_send(log, own)  # older than the job
    assert not may_send(Path("job.out"), own)
    assert not may_send(tmp_path / "nothing", own)
