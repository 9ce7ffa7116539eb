"""What the service needs goes away or is damaged: it answers what it can, and says what it cannot."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from forewarn.learn.registry.bundle import Bundle
from forewarn.learn.registry.serving import ModelName, Serving
from forewarn.serve.rest.examples import CHECK, JOB
from tests.assess.served import damage
from tests.serve.rest.conftest import Start
from tests.serve.rest.running import RunningService
from tests.sources.fake_slurmrestd import jwt

pytestmark = pytest.mark.slow
MODEL = ModelName.parse("small.submit.generic")
WITHIN = 30.0  # seconds


def until(condition: Any, within: float = WITHIN) -> Any:
    """Return what a condition found, as soon as it found something."""
    ends = time.monotonic() + within
    while time.monotonic() < ends:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {within} seconds")


def client_of(service: RunningService) -> httpx.Client:
    return httpx.Client(base_url=service.url, timeout=60, limits=httpx.Limits(max_connections=64))


def check_serves(client: httpx.Client) -> None:
    """What needs no Slurm is answered."""
    job = client.get("/v1/jobs", params={"state": "failed", "limit": 1, "order": "submit"}).json()["jobs"][0]
    path = f"/v1/jobs/{job['job_id']}"
    answers = [
        client.post("/v1/assess", json=JOB),
        client.post("/v1/assess", params={"detail": "brief"}, json=JOB),
        client.post("/v1/check", json=CHECK),
        *(client.get(one) for one in (path, f"{path}/explanation", f"{path}/retry", "/v1/nodes/health")),
    ]
    assert [one.status_code for one in answers] == [200] * len(answers)


@contextmanager
def load(service: RunningService, threads: int = 4) -> Iterator[list[tuple[int, str]]]:
    """Ask all the time; the list has each status and the model's version."""
    found: list[tuple[int, str]] = []
    stop = threading.Event()

    def ask() -> None:
        with client_of(service) as client:
            while not stop.is_set():
                answer = client.post("/v1/assess", params={"detail": "brief"}, json=known)
                route = answer.json().get("route", {})
                found.append((answer.status_code, str(route.get("version") or route.get("model"))))

    with client_of(service) as client:
        listed = client.get("/v1/jobs", params={"order": "submit", "limit": 500}).json()["jobs"]
        users = [job["user"] for job in listed]
        job = next(one for one in listed if one["user"] == max(set(users), key=users.count))
        names = ("user", "name", "partition", "nodes_asked", "cpus_asked", "time_limit")
        known = {name: job[name] for name in names if job.get(name) is not None}
    with ThreadPoolExecutor(threads) as pool:
        asking = [pool.submit(ask) for _ in range(threads)]
        try:
            yield found
        finally:
            stop.set()
            for one in asking:
                one.result(60)


def promote_copy(home: Path, version: int, created: int) -> Path:
    """Promote the same model as another version."""
    serving = Serving(home / "models")
    served = serving.served_model(MODEL)
    assert served is not None
    bundle = Bundle.load(serving.copy_of(served.id))
    folder = serving.copy_of(f"new{version}")
    manifest = replace(bundle, facts=replace(bundle.facts, created=created)).save(folder)
    copy = serving.copy_of(manifest.id)
    folder.rename(copy)
    serving.point(MODEL, version, manifest.id)
    return copy


def test_slurm_away(start: Start, home: Path) -> None:
    """Nothing listens where Slurm should be: answers come from the store, acting says 503."""
    service = start(
        home, environment={"FOREWARN_SLURMRESTD": "http://127.0.0.1:9", "FOREWARN_SLURM_TOKEN": "a.b.c"}
    )
    with client_of(service) as client:
        begun = time.monotonic()
        check_serves(client)
        assert time.monotonic() - begun < 40
        headers = {"X-SLURM-USER-TOKEN": jwt("alice", expires=int(time.time()) + 600)}
        for path, body in (
            ("/v1/jobs", {"script": "#!/bin/sh\n", "work_dir": "/"}),
            ("/v1/jobs/1/cancel", None),
        ):
            answer = client.post(path, json=body, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (503, "slurm_away"), answer.text
            assert client.post(path, json=body).json()["code"] == "slurm_token_needed"
        ready = client.get("/readyz")
        assert ready.status_code == 200  # it can answer
        detail = until(lambda: client.get("/readyz").json()["parts"]["updates"]["detail"])
        assert "collector" in detail or "127.0.0.1:9" in detail
    assert "Traceback" not in service.text


def test_store_locked_by_another_writer(start: Start, home: Path) -> None:
    """Another process holds the lock of the store: reading goes on, and so do thresholds."""
    service = start(home, collect="never")
    database = sqlite3.connect(home / "forewarn.db", timeout=1, isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    try:
        with client_of(service) as client:
            check_serves(client)
            answer = client.put("/v1/thresholds", json={"model": str(MODEL), "threshold": 0.4})
            assert answer.status_code in (200, 503), answer.text
            if answer.status_code == 503:
                assert answer.json()["code"] == "store_away"
    finally:
        database.execute("ROLLBACK")
        database.close()
    with client_of(service) as client:
        assert client.put("/v1/thresholds", json={"model": str(MODEL), "threshold": 0.4}).status_code == 200
    assert "Traceback" not in service.text


def test_registry_away(start: Start, home: Path) -> None:
    """The folder of the models goes away: what is loaded serves on."""
    service = start(home, collect="never")
    with client_of(service) as client:
        check_serves(client)
        (home / "models").rename(home / "away")
        time.sleep(2)
        answers = [client.post("/v1/assess", params={"detail": "brief"}, json=JOB) for _ in range(5)]
        assert {one.status_code for one in answers} <= {200, 503}
        assert client.get("/v1/models").status_code in (200, 503)
        assert client.get("/readyz").json()["parts"]["models"]["works"] is False
        (home / "away").rename(home / "models")
        until(lambda: client.get("/readyz").json()["parts"]["models"]["works"])
        check_serves(client)
    assert "Traceback" not in service.text


def test_disk_full(start: Start, home: Path, small_disk: Path) -> None:
    """No room left where the service writes: reading goes on, a change says that it was not made."""
    people = small_disk / "people.db"
    (home / "people.db").unlink(missing_ok=True)
    (home / "people.db").symlink_to(people)
    service = start(home, collect="never")
    with client_of(service) as client:
        assert client.put("/v1/notices/subscription", json={"rules": ["risk"]}).status_code == 200
        free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
        (small_disk / "ballast").write_bytes(b"\0" * free)
        statuses = set()
        for number in range(200):
            reason = f"{number}" * 50
            answer = client.post("/v1/notices/silences", json={"rule": "risk", "reason": reason[:300]})
            statuses.add(answer.status_code)
            if answer.status_code >= 400:
                assert (answer.status_code, answer.json()["code"]) == (503, "store_away"), answer.text
                break
        check_serves(client)
        assert 503 in statuses
        (small_disk / "ballast").unlink()
        assert client.put("/v1/notices/subscription", json={"rules": ["failure"]}).status_code == 200
    assert "Traceback" not in service.text


def test_a_model_promoted_under_load(start: Start, home: Path) -> None:
    """No request is dropped, and the new version answers."""
    service = start(home, collect="never")
    with load(service) as found:
        until(lambda: len(found) > 20)
        promote_copy(home, 2, created=1_700_000_001)
        until(lambda: found[-1][1] != found[0][1], within=60)
        switched = len(found)
        until(lambda: len(found) > switched + 50)
    assert {status for status, _ in found} == {200}
    assert {version for _, version in found[:20]} == {"1"}
    assert {version for _, version in found} == {"1", "2"}
    assert {version for _, version in found[-20:]} == {"2"}
    with client_of(service) as client:
        assert [one["version"] for one in client.get("/v1/models").json()["models"]] == [2]
    assert "Traceback" not in service.text


def test_a_bad_bundle_promoted(start: Start, home: Path) -> None:
    """The old model serves on, and the service says what is wrong with the new one."""
    service = start(home, collect="never")
    with load(service, 2) as found:
        until(lambda: len(found) > 10)
        damage(promote_copy(home, 3, created=1_700_000_002))
        seen = len(found)
        until(lambda: len(found) > seen + 50)
        time.sleep(3)
    assert set(found) == {(200, "1")}
    with client_of(service) as client:
        listed = client.get("/v1/models").json()
        assert listed["models"] == []  # version 3 does not serve, whatever its pointer says
        assert "was changed after it was written" in listed["damaged"][str(MODEL)]
    assert "version 3 is refused, version 1 serves on" in service.text
    assert "was changed after it was written" in service.text
    assert "Traceback" not in service.text


def test_clocks_that_differ(start: Start, home: Path) -> None:
    """A job of long ago is assessed, and one of a clock a little ahead; the far future is refused."""
    service = start(home, collect="never")
    with client_of(service) as client:
        for by in (-10 * 365 * 86400, -3600, 0, 30):
            answer = client.post("/v1/assess", json={**JOB, "submit": int(time.time()) + by})
            assert answer.status_code == 200, answer.text
        for moment in (int(time.time()) + 3700, -1, 10**15, 1.5, "now"):
            answer = client.post("/v1/assess", json={**JOB, "submit": moment})
            assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "/submit")
        late = {**JOB, "submit": int(time.time()), "start": int(time.time()) - 3600, "state": "RUNNING"}
        answer = client.post("/v1/assess", json=late)  # the node's clock is an hour behind
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "/start")
    assert "Traceback" not in service.text


def test_a_home_that_is_damaged_says_so(start: Start, home: Path) -> None:
    shutil.copy(home / "forewarn.db", home / "copy")
    data = bytearray((home / "forewarn.db").read_bytes())
    data[:4096] = os.urandom(4096)
    (home / "forewarn.db").write_bytes(bytes(data))
    with pytest.raises(AssertionError, match=r"forewarn\.db") as refused:
        start(home, collect="never")
    assert "Traceback" not in str(refused.value)
