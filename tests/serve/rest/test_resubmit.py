"""`POST /v1/jobs/{id}/resubmit`: wrong changes are named by their paths, and nothing is submitted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from forewarn.config import Config
from forewarn.operate.access.manage import read_audit
from tests.serve.rest.running import start_service
from tests.serve.rest.test_routes import examples_of

pytestmark = pytest.mark.slow
SCRIPT = "#!/bin/bash\n#SBATCH --mem=2G --time=10\nsrun ./a\n"
SIMULATED = {"scheduler": "simulator", "simulator": "small", "simulator_days": "1", "simulator_speed": "1"}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return Config(home=tmp_path_factory.mktemp("resubmit") / "home")


@pytest.fixture(scope="module")
def client(config: Config) -> Iterator[httpx.Client]:
    environment = {f"FOREWARN_{name.upper()}": value for name, value in SIMULATED.items()}
    running = start_service(config.home, config.home.parent / "service.log", environment=environment)
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


def test_examples_of_the_document_that_act_run(client: httpx.Client) -> None:
    examples = {path: example for _, path, example in examples_of(client) if path.startswith("/v1/jobs")}
    submitted = client.post("/v1/jobs", json=examples["/v1/jobs"])
    assert submitted.status_code == 201, submitted.text
    path = "/v1/jobs/{job_id}/resubmit"
    again = client.post(path.format(**submitted.json()), json=examples[path])
    assert again.status_code == 201, again.text
    first, second = submitted.json()["job_id"], again.json()["job_id"]
    assert (again.json()["resubmits"], again.json()["changes"]) == (first, examples[path]["changes"])
    assert second != first


def test_the_audit_log_names_the_new_jobs(client: httpx.Client, config: Config) -> None:
    job_id = client.post("/v1/jobs", json={"script": SCRIPT, "work_dir": "/tmp", "name": "fit"}).json()[
        "job_id"
    ]
    refused = client.post("/v1/jobs", json={"script": "#!/bin/sh\n#SBATCH -p nowhere\n", "work_dir": "/tmp"})
    assert refused.status_code >= 400
    again = _resubmit(client, job_id, mem="4G").json()["job_id"]
    assert client.post(f"/v1/jobs/{job_id}/cancel").status_code == 200
    lines = read_audit(config, newest=4)
    assert [(line.action, line.subject, line.result.partition(":")[0]) for line in lines] == [
        ("submit", job_id, "done"),
        ("submit", "", "refused"),
        ("resubmit", job_id, "done"),
        ("cancel", job_id, "done"),
    ]
    assert lines[0].details == {"options": [], "name": "fit"}
    assert lines[2].details == {"changes": {"mem": "4G"}, "submitted": again}


def test_a_right_change_is_applied(client: httpx.Client, job_id: str) -> None:
    answer = _resubmit(client, job_id, mem="4G")
    assert answer.status_code == 201, answer.text
    assert answer.json()["changes"] == [{"option": "mem", "value": "4G"}]
