"""Records that correct an estimate: the online regression's own, and a user's with this very job.

Where no model has been trained it speaks alone, and after a few hundred jobs, or in a bulk of equal ones, its
log odds are far too low or too high (`docs/measurements.md`). The kernel keeps a small table of them beside
the outcomes, which fades; Platt's line through that table is what makes a probability of them.

A user's jobs of the same name and request that all ended alike tell more of the next one than a young model
can: of three that all failed the next failed in 71 % (CTC-SP2, 383 cases) and 78 % (a lab, 9), and there the
untrained estimate said 45 %. After n of them the estimate is pooled with the mean of a beta distribution.
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

# How many jobs of the same name and request must have ended alike, how many count, and how many jobs that
# fail at the usual rate they are added to: on CTC-SP2 1.7 to 2.1 fit one and three of either ending.
FEWEST_ALIKE, MOST_ALIKE, PRIOR = 3, 15, 2.0
HALF = 0.5  # how much the record counts in the log odds where nothing has shown more or less
ALIKE = 1e-6  # a failure rate so near to 0 or 1 is that of jobs which all ended alike
FAITH = np.array([20.0, 4.0])  # in slope 1 and intercept 0, in units of the information that jobs bring


def by_own_record(record: Floats) -> Calibration:
    """The line through a record of jobs, sums of log odds and failures (rows) by bins.

    >>> jobs, log_odds, fails = [100.0, 100.0], [-100.0, 100.0], [5.0, 40.0]
    >>> line = by_own_record(np.array([jobs, log_odds, fails]))
    >>> [round(float(p), 2) for p in line(np.array([-1.0, 1.0]))]
    [0.08, 0.42]
    """
    jobs, log_odds, fails = record[:, record[0] > 1e-6]
    if not jobs.size:
        return Calibration()
    margins, believed = log_odds / jobs, np.array([1.0, 0.0])
    line = believed
    for _ in range(50):
        p = probabilities(line[0] * margins + line[1])
        error, weight = jobs * p - fails, jobs * p * (1 - p)
        down = np.array([(error * margins).sum(), error.sum()]) + FAITH * (line - believed)
        cross = (weight * margins).sum()
        bend = np.array([[(weight * margins**2).sum(), cross], [cross, weight.sum()]]) + np.diag(FAITH)
        step = np.clip(np.linalg.solve(bend, down), -1.0, 1.0)
        line = line - step
        if np.abs(step).max() < 1e-9:
            break
    return Calibration("platt", max(float(line[0]), LEAST_SLOPE), float(line[1]))


def alike(column: Callable[[str], NDArray[np.floating[Any]]]) -> Floats:
    """How many of a user's jobs of this name and request ended alike: failed, or negative; NaN: not all did.

    `column` gives a feature by its name.
    """
    streak, rate = (np.asarray(column(f"user_name_request_{name}"), float) for name in ("streak", "rate100"))
    is_one = (rate <= ALIKE) | (rate >= 1 - ALIKE)
    return np.where(is_one & (np.abs(streak) >= FEWEST_ALIKE), streak, np.nan)


def pool_with_record(p: Floats, ended_alike: Floats, usual: float, weight: float = HALF) -> Floats:
    """Pool probabilities of failure with the user's record of this job, where there is one.

    Failures never lower it, and jobs that went well never raise it.

    >>> pool_with_record(np.full(3, 0.3), np.array([3.0, -3.0, np.nan]), 0.3).round(2)
    array([0.51, 0.19, 0.3 ])
    """
    count = np.minimum(or_zero(np.abs(ended_alike)), MOST_ALIKE)
    record = (PRIOR * usual + np.where(ended_alike > 0, count, 0.0)) / (PRIOR + count)
    pooled = probabilities((1 - weight) * log_odds(p) + weight * log_odds(record))
    pooled = np.where(ended_alike > 0, np.maximum(pooled, p), np.minimum(pooled, p))
    return np.asarray(np.where(np.isnan(ended_alike), p, pooled))
