"""A running service to talk to over real HTTP, on a home with a simulated history and a model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from forewarn.config import Config
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import read_table
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.learn.fitting.train import train
from forewarn.learn.registry.registry import Registry
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.sources.simulator.scenario import load_scenario
from forewarn.sources.simulator.writers.machine import write_machine
from forewarn.store.opening import open_store
from tests.serve.rest.running import RunningService, start_service

Start = Callable[..., RunningService]


@pytest.fixture(scope="session")
def served_home(tmp_path_factory: pytest.TempPathFactory, registry_template: Path) -> Path:
    """A home with 3,000 jobs of the cluster `small`, which end an hour ago, and a model that serves."""
    folder = tmp_path_factory.mktemp("served")
    home = folder / "home"
    (home / "models").mkdir(parents=True)
    shutil.copy(registry_template, home / "models" / registry_template.name)
    simulate("small", 3_000, 5, folder / "jobs.parquet", "parquet")
    _shift_to_now(folder / "jobs.parquet")
    machine = write_machine(load_scenario("small"), folder)
    with open_store(Config(home=home)) as store:
        for source in (f"parquet:{folder / 'jobs.parquet'}", *(f"slurmrestd:{part}" for part in machine)):
            review_missing_fields(store, ingest(store, open_source(source)).clusters)
        table = read_table(store, "small", "submit", POPULATIONS["wasted"])
        settings = FitSettings(trials=1, families=("lightgbm",), threads=1)
        trained = train(table, settings, searches=folder / "searches", at=1_700_000_000)
    trained.save(folder / "bundle")
    registry = Registry(home)
    version = registry.record(folder / "bundle")
    assert version
    if "champion" not in version.aliases:
        registry.promote(version.name, version.version)
    return home


def _shift_to_now(path: Path) -> None:
    import time

    jobs = pl.read_parquet(path)
    last = jobs.select(pl.max_horizontal(pl.col("end").max(), pl.col("submit").max())).item()
    by = int(time.time()) - 3600 - last
    moments = ("submit", "eligible", "start", "end", "seen_at", "known_at")
    jobs.with_columns(pl.col(name) + by for name in moments if name in jobs.columns).write_parquet(path)


@pytest.fixture
def home(served_home: Path, tmp_path: Path) -> Path:
    """A copy of the home, to change."""
    return Path(shutil.copytree(served_home, tmp_path / "home", symlinks=True))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start `forewarn serve` on a home, as its owner would; stop it at the end of the test."""
    running: list[RunningService] = []

    def start_one(home: Path, **settings: Any) -> RunningService:
        running.append(start_service(home, tmp_path / f"service{len(running)}.log", **settings))
        return running[-1]

    yield start_one
    for service in running:
        service.stop()


@pytest.fixture(scope="module")
def service(served_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One service on loopback without authentication, for the tests of a module that change nothing."""
    folder = tmp_path_factory.mktemp("service")
    home = Path(shutil.copytree(served_home, folder / "home", symlinks=True))
    running = start_service(home, folder / "service.log", collect="never")
    yield running
    running.stop()


@pytest.fixture
def http(service: RunningService) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=30) as client:
        yield client
