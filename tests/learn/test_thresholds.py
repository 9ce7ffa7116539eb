"""The five rules: what each promises on the rows it was chosen by, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from forewarn.errors import NotEnoughError, UsageError
from forewarn.learn.evaluation.metrics import at_threshold, f1
from forewarn.learn.fitting.thresholds import (
    NEVER,
    PLATEAU,
    NotReachedWarning,
    Threshold,
    choose_threshold,
    parse_rule,
    rolling_expected_f1,
)
from tests.learn.oracles import best_f1


def synthetic_predictions(rows: int = 4_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated predictions and what became of them."""
    random = np.random.default_rng(seed)
    p = random.beta(0.6, 2.4, rows)
    return p, (random.random(rows) < p).astype(float)


outcomes = arrays(np.float64, 50, elements=st.sampled_from([0.0, 1.0])).filter(lambda f: f.any())
predictions = arrays(np.float64, 50, elements=st.sampled_from([0.01, 0.1, 0.2, 0.21, 0.5, 0.7, 0.99]))


@given(predictions, outcomes)
def test_f1_is_within_the_plateau_of_the_best(p: np.ndarray, fails: np.ndarray) -> None:
    found = choose_threshold("f1", p, fails)
    assert f1(fails, p >= found.value) >= f1(fails, p >= best_f1(fails, p)) - PLATEAU - 1e-12


def test_a_steadied_threshold_is_better_than_the_peak_on_jobs_to_come() -> None:
    later, became = synthetic_predictions(50_000, 99)
    peaks, steadied = [], []
    for seed in range(40):
        p, fails = synthetic_predictions(1_000, seed)
        peaks.append(f1(became, later >= best_f1(fails, p)))
        steadied.append(f1(became, later >= choose_threshold("f1", p, fails).value))
    assert np.mean(steadied) > np.mean(peaks) + 0.002


def test_predictions_that_are_not_calibrated_do_not_mislead_f1() -> None:
    p, fails = synthetic_predictions()
    for bent in (p**4, p**0.25):
        assert (
            f1(fails, bent >= choose_threshold("f1", bent, fails).value)
            > f1(fails, p >= best_f1(fails, p)) - PLATEAU - 0.001
        )


@given(predictions, outcomes, st.sampled_from([0.3, 0.6, 0.9, 1.0]))
def test_recall_is_met_by_the_highest_threshold(p: np.ndarray, fails: np.ndarray, asked: float) -> None:
    value = choose_threshold(f"recall={asked}", p, fails).value
    assert at_threshold(fails, p >= value)["recall"] >= asked
    higher = p[p > value]
    assert all(at_threshold(fails, p >= other)["recall"] < asked for other in higher)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::forewarn.learn.fitting.thresholds.NotReachedWarning")
@given(predictions, outcomes, st.sampled_from([0.3, 0.6, 0.9]))
def test_precision_is_met_by_the_lowest_threshold(p: np.ndarray, fails: np.ndarray, asked: float) -> None:
    found = choose_threshold(f"precision={asked}", p, fails)
    reached = at_threshold(fails, p >= found.value)["precision"]
    assert reached == found.evidence["precision"]
    assert found.evidence["met"] == (reached >= asked)
    if found.evidence["met"]:
        assert all(at_threshold(fails, p >= other)["precision"] < asked for other in p[p < found.value])


def test_a_precision_out_of_reach_warns_and_takes_the_best() -> None:
    p, fails = synthetic_predictions()
    with pytest.warns(NotReachedWarning, match="no threshold has a precision of 0.999"):
        found = choose_threshold("precision=0.999", p * 0.8, fails * (np.arange(len(p)) % 2))
    assert found.evidence["met"] is False
    assert "best reached" in found.evidence["warning"]
    assert found.evidence["alarms"] >= 10  # one lucky alarm is no precision


@given(predictions, outcomes, st.sampled_from([0.1, 1.0, 30.0]))
def test_no_threshold_costs_less(p: np.ndarray, fails: np.ndarray, price: float) -> None:
    node_hours = np.linspace(0, 20, len(p))

    def cost(value: float) -> float:
        alarms = p >= value
        return float(price * (alarms & (fails == 0)).sum() + (node_hours * fails)[~alarms].sum())

    found = choose_threshold(f"cost={price}", p, fails, node_hours)
    assert cost(found.value) == pytest.approx(found.evidence["cost"])
    assert found.evidence["cost"] <= min(cost(value) for value in (*p, NEVER)) + 1e-9
    assert found.evidence["cost_without_alarms"] == pytest.approx(cost(NEVER))


def test_a_dearer_false_alarm_gives_fewer_alarms_and_in_the_end_none() -> None:
    p, fails = synthetic_predictions()
    fails[np.argmax(p)] = 0  # else the first alarm alone costs nothing at all
    node_hours = np.full(len(p), 10.0)
    values = [choose_threshold(f"cost={price}", p, fails, node_hours).value for price in (0.001, 2, 20, 1e6)]
    assert values == sorted(values)
    assert values[-1] == NEVER
    # One false alarm against ten node hours: the break-even of a calibrated p is 1 / 11.
    assert choose_threshold("cost=1", p, fails, node_hours).value == pytest.approx(1 / 11, abs=0.04)


def test_expected_f1_needs_no_outcomes_and_comes_near_the_best() -> None:
    p, fails = synthetic_predictions(6_000)
    found = choose_threshold("expected-f1", p)
    assert f1(fails, p >= found.value) > f1(fails, p >= best_f1(fails, p)) - 0.01
    assert found.evidence["expected_f1"] == pytest.approx(f1(fails, p >= found.value), abs=0.02)
    assert found.value == pytest.approx(found.evidence["expected_f1"] / 2, abs=0.01)  # as theory has it
    assert choose_threshold("expected-f1", np.concatenate([np.full(9_000, 0.9), p])).value == found.value


def test_a_rolling_threshold_sees_only_what_came_before() -> None:
    p, _ = synthetic_predictions(3_000)
    before = rolling_expected_f1(p, window=500, every=50, start=0.3)
    rewritten = p.copy()
    rewritten[1_775:] = 0.5
    after = rolling_expected_f1(rewritten, window=500, every=50, start=0.3)
    assert np.array_equal(before[:1_800], after[:1_800])
    assert not np.array_equal(before[1_800:], after[1_800:])
    assert (before[:50] == 0.3).all()
    assert before[-1] == choose_threshold("expected-f1", p[2_450:2_950]).value


def test_a_rolling_threshold_follows_the_predictions() -> None:
    high, low = synthetic_predictions(2_000)[0], synthetic_predictions(2_000)[0] / 4
    found = rolling_expected_f1(np.concatenate([high, low]), window=500, every=50)
    assert found[1_999] > 2 * found[-1]
    assert len(rolling_expected_f1(high[:3])) == 3


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        ("f2", "use one of f1, expected-f1"),
        ("f1=0.5", "unknown threshold rule 'f1=0.5'"),
        ("precision", "needs a number"),
        ("precision=high", "needs a number"),
        ("precision=80", "must be above 0 and at most 1"),
        ("recall=0", "must be above 0 and at most 1"),
        ("recall=nan", "must be above 0 and at most 1"),
        ("cost=-1", "a positive number of node hours"),
        ("cost=inf", "a positive number of node hours"),
        ("", "use one of f1"),
    ],
)
def test_the_error_of_a_wrong_rule_names_what_is_right(rule: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        parse_rule(rule)


def test_what_a_rule_needs_and_does_not_get_is_named() -> None:
    p, fails = synthetic_predictions(100)
    with pytest.raises(UsageError, match="needs outcomes"):
        choose_threshold("f1", p)
    with pytest.raises(UsageError, match="needs the node hours"):
        choose_threshold("cost=2", p, fails)
    with pytest.raises(NotEnoughError, match="none of the 100 jobs"):
        choose_threshold("f1", p, np.zeros(100))
    with pytest.raises(NotEnoughError, match="no predictions"):
        choose_threshold("expected-f1", np.zeros(0))


@pytest.mark.parametrize("rule", ["f1", "expected-f1", "precision=0.5", "recall=0.5", "cost=3"])
def test_a_threshold_survives_the_bundle(rule: str) -> None:
    p, fails = synthetic_predictions(500)
    found = choose_threshold(rule, p, fails, np.ones(500))
    assert Threshold.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found
    assert found.rule == rule
