"""All ways to balance on one log: the same jobs, the same figures, nothing of the future."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forewarn.errors import NotEnoughError
from forewarn.learn.data.split import split
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.compare import WAYS, compare
from forewarn.learn.families import family

pytestmark = pytest.mark.slow

QUICK = {"rounds": 15, "eta": 0.2}


def found_on(table: JobTable, **how: Any) -> dict[str, dict[str, Any]]:
    settings: dict[str, Any] = {"feature_set": "generic", "seed": 0, "threads": 1} | how
    entries = compare(table, split(table), family("xgboost"), QUICK, **settings)
    assert tuple(entry["way"] for entry in entries) == WAYS
    return {entry["way"]: entry for entry in entries}


@pytest.fixture(scope="module")
def found(table: JobTable) -> dict[str, dict[str, Any]]:
    return found_on(table)


def test_every_way_has_every_figure(found: dict[str, dict[str, Any]]) -> None:
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    for entry in found.values():
        assert 0.5 < entry["roc_auc"] < 1
        assert 0 < entry["pr_auc"] < 1
        assert entry["at_0_5"]["threshold"] == 0.5
        for at in ("at_0_5", "at_validation"):
            assert 0 < entry[at]["accuracy"] < 1
            for of_class in ("failed", "completed"):
                figures = entry[at][of_class]
                assert set(figures) == {"precision", "recall", "f1"}
                if entry["way"] != "random":  # a mean of F1 is not the F1 of means
                    p, r = figures["precision"], figures["recall"]
                    assert figures["f1"] == pytest.approx(2 * p * r / (p + r) if p + r else 0)


def test_what_each_learnt_from(found: dict[str, dict[str, Any]]) -> None:
    none, active, random = found["none"], found["active"], found["random"]
    assert found["weights"]["jobs"] == none["jobs"]
    for how in ("oversample", "smote"):
        assert found[how]["failed"] * 2 == found[how]["jobs"] > none["jobs"]
    assert random["jobs"] == active["jobs"] == active["rounds"]["jobs"] <= none["jobs"]
    assert random["choices"] == 5
    assert random["spread"]["roc_auc"] > 0


def test_balancing_warns_more_at_one_half(found: dict[str, dict[str, Any]]) -> None:
    recall = {way: entry["at_0_5"]["failed"]["recall"] for way, entry in found.items()}
    assert min(recall["weights"], recall["oversample"], recall["smote"]) > recall["none"]


def test_it_learns_nothing_of_what_was_not_known_at_the_cut(
    table: JobTable, found: dict[str, dict[str, Any]]
) -> None:
    """Turn every outcome that was known too late for a block: only the test figures may change."""
    parts = split(table)
    late = table.known_at >= parts.cuts[0]
    late[parts.search] = table.known_at[parts.search] >= parts.cuts[2]
    fails = np.where(late & np.isfinite(table.fails), 1 - table.fails, table.fails)
    fails[parts.test] = table.fails[parts.test]
    again = found_on(replace(table, fails=fails))
    assert again == found


def test_another_seed_gives_other_figures(table: JobTable, found: dict[str, dict[str, Any]]) -> None:
    assert found_on(table, seed=1) != found


def test_too_little_data_is_an_error(table: JobTable) -> None:
    with pytest.raises(NotEnoughError, match="too few jobs"):
        found_on(table.rows(np.arange(10)))
    with pytest.raises(NotEnoughError, match="ended well in the population"):
        found_on(replace(table, fails=np.where(np.isfinite(table.fails), 0.0, np.nan)))
    with pytest.raises(NotEnoughError, match="feature set `generic` is empty"):
        found_on(replace(table, values=np.full_like(table.values, np.nan)))
