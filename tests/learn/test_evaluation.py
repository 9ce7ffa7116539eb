"""What a report says of predictions follows from them, and is JSON whatever they are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_curve, roc_curve

from forewarn.errors import LearningError, NotEnoughError
from forewarn.learn.data.split import split
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.evaluate import _curves, _thin_out, evaluate
from forewarn.learn.evaluation.metrics import at_threshold, ranking


def evaluate_on_test(
    table: JobTable, threshold: float | np.ndarray = 0.3, rows: np.ndarray | None = None, **settings: Any
) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    parts = split(table)
    rows = parts.test if rows is None else rows
    p = 1 / (1 + np.exp(-table.column("online")[rows].astype(np.float64)))
    return evaluate(table, rows, p, threshold, train_rows=parts.train, resamples=60, **settings), p, rows


def with_partitions(table: JobTable, names: list[str | None]) -> JobTable:
    partition = pl.Series("partition", [names[place % len(names)] for place in range(table.about.height)])
    return JobTable(
        *(table.cluster, table.phase, table.population, table.names, table.values, table.fails),
        *(table.known_at, table.at, table.about.with_columns(partition)),
    )


def test_it_is_json_and_its_parts_agree(table: JobTable) -> None:
    found, p, rows = evaluate_on_test(table)
    json.dumps(found, allow_nan=False)
    fails = table.fails[rows]
    assert found["ranking"] == ranking(fails, p)
    assert found["at_threshold"] == at_threshold(fails, p >= 0.3)
    assert found["at_0_5"] == at_threshold(fails, p >= 0.5)
    assert sum(row["n"] for row in found["calibration"]) == len(rows)
    assert sum(found["confidence"]["failed"]) == fails.sum()
    assert sum(found["confidence"]["completed"]) == (1 - fails).sum()
    best = found["over_baseline"]
    assert best["f1"] == found["at_threshold"]["f1"] - max(b["f1"] for b in found["baselines"].values())
    for name in ("roc_auc", "pr_auc"):
        low, high = found["intervals"][name]
        assert low < found["ranking"][name] < high
    low, high = found["intervals"]["f1_over_baseline"]
    assert low < best["f1"] < high


def test_the_same_seed_gives_the_same(table: JobTable) -> None:
    assert evaluate_on_test(table, seed=3)[0] == evaluate_on_test(table, seed=3)[0]
    assert evaluate_on_test(table, seed=3)[0]["intervals"] != evaluate_on_test(table, seed=4)[0]["intervals"]


def test_a_threshold_that_varies_is_taken_job_by_job(table: JobTable) -> None:
    rows = split(table).test
    thresholds = np.linspace(0.2, 0.6, len(rows))
    found, p, _ = evaluate_on_test(table, thresholds)
    assert found["at_threshold"] == at_threshold(table.fails[rows], p >= thresholds)
    assert found["threshold"] == pytest.approx({"value": 0.4, "low": 0.2, "high": 0.6})


def test_slices_cover_all_jobs_and_few_are_named(table: JobTable) -> None:
    many = with_partitions(table, [None, *(f"part{place}" for place in range(14))])
    found, _, rows = evaluate_on_test(many)
    partitions = found["slices"]["partition"]
    assert len(partitions) == 11
    assert partitions[-1]["others"] == 5
    for slices in found["slices"].values():
        assert sum(row["n"] for row in slices) == len(rows)
        assert sum(row["alarms"] for row in slices) == sum(
            found["at_threshold"]["confusion"][k] for k in ("tp", "fp")
        )
    assert [row["name"] for row in found["slices"]["activity"]] == ["new", "infrequent", "frequent"]
    assert None in [
        row.get("name")
        for row in evaluate_on_test(with_partitions(table, [None, "a"]))[0]["slices"]["partition"]
    ]


def test_a_slice_of_one_class_has_no_ranking(table: JobTable) -> None:
    rows = split(table).test
    names = np.where(np.isin(np.arange(len(table.fails)), rows[table.fails[rows] == 0][:9]), "calm", "busy")
    found, _, _ = evaluate_on_test(with_partitions(table, names.tolist()))
    calm = next(row for row in found["slices"]["partition"] if row["name"] == "calm")
    assert (calm["n"], calm["base_rate"], calm["roc_auc"]) == (9, 0.0, None)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_handful_of_jobs(table: JobTable, size: int) -> None:
    found, _, _ = evaluate_on_test(table, rows=split(table).test[:size])
    json.dumps(found, allow_nan=False)
    assert found["ranking"]["n"] == size


def test_one_class_only(table: JobTable) -> None:
    rows = split(table).test
    for wanted in (0, 1):
        found, _, _ = evaluate_on_test(table, rows=rows[table.fails[rows] == wanted][:30])
        json.dumps(found, allow_nan=False)
        assert found["ranking"]["roc_auc"] is None
        assert found["intervals"]["roc_auc"] is None


def test_what_cannot_be_judged_is_refused(table: JobTable) -> None:
    parts = split(table)
    with pytest.raises(NotEnoughError, match="no jobs to evaluate"):
        evaluate(table, parts.test[:0], np.zeros(0), 0.5, train_rows=parts.train)
    with pytest.raises(LearningError, match="one probability"):
        evaluate(table, parts.test, np.full(len(parts.test), np.nan), 0.5, train_rows=parts.train)
    with pytest.raises(LearningError, match="one probability"):
        evaluate(table, parts.test, np.zeros(3), 0.5, train_rows=parts.train)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8)), min_size=2, max_size=60))
def test_curves_are_those_of_scikit_learn(rows: list[tuple[bool, int]]) -> None:
    fails, p = np.array([r[0] for r in rows], float), np.array([r[1] for r in rows]) / 8
    if not 0 < fails.sum() < len(fails):
        return
    curves = _curves(fails, p)
    x, y, _ = roc_curve(fails, p, drop_intermediate=False)
    assert_on_curve(curves["roc"]["false_alarm_rate"], curves["roc"]["recall"], x, y)
    precision, recall, levels = precision_recall_curve(fails, p)
    assert_on_curve(curves["pr"]["recall"], curves["pr"]["precision"], recall[:-1], precision[:-1])
    by = curves["by_threshold"]
    place = np.searchsorted(levels, np.array(by["threshold"]) - 1e-6)
    assert by["precision"] == pytest.approx(precision[place], abs=1e-5)
    assert by["recall"] == pytest.approx(recall[place], abs=1e-5)


def assert_on_curve(xs: list[float], ys: list[float], x: np.ndarray, y: np.ndarray) -> None:
    there = np.column_stack([x, y])
    for point in zip(xs, ys, strict=True):
        assert np.abs(there - point).max(axis=1).min() < 1e-5


def test_thin_out_curves_keep_their_shape() -> None:
    random = np.random.default_rng(0)
    fails = (random.random(20_000) < 0.2).astype(float)
    p = np.clip(0.2 * fails + random.random(20_000) * 0.8, 0, 1)
    x, y, _ = roc_curve(fails, p, drop_intermediate=False)
    points = _thin_out(x, y)
    assert len(points) == 200
    along, across = x + y, y - x  # the curve rises straight in places: seen from its diagonal it does not
    assert np.abs(np.interp(along, along[points], across[points]) - across).max() < 0.005
    assert np.trapezoid(y[points], x[points]) == pytest.approx(np.trapezoid(y, x), abs=5e-4)


def test_a_threshold_that_is_not_for_f1_is_not_judged_by_it(table: JobTable) -> None:
    """Few sure alarms have a low F1, and are what was asked for: the lead is taken where F1 is the aim."""
    plain, p, rows = evaluate_on_test(table)
    careful, _, _ = evaluate_on_test(table, threshold=0.9, for_f1=0.3)
    assert careful["over_baseline"] == plain["over_baseline"]
    assert careful["intervals"]["f1_over_baseline"] == plain["intervals"]["f1_over_baseline"]
    assert careful["at_threshold"] == at_threshold(table.fails[rows], p >= 0.9) != plain["at_threshold"]
