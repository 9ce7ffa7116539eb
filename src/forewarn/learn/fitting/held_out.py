"""Fits of given recipes, and what the block `calibrate` decides about a fit that never saw its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.assembly import Assembly
from forewarn.learn.data.imbalance import balance
from forewarn.learn.data.matrix import Sample
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation import bootstrap
from forewarn.learn.fitting.abstention import Abstention
from forewarn.learn.fitting.calibration import Calibration, calibrate, platt_calibration, rate_calibration
from forewarn.learn.fitting.ensemble import Ensemble, Recipe, fit_ensemble
from forewarn.learn.fitting.fallback import Recipes, find_rule
from forewarn.learn.fitting.fit_result import columns_of_rows
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.learn.fitting.pooling import (
    Pooling,
    RiskInputs,
    choose_pooling,
    pooling_beside_rule,
    uniform_records_of,
)
from forewarn.learn.fitting.thresholds import Threshold, choose_threshold

ONLINE = Recipe("online", {}, ("online",), 0)
# Share of held-out jobs without enough evidence, from which on only the failure rate is stated.
MOSTLY_ABSTAINS = 0.95
DEFAULT_RULES = ("f1", "expected-f1")  # thresholds that are always chosen, beside the requested one


@dataclass(frozen=True, slots=True)
class HeldOutDecisions:
    """Decisions on the block `calibrate`, for recipes that were fitted on the blocks before it."""

    log_odds: NDArray[np.float64]  # before the last calibration
    p: NDArray[np.float64]
    calibration: Calibration
    pooling: Pooling | None
    thresholds: Mapping[str, Threshold]
    abstention: Abstention


def decide_on_held_out(
    table: JobTable,
    assembly: Assembly,
    recipes: Recipes,
    fit_rows: NDArray[np.int64],
    held_out: NDArray[np.int64],
    settings: FitSettings,
    risk_inputs: RiskInputs,
    *,
    left_out: NDArray[np.int64],
) -> HeldOutDecisions:
    """Choose calibration, pooling, thresholds and abstention by the jobs `held_out`.

    Parameters
    ----------
    fit_rows
        Rows to fit the recipes on, all of them before `held_out`.
    left_out
        Those of `fit_rows` that active learning did not use.
    """
    sample = _sample_to_fit(table, assembly, recipes, np.setdiff1d(fit_rows, left_out), settings)
    ensemble = fit_ensemble(recipes, sample, seed=settings.seed, threads=settings.threads)
    # Balancing shifts the log odds of all members that are fitted; the online regression is not.
    shifted = sum(weight for weight, recipe in recipes if recipe != ONLINE)
    true_log_odds = _mean_log_odds(table.fails[fit_rows], table.weights[fit_rows])
    offset = shifted * (true_log_odds - _mean_log_odds(sample.fails, sample.weights))
    is_rule = find_rule(recipe for _, recipe in recipes) is not None
    matrix = assembly.matrix(table, held_out)
    log_odds = ensemble.margins(matrix)
    fails, weights = table.fails[held_out], table.weights[held_out]
    groups = bootstrap.groups(table.about[held_out])
    # In calibration a bulk of n equal jobs counts even less, about 1 + ln n: their common outcome is evidence
    # about one decision.
    calibration = (
        platt_calibration(log_odds, fails, weights**2)
        if is_rule
        else calibrate(log_odds, fails, weights**2, groups, offset)
    )
    p = calibration(log_odds)
    abstention = Abstention.fit(table, held_out, p, history=assembly.knows_history)
    pooling = None
    if not is_rule and abstention.abstains(columns_of_rows(table, held_out)).mean() >= MOSTLY_ABSTAINS:
        calibration = rate_calibration(log_odds, fails, weights)
        p = calibration(log_odds)
    else:
        excess = risk_inputs.excess(table, held_out)
        given_failure, causes = risk_inputs.causes.given_failure(matrix), risk_inputs.causes.causes
        if is_rule:
            pooling = pooling_beside_rule(excess, causes)
        else:
            base_rate = float(np.average(table.fails[fit_rows], weights=table.weights[fit_rows]))
            records = uniform_records_of(matrix)
            pooling = choose_pooling(
                p, given_failure, causes, excess, fails, weights, groups, records, base_rate
            )
        if pooling is not None:
            log_odds = pooling.log_odds(pooling.with_record(p, matrix), given_failure, causes, excess)
            p = pooling.calibration(log_odds)
    node_hours = table.about["node_hours"].to_numpy()[held_out]
    rules = dict.fromkeys((settings.threshold, *DEFAULT_RULES))
    thresholds = {rule: choose_threshold(rule, p, fails, node_hours, weights) for rule in rules}
    return HeldOutDecisions(log_odds, p, calibration, pooling, thresholds, abstention)


def refit(
    table: JobTable,
    assembly: Assembly,
    recipes: Recipes,
    rows: NDArray[np.int64],
    settings: FitSettings,
) -> Ensemble:
    """Fit the same recipes on other rows."""
    sample = _sample_to_fit(table, assembly, recipes, rows, settings)
    return fit_ensemble(recipes, sample, seed=settings.seed, threads=settings.threads)


def balancing(settings: FitSettings) -> str:
    """Return how samples are balanced; active learning chooses rows instead."""
    return "none" if settings.imbalance == "active" else settings.imbalance


def balance_by_settings(sample: Sample, settings: FitSettings) -> Sample:
    """Balance a sample as the settings say."""
    return balance(sample, balancing(settings), seed=settings.seed)


def _sample_to_fit(
    table: JobTable, assembly: Assembly, recipes: Recipes, rows: NDArray[np.int64], settings: FitSettings
) -> Sample:
    """Sample rows to fit recipes on; a rule counts outcomes, so that its sample is not balanced."""
    sample = assembly.sample(table, rows)
    return (
        balance_by_settings(sample, settings)
        if find_rule(recipe for _, recipe in recipes) is None
        else sample
    )


def _mean_log_odds(fails: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    rate = np.average(fails, weights=weights)
    return float(np.log(rate / (1 - rate)))
