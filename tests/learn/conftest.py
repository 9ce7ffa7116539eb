"""Data for the tests of `forewarn.learn`: a synthetic sample, and a small simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from forewarn.config import Config
from forewarn.learn.data.matrix import Matrix, Sample
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import JobTable, read_table
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.store.base import Store
from forewarn.store.opening import open_store

JOBS = 5_000


def make_sample(rows: int = 400, seed: int = 0) -> Sample:
    """Draw rows in which three columns and one category matter, with missing values."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(rows, 9)).astype(np.float32)
    values[:, 8] = random.integers(0, 4, rows)
    signal = 1.5 * values[:, 0] - values[:, 1] + (values[:, 2] > 0.5) + (values[:, 8] == 2) * 1.5 - 1.2
    fails = (random.random(rows) < 1 / (1 + np.exp(-signal))).astype(np.float64)
    holes = random.random((rows, 9)) < 0.1
    values[holes] = np.nan
    names = (*(f"x{place}" for place in range(8)), "partition")
    return Sample(Matrix(values, names, frozenset({"partition"})), fails, np.ones(rows))


@pytest.fixture
def sample() -> Callable[..., Sample]:
    return make_sample


@pytest.fixture(scope="module")
def one_ray() -> Iterator[None]:
    """One Ray for all searches of a module: to start it takes longer than a search of one trial."""
    from forewarn.learn.search.ray_cluster import ray_cluster

    with ray_cluster(None, 2, 200 << 20):
        yield


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, str]:
    """A small simulated cluster in a store, and its name."""
    folder: Path = tmp_path_factory.mktemp("cluster")
    simulate("small", JOBS, 11, folder / "jobs.parquet", "parquet")
    store = open_store(Config(home=folder / "home"))
    report = ingest(store, open_source(f"parquet:{folder / 'jobs.parquet'}"))
    review_missing_fields(store, report.clusters)
    return store, report.clusters[0]


@pytest.fixture(scope="session")
def table(cluster: tuple[Store, str]) -> JobTable:
    store, name = cluster
    return read_table(store, name, "submit", POPULATIONS["papers"])


@pytest.fixture(scope="session")
def start_table(cluster: tuple[Store, str]) -> JobTable:
    store, name = cluster
    return read_table(store, name, "start", POPULATIONS["papers"])
