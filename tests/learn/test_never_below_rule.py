"""Every real log is a test: what would serve is never below the best last-outcome rule by more than noise.

The short form of `bench/never_below_rule.py`: the first lines of each log, LightGBM's own defaults and the
online regression. All logs with all families: docs/measurements.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.never_below_rule import LOGS, Log, row, tables
from forewarn.errors import NotEnoughError
from forewarn.learn.fitting.fit_settings import FitSettings

pytestmark = [pytest.mark.shared_data, pytest.mark.slow, pytest.mark.usefixtures("one_ray")]

# Logs on which no model is fitted, with the reason.
TOO_LITTLE = {
    "pozidriv": "1 of 141 jobs of the block `calibrate` failed",
    "jobcomp-elasticsearch-2023": "1 of 168 jobs of the block `search` failed",
    "sample_eagle_data": "0 with a known outcome in the block `search`, which needs 20",
}
ABOVE = ("supercloud-2021-subset",)  # read whole, and clearly above


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_what_serves_is_not_below_the_best_rule(log: Log, shared_data: Path) -> None:
    settings = FitSettings(
        feature_set=log.features, families=("lightgbm", "online"), trials=1, threads=1, deterministic=True
    )
    for phase, table in tables(log, shared_data, short=True):
        if log.name in TOO_LITTLE:
            with pytest.raises(NotEnoughError, match=re.escape(TOO_LITTLE[log.name])):
                row(table, settings)
            continue
        is_below, cells = row(table, settings)
        assert not is_below, (phase, cells)
        if log.name in ABOVE:
            assert float(cells[4]) > float(cells[5]), (phase, "F1 above that of the best rule", cells)
