"""`POST /v1/jobs/{id}/resubmit`: wrong changes are named by their paths, and nothing is submitted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.serve.rest.running import start_service

pytestmark = pytest.mark.slow
SCRIPT = "#!/bin/bash\n#SBATCH --mem=2G --time=10\nsrun ./a\n"
SIMULATED = {"scheduler": "simulator", "simulator": "small", "simulator_days": "1", "simulator_speed": "1"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("resubmit")
    environment = {f"FOREWARN_{name.upper()}": value for name, value in SIMULATED.items()}
    running = start_service(folder / "home", folder / "service.log", environment=environment)
    with httpx.Client(base_url=running.url, timeout=30) as opened:
        yield opened
    running.stop()


@pytest.fixture(scope="module")
def job_id(client: httpx.Client) -> str:
    answer = client.post("/v1/jobs", json={"script": SCRIPT, "work_dir": "/tmp"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job_id"])


def _resubmit(client: httpx.Client, job_id: str, **options: str) -> httpx.Response:
    changes = [{"option": option.replace("_", "-"), "value": value} for option, value in options.items()]
    return client.post(f"/v1/jobs/{job_id}/resubmit", json={"changes": changes, "script": SCRIPT})


@pytest.mark.parametrize(
    ("changes", "path", "reason"),
    [
        ({"tiem": "60"}, "/changes/0/option", "did you mean --time?"),
        ({"gpu_bind": "none"}, "/changes/0/option", "cannot be submitted this way"),
        ({"mem": "4G", "time": "soon"}, "/changes/1/value", "not a Slurm duration"),
        ({"mem": "lots"}, "/changes/0/value", "not an amount of memory"),
        ({"hold": "yes"}, "/changes/0/value", "takes no value"),
        ({"nice": "very"}, "/changes/0/value", "not a number"),
        ({"exclusive": "user"}, "/changes/0/value", "cannot be submitted this way"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_change_is_named(
    client: httpx.Client, job_id: str, changes: dict[str, str], path: str, reason: str
) -> None:
    before = client.get("/v1/jobs").json()["total"]
    answer = _resubmit(client, job_id, **changes)
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "bad_fields")
    assert [error["path"] for error in problem["errors"]] == [path]
    assert reason in problem["errors"][0]["reason"]
    assert client.get("/v1/jobs").json()["total"] == before


def test_all_wrong_changes_are_named(client: httpx.Client, job_id: str) -> None:
    errors = _resubmit(client, job_id, tiem="60", partition="long", mem="lots").json()["errors"]
    assert [error["path"] for error in errors] == ["/changes/0/option", "/changes/2/value"]


def test_a_right_change_is_applied(client: httpx.Client, job_id: str) -> None:
    answer = _resubmit(client, job_id, mem="4G")
    assert answer.status_code == 201, answer.text
    assert answer.json()["changes"] == [{"option": "mem", "value": "4G"}]
