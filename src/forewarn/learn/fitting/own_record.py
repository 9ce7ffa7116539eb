"""Corrections of an estimate by past records: of the online regression, and of the user with this very job.

Where no model has been trained, the online regression predicts alone, and after a few hundred jobs, or in a
bulk of equal ones, its log odds are far too low or too high (`docs/measurements.md`). The kernel keeps a
small table of them beside the outcomes, with exponential forgetting; Platt's line through that table turns
them into a probability.

A user's jobs of the same name and request that all had the same outcome predict the next one better than a
young model can: after three that all failed the next failed in 71% (CTC-SP2, 383 cases) and 78% (a lab, 9),
where the untrained estimate was 45%. After n of them the estimate is pooled with the mean of a beta
distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.matrix import or_zero
from forewarn.learn.evaluation.metrics import Floats
from forewarn.learn.families.base import log_odds, probabilities
from forewarn.learn.fitting.calibration import LEAST_SLOPE, Calibration

# How many jobs of the same name and request must have had the same outcome, how many count at most, and how
# many jobs that fail at the base rate they are added to: on CTC-SP2 1.7 to 2.1 fit one and three jobs of
# either outcome.
SHORTEST_RECORD, LONGEST_RECORD, PRIOR = 3, 15, 2.0
RECORD_WEIGHT = 0.5  # of the record in the log odds, where nothing has shown that it should be more or less
UNIFORM = 1e-6  # a failure rate this close to 0 or 1 is that of jobs which all had the same outcome
PRIOR_PRECISION = np.array([20.0, 4.0])  # for slope 1 and intercept 0, in units of the information of a job


def calibration_from_record(record: Floats) -> Calibration:
    """Fit Platt's line through a record of predictions: jobs, sums of log odds, failures (rows) by bin.

    >>> jobs, log_odds, fails = [100.0, 100.0], [-100.0, 100.0], [5.0, 40.0]
    >>> line = calibration_from_record(np.array([jobs, log_odds, fails]))
    >>> [round(float(p), 2) for p in line(np.array([-1.0, 1.0]))]
    [0.08, 0.42]
    """
    jobs, log_odds, fails = record[:, record[0] > 1e-6]
    if not jobs.size:
        return Calibration()
    margins, prior = log_odds / jobs, np.array([1.0, 0.0])
    line = prior
    for _ in range(50):
        p = probabilities(line[0] * margins + line[1])
        error, weight = jobs * p - fails, jobs * p * (1 - p)
        gradient = np.array([(error * margins).sum(), error.sum()]) + PRIOR_PRECISION * (line - prior)
        cross = (weight * margins).sum()
        information = np.array([[(weight * margins**2).sum(), cross], [cross, weight.sum()]])
        step = np.clip(np.linalg.solve(information + np.diag(PRIOR_PRECISION), gradient), -1.0, 1.0)
        line = line - step
        if np.abs(step).max() < 1e-9:
            break
    return Calibration("platt", max(float(line[0]), LEAST_SLOPE), float(line[1]))


def uniform_record(column: Callable[[str], NDArray[np.floating[Any]]]) -> Floats:
    """Count a user's earlier jobs of this name and request, if all had the same outcome.

    The count is positive where all failed, negative where none did, and NaN where they differ or are too few.
    `column` returns a feature by its name.
    """
    streak, rate = (np.asarray(column(f"user_name_request_{name}"), float) for name in ("streak", "rate100"))
    is_uniform = (rate <= UNIFORM) | (rate >= 1 - UNIFORM)
    return np.where(is_uniform & (np.abs(streak) >= SHORTEST_RECORD), streak, np.nan)


def pool_with_record(p: Floats, records: Floats, base_rate: float, weight: float = RECORD_WEIGHT) -> Floats:
    """Pool probabilities of failure with the user's record of this job, where there is one.

    Failures never lower the probability, and jobs that completed never raise it.

    >>> pool_with_record(np.full(3, 0.3), np.array([3.0, -3.0, np.nan]), 0.3).round(2)
    array([0.51, 0.19, 0.3 ])
    """
    count = np.minimum(or_zero(np.abs(records)), LONGEST_RECORD)
    rate = (PRIOR * base_rate + np.where(records > 0, count, 0.0)) / (PRIOR + count)
    pooled = probabilities((1 - weight) * log_odds(p) + weight * log_odds(rate))
    pooled = np.where(records > 0, np.maximum(pooled, p), np.minimum(pooled, p))
    return np.asarray(np.where(np.isnan(records), p, pooled))
