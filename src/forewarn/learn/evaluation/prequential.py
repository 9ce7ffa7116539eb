"""Prequential evaluation: retrain every week, predict the next one, as a maintained model does.

Recipes and their weights stay as the search found them; at the beginning of each week they are fitted again
on all jobs that are settled by then (causes and usage forecasts stay as they are). Calibration and threshold
follow over time too, from earlier predictions, beginning with those of the block `calibrate`: an outcome is
used only after it was known.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.split import settled_rows
from forewarn.learn.data.table import JobTable
from forewarn.learn.fitting.calibration import calibrate_over_time
from forewarn.learn.fitting.fit_result import FitResult
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.learn.fitting.held_out import refit
from forewarn.learn.fitting.thresholds import (
    RECENT,
    NotReachedWarning,
    choose_threshold,
    parse_rule,
    rolling_expected_f1,
)
from forewarn.progress import ShowProgress, no_progress

WEEK = 7 * 86_400


@dataclass(frozen=True, slots=True)
class TimedPredictions:
    """The predictions for the test block, with the threshold in force at each."""

    rows: NDArray[np.int64]
    p: NDArray[np.float64]
    by_cause: NDArray[np.float64]  # jobs × causes; rows add up to `p`
    thresholds: NDArray[np.float64]
    rule: str  # that chose the thresholds
    retrained: int = 0


def predict_static(table: JobTable, fitted: FitResult) -> TimedPredictions:
    """Predict the test block with one model, one calibration and one threshold."""
    rows = fitted.parts.test
    thresholds = np.full(len(rows), fitted.threshold.value)
    stated = fitted.risk(table, rows)
    return TimedPredictions(rows, stated.probability, stated.by_cause, thresholds, fitted.threshold.rule)


def predict_retrained(
    table: JobTable,
    fitted: FitResult,
    settings: FitSettings,
    *,
    every: int = WEEK,
    watch: ShowProgress = no_progress,
) -> TimedPredictions:
    """Predict the test block with a new model every week, with calibration and threshold of that time."""
    rows = fitted.parts.test
    examples = np.setdiff1d(np.flatnonzero(table.labelled), fitted.left_out)
    week_of_row = (table.submit[rows] - fitted.parts.cuts[2]) // every
    weeks = np.unique(week_of_row)
    log_odds = np.empty(len(rows))
    with watch("retraining week by week") as show:
        for done, week in enumerate(weeks, 1):
            known = settled_rows(table, examples, int(fitted.parts.cuts[2] + week * every))
            ensemble = refit(table, fitted.assembly, fitted.recipes, known, settings)
            inside = week_of_row == week
            log_odds[inside] = fitted.log_odds(table, rows[inside], ensemble)
            show(done, len(weeks))
    all_rows = np.concatenate([fitted.held_out, rows])
    all_log_odds = np.concatenate([fitted.held_out_log_odds, log_odds])
    order = np.argsort(table.at[all_rows], kind="stable")  # of the predictions, at every phase
    all_rows, all_log_odds = all_rows[order], all_log_odds[order]
    p = calibrate_over_time(
        all_log_odds,
        table.fails[all_rows],
        table.at[all_rows],
        table.known_at[all_rows],
        start=fitted.last_calibration,
        weights=table.weights[all_rows],
    )
    rolling = parse_rule(settings.threshold)[0] in ("f1", "expected-f1")
    thresholds = (
        rolling_expected_f1(p, weights=table.weights[all_rows])
        if rolling
        else _weekly_thresholds(table, all_rows, p, settings.threshold, every)
    )
    places = np.argsort(order)[len(fitted.held_out) :]  # of the test block, in its own order
    rule = "expected-f1, rolling" if rolling else f"{settings.threshold}, weekly"
    shares = fitted.cause_shares(table, rows)
    return TimedPredictions(
        rows, p[places], p[places][:, None] * shares, thresholds[places], rule, len(weeks)
    )


def _weekly_thresholds(
    table: JobTable, rows: NDArray[np.int64], p: NDArray[np.float64], rule: str, every: int
) -> NDArray[np.float64]:
    """Choose a threshold each week, by recent predictions whose outcomes are known.

    For F1 they would be too noisy: its rules use the expected F1 of recent predictions.
    """
    thresholds = np.full(len(rows), 0.5)
    node_hours = table.about["node_hours"].to_numpy()[rows]
    week_of_row = table.at[rows] // every
    for week in np.unique(week_of_row)[1:]:
        known = np.flatnonzero((table.known_at[rows] < week * every) & (week_of_row < week))[-RECENT:]
        if table.fails[rows[known]].any():
            with warnings.catch_warnings():  # training has warned once; this would repeat it every week
                warnings.simplefilter("ignore", NotReachedWarning)
                threshold = choose_threshold(
                    rule, p[known], table.fails[rows[known]], node_hours[known], table.weights[rows[known]]
                )
            thresholds[week_of_row == week] = threshold.value
    return thresholds
