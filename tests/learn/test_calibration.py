"""Probabilities that come true as often as they say, in order, also when the base rate drifts."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from forewarn.learn.evaluation.metrics import ScoredPredictions, ranking
from forewarn.learn.families.base import probabilities
from forewarn.learn.fitting.calibration import Calibration, calibrate, calibrate_over_time

DAY = 86_400


def drawn(log_odds: np.ndarray, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.random(len(log_odds)) < probabilities(log_odds)).astype(float)


@pytest.fixture
def truth() -> np.ndarray:
    return np.random.default_rng(5).normal(-1.5, 1.5, 8_000)


def test_a_straight_miscalibration_is_undone_by_platt(truth: np.ndarray) -> None:
    margins = 2 * truth + 1  # too sure of itself, and too gloomy
    found = calibrate(margins, drawn(truth))
    assert ranking(drawn(truth, 1), probabilities(margins))["ece"] > 0.08
    assert ranking(drawn(truth, 1), found(margins))["ece"] < 0.02
    straight = (
        (found.slope * margins + found.intercept) if found.method == "platt" else found.log_odds(margins)
    )
    assert np.abs(straight - truth).mean() < 0.25


def test_a_bent_miscalibration_takes_the_isotonic_curve(truth: np.ndarray) -> None:
    margins = np.where(truth > -1, 4 * (truth + 1), truth + 1)
    found = calibrate(margins, drawn(truth))
    assert found.method == "isotonic"
    losses = found.evidence["log_loss"]
    assert losses["isotonic"] < losses["platt"] < losses["identity"]
    assert ranking(drawn(truth, 1), found(margins))["ece"] < 0.02


def test_the_isotonic_curve_keeps_the_ranking(truth: np.ndarray) -> None:
    margins = np.where(truth > -1, 4 * (truth + 1), truth + 1)
    found = calibrate(margins, drawn(truth))
    before, after = (ScoredPredictions(drawn(truth, 1), p) for p in (probabilities(margins), found(margins)))
    assert found.method == "isotonic"
    assert after.roc_auc() == pytest.approx(before.roc_auc(), abs=1e-9)
    assert after.pr_auc() == pytest.approx(before.pr_auc(), abs=1e-9)


@pytest.mark.slow
@given(
    arrays(np.float64, 400, elements=st.floats(-12, 12, width=16)),
    arrays(np.float64, 400, elements=st.sampled_from([0.0, 1.0])),
)
def test_it_never_turns_the_order_around_and_is_never_certain(margins: np.ndarray, fails: np.ndarray) -> None:
    found = calibrate(margins, fails)
    everywhere = np.linspace(-30, 30, 501)
    p = found(everywhere)
    assert (np.diff(p) >= 0).all()
    assert p.min() > 0
    assert p.max() < 1
    again = Calibration.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False)))
    assert again == found
    assert np.array_equal(again(everywhere), p)


@pytest.mark.parametrize("rows", [0, 1, 10, 150])
@pytest.mark.parametrize("only", [0.0, 1.0, None])
def test_few_rows_or_one_class_move_little_and_say_so(rows: int, only: float | None) -> None:
    margins = np.random.default_rng(0).normal(size=rows)
    fails = np.full(rows, only) if only is not None else drawn(margins)
    found = calibrate(margins, fails)
    assert found.method == "platt"
    assert "too few" in found.evidence["why"]
    assert found.slope > 0
    if only is None or rows <= 1:
        assert np.abs(found(margins) - probabilities(margins)).max(initial=0) < 0.15
    else:
        assert np.abs(found(margins) - only).mean() < np.abs(probabilities(margins) - only).mean()


def test_a_model_that_ranks_the_wrong_way_round_gives_the_base_rate() -> None:
    truth = np.random.default_rng(0).normal(-1, 1, 4_000)
    found = calibrate(-truth, drawn(truth))
    assert found(-truth).mean() == pytest.approx(drawn(truth).mean(), abs=0.02)
    assert np.std(found(-truth)) < 0.05


def test_margins_that_are_all_the_same_give_the_base_rate() -> None:
    fails = np.resize([1.0, 0.0, 0.0, 0.0], 50_000)
    assert calibrate(np.full(50_000, -3.0), fails)(np.array([-3.0]))[0] == pytest.approx(0.25, abs=0.01)


def drifting(days: int = 200, jobs: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A model fitted to a cluster whose failures become rarer, as on SDSC-BLUE (21 % to 13 %)."""
    random = np.random.default_rng(3)
    at = np.sort(random.integers(0, days * DAY, days * jobs))
    margins = random.normal(-1.8, 1.5, len(at))
    fails = drawn(margins - 1.2 * at / at.max())
    known_at = at + random.exponential(DAY / 2, len(at)).astype(np.int64)
    return margins, fails, at, known_at


@pytest.mark.slow
def test_a_correction_in_time_holds_against_drift() -> None:
    margins, fails, at, known_at = drifting()
    half = len(margins) // 2
    static = calibrate(margins[: half // 2], fails[: half // 2])
    p = calibrate_over_time(margins, fails, at, known_at, start=static)
    assert ranking(fails[half:], static(margins)[half:])["ece"] > 0.04
    assert ranking(fails[half:], p[half:])["ece"] < 0.02


def test_a_correction_knows_nothing_of_what_was_not_known_yet() -> None:
    margins, fails, at, known_at = drifting(days=20)
    before = calibrate_over_time(margins, fails, at, known_at, start=Calibration(), window=300)
    for day in (5, 12):
        rewritten = np.where(known_at >= day * DAY, 1 - fails, fails)
        after = calibrate_over_time(margins, rewritten, at, known_at, start=Calibration(), window=300)
        early = at < (day + 1) * DAY
        assert np.array_equal(before[early], after[early])
        assert not np.array_equal(before[~early], after[~early])


def test_before_any_outcome_is_known_the_start_holds_and_unknown_ones_never_count() -> None:
    margins, fails, at, known_at = drifting(days=10)
    start = Calibration("platt", 0.7, -0.2)
    silent = calibrate_over_time(margins, fails, at, np.full_like(known_at, -1), start=start)
    assert silent == pytest.approx(start(margins))
    with_holes = np.where(at % 2 == 0, np.nan, fails)
    assert np.isfinite(calibrate_over_time(margins, with_holes, at, known_at, start=start)).all()
