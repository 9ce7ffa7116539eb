"""The online regression calibrated by its own record, as the kernel keeps it."""

from __future__ import annotations

import numpy as np
import pytest

from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel import regression
from forewarn.features.kernel.state import new_state
from forewarn.learn.families.base import probabilities
from forewarn.learn.fitting.own_record import calibration_from_record, pool_with_record, uniform_record

recorded = regression.recorded  # as it is before Numba


def test_overconfident_log_odds_are_put_right() -> None:
    """Jobs predicted with log odds m fail with log odds m / 2 - 1."""
    rng, state = np.random.default_rng(3), new_state()
    log_odds_stated = rng.normal(0.0, 2.0, 4000)
    truth = probabilities(log_odds_stated / 2 - 1)
    for log_odds, p in zip(log_odds_stated, truth, strict=True):
        recorded(state, log_odds, float(rng.random() < p), 1.0)
    record = state.cluster[L.C_RECORD : L.C_RECORD + 3 * L.RECORD_BINS].reshape(3, L.RECORD_BINS)
    assert record[0].sum() == pytest.approx((1 - L.D2000**4000) / (1 - L.D2000))
    at = np.array([-3.0, -1.0, 0.0, 1.0, 3.0])
    assert calibration_from_record(record)(at) == pytest.approx(probabilities(at / 2 - 1), abs=0.04)


def test_a_bulk_is_one_decision_and_no_record_changes_nothing() -> None:
    heavy, light = new_state(), new_state()
    recorded(heavy, 1.0, 0.0, 1.0)
    for _ in range(100):
        recorded(light, 1.0, 0.0, 0.01)
    assert light.cluster[L.C_RECORD :] == pytest.approx(heavy.cluster[L.C_RECORD :], rel=1e-3)
    plain = calibration_from_record(np.zeros((3, L.RECORD_BINS)))
    assert plain(np.array([0.5])) == pytest.approx(probabilities(np.array([0.5])))


def test_more_failures_in_the_record_never_lower_the_risk() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        jobs = rng.uniform(1, 50, L.RECORD_BINS)
        log_odds = jobs * (np.arange(L.RECORD_BINS) - 4.5)
        few = jobs * rng.uniform(0, 0.5, L.RECORD_BINS)
        at = log_odds / jobs
        less, more = (
            calibration_from_record(np.array([jobs, log_odds, fails]))(at) for fails in (few, few + jobs / 4)
        )
        assert more.mean() > less.mean()
        assert (np.diff(less) > 0).all(), "and its order is kept"


def test_only_jobs_that_all_ended_alike_are_a_record() -> None:
    columns = {
        "user_name_request_streak": np.array([3.0, -3.0, 2.0, 3.0, np.nan]),
        "user_name_request_rate100": np.array([1.0, 0.0, 1.0, 0.4, np.nan]),
    }
    assert uniform_record(columns.__getitem__) == pytest.approx([3, -3, np.nan, np.nan, np.nan], nan_ok=True)


def test_failures_never_lower_a_risk_and_jobs_that_went_well_never_raise_it() -> None:
    p = np.linspace(0.01, 0.99, 99)
    for count in (3.0, 5.0, 40.0):
        assert (pool_with_record(p, np.full(99, count), 0.3) >= p).all()
        assert (pool_with_record(p, np.full(99, -count), 0.3) <= p).all()
    three, many = (float(pool_with_record(np.array([0.16]), np.array([n]), 0.3)[0]) for n in (3.0, 15.0))
    assert 0.4 < three < many, "what was 16 % after three failures of three"
