"""Retrain every week, predict the next: how a model fares that is kept up.

Recipes and their weights stay as the search found them; at each week's begin they are fitted again on all
that is settled by then (causes and forecasts of needs stay as they are). Calibration and threshold follow in
time too, from earlier predictions, beginning with those of the block `calibrate`: what is learnt from an
outcome is learnt when it was known.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.split import settled
from forewarn.learn.data.table import JobTable
from forewarn.learn.fitting.calibration import calibrated_in_time
from forewarn.learn.fitting.fit import FitResult, FitSettings, refit
from forewarn.learn.fitting.thresholds import RECENT, NotReachedWarning, choose, parsed, rolling_expected_f1
from forewarn.progress import Watch, unwatched

WEEK = 7 * 86_400


@dataclass(frozen=True, slots=True)
class TimedPredictions:
    """What was said of each job of the test part, and the threshold in force when it was said."""

    rows: NDArray[np.int64]
    p: NDArray[np.float64]
    by_cause: NDArray[np.float64]  # jobs × causes; rows add up to `p`
    thresholds: NDArray[np.float64]
    rule: str  # that gave them
    retrained: int = 0


def static(table: JobTable, fitted: FitResult) -> TimedPredictions:
    """One model, one calibration and one threshold for all of the test part."""
    rows = fitted.parts.test
    thresholds = np.full(len(rows), fitted.threshold.value)
    stated = fitted.risk(table, rows)
    return TimedPredictions(rows, stated.probability, stated.by_cause, thresholds, fitted.threshold.rule)


def retrained(
    table: JobTable, fitted: FitResult, settings: FitSettings, *, every: int = WEEK, watch: Watch = unwatched
) -> TimedPredictions:
    """A new model every week, calibrated and thresholded by what was known when it was made."""
    rows = fitted.parts.test
    examples = np.setdiff1d(np.flatnonzero(table.labelled), fitted.left_out)
    week_of = (table.submit[rows] - fitted.parts.cuts[2]) // every
    weeks = np.unique(week_of)
    log_odds = np.empty(len(rows))
    with watch("retraining week by week") as far:
        for done, week in enumerate(weeks, 1):
            known = settled(table, examples, int(fitted.parts.cuts[2] + week * every))
            ensemble = refit(table, fitted.assembly, fitted.recipes, known, settings)
            now = week_of == week
            log_odds[now] = fitted.log_odds(table, rows[now], ensemble)
            far(done, len(weeks))
    every_row = np.concatenate([fitted.held_out, rows])
    said = np.concatenate([fitted.held_out_log_odds, log_odds])
    in_order = np.argsort(table.moment[every_row], kind="stable")  # as they were said, at every phase
    every_row, said = every_row[in_order], said[in_order]
    p = calibrated_in_time(
        said,
        table.fails[every_row],
        table.moment[every_row],
        table.known[every_row],
        start=fitted.last_calibration,
        weights=table.weights[every_row],
    )
    rolling = parsed(settings.threshold)[0] in ("f1", "expected-f1")
    thresholds = (
        rolling_expected_f1(p, weights=table.weights[every_row])
        if rolling
        else _in_time(table, every_row, p, settings.threshold, every)
    )
    back = np.argsort(in_order)[len(fitted.held_out) :]
    rule = "expected-f1, rolling" if rolling else f"{settings.threshold}, weekly"
    shares = fitted.cause_shares(table, rows)
    return TimedPredictions(rows, p[back], p[back][:, None] * shares, thresholds[back], rule, len(weeks))


def _in_time(
    table: JobTable, rows: NDArray[np.int64], p: NDArray[np.float64], rule: str, every: int
) -> NDArray[np.float64]:
    """The threshold in force at each prediction, by the recent ones whose outcomes are known, each week anew.

    For F1 they would be too noisy: there it is the expected F1 of recent predictions.
    """
    made = np.full(len(rows), 0.5)
    node_hours = table.about["node_hours"].to_numpy()[rows]
    week_of = table.moment[rows] // every
    for week in np.unique(week_of)[1:]:
        known = np.flatnonzero((table.known[rows] < week * every) & (week_of < week))[-RECENT:]
        if table.fails[rows[known]].any():
            with warnings.catch_warnings():  # the nearest was taken: said once, at training, not every week
                warnings.simplefilter("ignore", NotReachedWarning)
                found = choose(
                    rule, p[known], table.fails[rows[known]], node_hours[known], table.weights[rows[known]]
                )
            made[week_of == week] = found.value
    return made
