"""The compiled walk over the bins of a job gives what XGBoost gives for a row of each, to the last bit."""

from __future__ import annotations

import json

import numpy as np
import pytest

from forewarn.learn.families.xgboost_native import XgboostTrees
from forewarn.learn.heads.usage import hazard as hazard_module
from forewarn.learn.heads.usage.bin_trees import BinTrees
from forewarn.learn.heads.usage.hazard import Examples, Hazard

COLUMNS, ANCHORS = 6, 3


def examples(jobs: int, seed: int) -> Examples:
    """Jobs whose end depends on a column and an anchor; a fifth of all numbers is missing."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(jobs, COLUMNS)).astype(np.float32)
    anchors = random.normal(5, 2, size=(jobs, ANCHORS)).astype(np.float32)
    ended = 0.7 * anchors[:, 0] + values[:, 1] * np.abs(values[:, 2]) + random.normal(size=jobs)
    for numbers in (values, anchors):
        numbers[random.random(numbers.shape) < 0.2] = np.nan
    return Examples(values, anchors, np.asarray(np.round(ended, 1), np.float64), random.random(jobs) < 0.8)


@pytest.fixture(scope="module")
def hazard() -> Hazard:
    pytest.importorskip("xgboost")
    fitted, _ = Hazard.fit(examples(3000, 0), None, bins=40, seed=1, threads=1, rounds=60)
    return fitted


def test_probabilities_equal_those_by_xgboost(hazard: Hazard, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = examples(600, 7)
    asked.values[:5] = np.inf
    assert hazard._bin_trees is not None
    monkeypatch.setattr(hazard_module, "is_loaded", lambda: True)
    walked = hazard.below(asked.values, asked.anchors)
    monkeypatch.setattr(hazard_module, "is_loaded", lambda: False)
    assert np.array_equal(walked, hazard.below(asked.values, asked.anchors))


def test_jobs_with_another_number_of_columns_are_refused(hazard: Hazard) -> None:
    asked = examples(2, 3)
    with pytest.raises(ValueError, match="5 columns"):
        BinTrees.of(hazard.trees).margins(asked.values[:, 1:], asked.anchors, hazard._upper)


@pytest.mark.parametrize(
    ("field", "node", "value"),
    [("left_children", 1, 0), ("right_children", 0, 10**6), ("split_indices", 0, COLUMNS + 1 + ANCHORS)],
)
def test_nodes_that_lead_nowhere_are_refused(
    hazard: Hazard, field: str, node: int, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    crafted = json.loads(json.dumps(hazard.trees.to_json()))
    tree = crafted["learner"]["gradient_booster"]["model"]["trees"][0]
    assert tree["left_children"][node] >= 0
    tree[field][node] = value
    monkeypatch.setattr(XgboostTrees, "to_json", lambda _: crafted)
    with pytest.raises(ValueError, match="not in order"):
        BinTrees.of(hazard.trees)
