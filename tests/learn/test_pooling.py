"""Pooling: forecasts of needs count as much as they have shown, and never against a user's own runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from forewarn.learn.data.table import JobTable
from forewarn.learn.fitting.calibration import Calibration
from forewarn.learn.fitting.pooling import WEIGHTS, Pooling, choose_pooling, excess_of, record_weight, risk
from forewarn.learn.heads.causes import Cause
from forewarn.learn.heads.usage.distributions import Distributions, UsageForecast
from forewarn.learn.heads.usage.quantities import QUANTITIES
from forewarn.learn.heads.usage.recalibration import Recalibration

CAUSES = (Cause("failed", "user"), Cause("timeout", "limit"), Cause("out_of_memory", "limit"))
COUNT = 4_000


def jobs(seed: int) -> tuple[NDArray[np.float64], ...]:
    """Jobs that fail by themselves or at their limit: the model's view, both chances, what became of them."""
    random = np.random.default_rng(seed)
    by_itself, over = random.beta(0.5, 4.0, COUNT), random.beta(0.3, 2.0, COUNT)
    fails = (random.random(COUNT) < 1 - (1 - by_itself) * (1 - over)).astype(np.float64)
    rate = np.full(COUNT, over.mean())  # of time-outs the model knows no more
    model = 1 - (1 - by_itself) * (1 - rate)
    given_failure = np.stack([0.9 * by_itself, rate, 0.1 * by_itself], axis=1)
    return model, given_failure / given_failure.sum(axis=1)[:, None], over, fails


def chosen(over: NDArray[np.float64], seed: int = 0) -> Pooling | None:
    model, given_failure, _, fails = jobs(seed)
    ones = np.ones(COUNT)
    return choose_pooling(model, given_failure, CAUSES, {"timeout": over}, fails, ones, np.arange(COUNT))


def test_a_forecast_that_comes_true_counts_most_and_noise_least() -> None:
    over = jobs(0)[2]
    good, noise = chosen(over), chosen(np.random.default_rng(9).permutation(over))
    assert good is not None
    assert noise is not None
    assert (good.weight, noise.weight) == (WEIGHTS[-1], WEIGHTS[0])
    model, given_failure, over, fails = jobs(1)  # later jobs
    stated = risk(model, given_failure, CAUSES, {"timeout": over}, good)
    assert stated.by_cause.sum(axis=1) == pytest.approx(stated.probability)
    assert stated.model_probability is model
    assert stated.probability[fails == 1].mean() > stated.probability[fails == 0].mean() + 0.1
    assert stated.probability.mean() == pytest.approx(fails.mean(), abs=0.03), "calibrated as it is stated"


def test_a_forecast_of_what_never_ended_a_job_does_not_count() -> None:
    model, given_failure, over, fails = jobs(0)
    ones = np.ones(COUNT)
    no_such = [Cause("failed", "user"), Cause("cancelled", "user"), Cause("other", None)]
    assert (
        choose_pooling(model, given_failure, no_such, {"timeout": over}, fails, ones, np.arange(COUNT))
        is None
    )
    alone = risk(model, given_failure, no_such, {"timeout": over}, None)
    assert alone.probability is model


def test_an_unknown_forecast_leaves_the_model_its_word() -> None:
    half = Pooling(0.5, ("timeout",), Calibration())
    model, given_failure = np.array([0.2, 0.2]), np.tile([0.5, 0.4, 0.1], (2, 1))
    stated = risk(model, given_failure, CAUSES, {"timeout": np.array([np.nan, 0.9])}, half)
    assert stated.probability[0] == pytest.approx(0.2)
    assert stated.probability[1] > 0.3


def table_of(**columns: float) -> JobTable:
    named = {"time_limit": 300.0, "memory": float(4 << 30), "nodes": 1.0, **columns}
    values = np.array([list(named.values())], np.float32)
    whole, zero = np.zeros(1), np.zeros(1, np.int64)
    return JobTable(
        "c", "submit", "wasted", tuple(named), values, whole, zero, zero, pl.DataFrame({"submit": [0]})
    )


def long_runs() -> UsageForecast:
    """A forecast of eight minutes or more for every job."""
    borders = np.log2(np.array([1.0, 480.0, 500.0, 600.0]) + 1)
    below = np.array([[0.0, 0.02, 0.9, 1.0]])
    run_time = Distributions(QUANTITIES["run_time"], borders, below, Recalibration.identity())
    return UsageForecast(run_time, None, None, None, np.ones(1), {"run_time": 1_000})


@pytest.mark.parametrize(("runs", "most"), [(0.0, 1.0), (2.0, 1.0), (3.0, 0.2), (18.0, 0.05)])
def test_own_short_runs_of_the_same_request_overrule_a_long_forecast(runs: float, most: float) -> None:
    """A request of five minutes whose runs took one second is not likely to hit its limit."""
    ratio = np.log2(300.0) if runs else np.nan
    own = {"user_request_ended": runs, "user_request_limit15": 0.0, "user_request_limit_ratio": ratio}
    memory = {"user_request_memory15": np.nan, "user_request_memory_ratio": np.nan}
    (over,) = excess_of(long_runs(), table_of(**own, **memory))["timeout"]
    assert over == pytest.approx(most, abs=0.03)


def test_runs_near_the_limit_or_beyond_it_do_not() -> None:
    near = {"user_request_ended": 9.0, "user_request_limit15": 0.0, "user_request_limit_ratio": 0.4}
    hit = {"user_request_ended": 9.0, "user_request_limit15": 0.3, "user_request_limit_ratio": 3.0}
    memory = {"user_request_memory15": np.nan, "user_request_memory_ratio": np.nan}
    for own in (near, hit):
        (over,) = excess_of(long_runs(), table_of(**own, **memory))["timeout"]
        assert over > 0.9


def test_a_limit_that_is_not_kept_counts_for_nothing() -> None:
    """As on LANL-CM5, where a fourth of the jobs ran over it: pooled, its ROC-AUC fell from .85 to .80."""
    from forewarn.learn.heads.usage import Usage
    from forewarn.learn.heads.usage.usage import QuantityModel

    part = QuantityModel(QUANTITIES["run_time"], (), (), None, Recalibration.identity(), 1_000, limited=False)  # type: ignore[arg-type]
    assert not Usage({"run_time": part}).is_enforced("timeout")
    assert Usage({"run_time": replace(part, limited=True)}).is_enforced("timeout")
    assert not Usage({}).is_enforced("timeout")


def test_an_own_record_counts_half_unless_the_block_shows_that_the_model_knows_as_much() -> None:
    random = np.random.default_rng(3)
    records = np.where(random.random(COUNT) < 0.3, 4.0, -4.0)
    truth = np.where(records > 0, 0.75, 0.08)
    fails = (random.random(COUNT) < truth).astype(np.float64)
    ones, groups, rate = np.ones(COUNT), np.arange(COUNT) % 200, float(fails.mean())
    ignorant = np.full(COUNT, rate)
    assert record_weight(ignorant, records, rate, fails, ones, groups) == 0.5
    assert record_weight(truth, records, rate, fails, ones, groups) == 0.0
    few = np.where(np.arange(COUNT) < 20, records, np.nan)
    assert record_weight(truth, few, rate, fails, ones, groups) == 0.5, "too few to show it"


def test_a_pooling_with_a_record_and_no_forecast_survives_the_bundle() -> None:
    model, given_failure, _, fails = jobs(0)
    few = np.full(COUNT, np.nan)
    pooling = choose_pooling(
        model, given_failure, CAUSES, {}, fails, np.ones(COUNT), np.arange(COUNT), few, 0.2
    )
    assert pooling is not None
    assert (pooling.record, pooling.base_rate, pooling.outcomes) == (0.5, 0.2, ())
    assert Pooling.from_json(pooling.to_json()) == pooling
    assert risk(model, given_failure, CAUSES, {}, pooling).probability == pytest.approx(model)
