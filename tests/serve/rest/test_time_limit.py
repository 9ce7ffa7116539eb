"""`serve.request_timeout`: a slow request is answered, and what acts says that it may be done."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from forewarn.serve.rest.examples import JOB
from tests.serve.rest.running import start_service

pytestmark = pytest.mark.slow
LIMIT = 1  # seconds
# In full, some 20 ms each: all different, so that nothing of one answer serves for another.
JOBS = [
    {**JOB, "job_id": str(n), "user": f"user{n:04}", "name": f"run{n}", "cpus_asked": n, "time_limit": 60 * n}
    for n in range(1, 201)
]


@pytest.fixture(scope="module")
def client(served_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service whose slurmrestd accepts connections, and never answers."""
    folder = tmp_path_factory.mktemp("slow")
    home = Path(shutil.copytree(served_home, folder / "home", symlinks=True))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        service = start_service(
            home,
            folder / "service.log",
            collect="never",
            request_timeout=LIMIT,
            environment={"FOREWARN_SLURMRESTD": address},
        )
        with httpx.Client(base_url=service.url, timeout=60) as opened:
            yield opened
        service.process.kill()  # its threads wait for the silent one
        service.process.wait(30)
    assert "Traceback" not in service.text


def test_what_only_reads_is_too_slow(client: httpx.Client) -> None:
    def ask(_: int) -> httpx.Response:
        return client.post("/v1/assess/batch", params={"detail": "full"}, json={"jobs": JOBS})

    with ThreadPoolExecutor(6) as callers:  # together they need several times the limit
        answers = list(callers.map(ask, range(6)))
    late = [answer for answer in answers if answer.status_code != 200]
    assert late
    for answer in late:
        assert (answer.status_code, answer.json()["code"]) == (503, "too_slow"), answer.text[:200]
        assert answer.elapsed.total_seconds() >= LIMIT
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["retry-after"] == "5"
        assert "within 1 seconds (serve.request_timeout)" in answer.json()["detail"]
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/1/cancel", "/v1/jobs/1/resubmit"])
def test_what_acts_is_uncertain(client: httpx.Client, path: str) -> None:
    """Slurm may have done it: the caller must not be told to ask again."""
    body = {"script": "#!/bin/sh\n", "work_dir": "/tmp"} if path == "/v1/jobs" else {}
    answer = client.post(path, json=body, headers={"X-SLURM-USER-TOKEN": "eyJhbGciOiJIUzI1NiJ9.e30.AA"})
    assert (answer.status_code, answer.json()["code"]) == (503, "uncertain"), answer.text
    assert "look at your jobs before you ask again" in answer.json()["detail"]
    assert "retry-after" not in answer.headers
