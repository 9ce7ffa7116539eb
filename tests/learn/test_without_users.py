"""A log without users: at submit nothing is knowable and the model says so, at start nearly everything is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forewarn.config import Config
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import JobTable, read_table
from forewarn.learn.evaluation.benchmark import benchmark
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.store.opening import open_store
from tests.learn.campaigns import campaigns

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("campaigns")
    store = open_store(Config(home=folder / "home"))
    with store.writing() as writer:
        writer.observe("job", campaigns(12_000))

    def read(phase: str) -> JobTable:
        return read_table(store, "c", phase, POPULATIONS["wasted"])

    settings = FitSettings(families=("lightgbm", "online"), trials=1, threads=1)
    return benchmark(read, ("submit", "start"), settings, searches=folder / "searches")


def test_at_submit_it_says_that_there_is_not_enough_evidence(found: dict[str, Any]) -> None:
    submit = found["submit"]
    assert submit["abstention"]["share"] == 1
    assert submit["calibration"] == "rate"
    # No probability is surer than the rate, which has moved since: the error is that of the drift.
    assert submit["ece"] < 0.15


def test_at_start_it_follows_the_first_tasks_as_well_as_the_rules_do(found: dict[str, Any]) -> None:
    start = found["start"]
    assert start["abstention"]["share"] == 0
    rules = {name: start["baselines"][name]["f1"] for name in ("last_request", "last_array")}
    assert min(rules.values()) > 0.8
    # Not below the best rule by more than the noise.
    assert start["at_validation"]["f1"] > max(rules.values()) - 0.01
    assert start["above_best_baseline"]["interval"][1] > 0
    assert start["above_best_baseline"]["baseline"] in ("last_request", "last_array_else_request")
    assert np.isfinite(start["above_best_baseline"]["interval"]).all()
