"""`forewarn serve` with a simulated cluster: one process and one command, from an empty home on."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from forewarn.config import Config
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import read_table
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.learn.fitting.train import train
from forewarn.learn.registry.registry import Registry
from forewarn.store.opening import open_store
from tests.serve.rest.conftest import Start
from tests.serve.rest.test_events import Stream, stream
from tests.serve.rest.test_faults import check_serves, client_of, until

pytestmark = pytest.mark.slow
MODEL = "small.submit.generic"
HELD = {"script": "#!/bin/bash\n#SBATCH -p main -t 60 --hold\nsrun ./a\n", "work_dir": "/tmp"}


def simulated(days: int, speed: int) -> dict[str, str]:
    settings = {"scheduler": "simulator", "simulator": "small", "simulator_days": days}
    return {
        f"FOREWARN_{name.upper()}": str(value)
        for name, value in (settings | {"simulator_speed": speed}).items()
    }


def assessments(events: Stream) -> Iterator[dict[str, Any]]:
    """The assessments among the events, as they come."""
    while True:
        event = events.next_event()
        if event["event"] == "forewarn.assessment":
            yield json.loads(event["data"])["data"]


@pytest.mark.timeout(600)
def test_one_process_on_an_empty_home(start: Start, tmp_path: Path, registry_template: Path) -> None:
    """It collects, a model trained beside it serves, live jobs are assessed by it, and acting has effect."""
    home = tmp_path / "home"
    service = start(home, environment=simulated(days=10, speed=60))
    with client_of(service) as client:
        until(lambda: "up to date: " in service.text, within=120)
        read = re.search(r"up to date: ([\d,]+) new jobs? read", service.text)
        assert read
        assert int(read[1].replace(",", "")) > 1000
        assert client.get("/v1/jobs", params={"limit": 1}).json()["total"] > 1000
        assert client.get("/v1/models").json()["models"] == []

        with stream(service.url) as events:
            learn(home, tmp_path, registry_template)
            until(lambda: client.get("/v1/models").json()["models"], within=60)
            by_model = next(one for one in assessments(events) if one["route"]["version"])
            assert (by_model["route"]["model"], by_model["route"]["version"]) == (MODEL, 1)
            assert 0 < by_model["failure"]["probability"] < 1
            newest = client.get("/v1/assessments").json()["assessments"]
            assert any(one["route"]["model"] == MODEL for one in newest)

            cancelled, kept = (client.post("/v1/jobs", json=HELD).json()["job_id"] for _ in range(2))
            awaited = {cancelled, kept}
            for one in assessments(events):
                awaited -= {one["job_id"]}
                if not awaited:
                    break
        assert client.post(f"/v1/jobs/{cancelled}/cancel").json()["cancelled"] is True
        until(lambda: client.get(f"/v1/jobs/{cancelled}").json()["outcome"] == "cancelled")
        page = client.get(f"/v1/jobs/{kept}").json()
        assert (page["job"]["state"], page["outcome"]) == ("PENDING", None)
    assert service.stop() == 0
    assert "Traceback" not in service.text


def learn(home: Path, folder: Path, registry: Path) -> None:
    """Train a model of what the service has collected, and register it, as a process beside it does."""
    (home / "models").mkdir(exist_ok=True)
    shutil.copy(registry, home / "models" / registry.name)
    with open_store(Config(home=home), read_only=True) as store:
        table = read_table(store, "small", "submit", POPULATIONS["wasted"])
    settings = FitSettings(trials=1, families=("lightgbm",), threads=1)
    train(table, settings, searches=folder / "searches", at=1_700_000_000).save(folder / "bundle")
    version = Registry(home).record(folder / "bundle")
    assert version
    if "champion" not in version.aliases:
        Registry(home).promote(version.name, version.version)


def test_a_full_disk_under_the_store(start: Start, home: Path, small_disk: Path) -> None:
    """Nothing can be written: answers come from memory, `/readyz` says so; it goes on when there is room."""
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    shutil.move(home / "forewarn.db", small_disk / "forewarn.db")
    (home / "forewarn.db").symlink_to(small_disk / "forewarn.db")
    service = start(home, environment=simulated(days=1, speed=600))
    with client_of(service) as client:
        until(lambda: "up to date: " in service.text, within=60)
        assert updates(client)["detail"] is None
        fill(small_disk)
        trouble = until(lambda: updates(client)["detail"], within=60)
        assert "full" in trouble, trouble
        check_serves(client)
        assert client.get("/readyz").status_code == 200  # it can answer
        before = client.get("/v1/jobs", params={"limit": 1}).json()["total"]
        (small_disk / "ballast").unlink()
        until(lambda: updates(client)["detail"] is None, within=90)
        until(lambda: client.get("/v1/jobs", params={"limit": 1}).json()["total"] > before)
        check_serves(client)
    assert "works again" in service.text
    assert "Traceback" not in service.text
    assert service.stop() == 0


def fill(disk: Path) -> None:
    """Leave no room on a disk to which another process writes meanwhile."""
    with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(b"\0" * 4096)


def updates(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/readyz").json()["parts"]["updates"]
    return found
