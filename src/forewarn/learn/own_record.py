"""The online regression calibrated by its own record: what it said at submit, and what came of it.

Where no model has been trained it speaks alone, and after a few hundred jobs, or in a bulk of equal ones, its
log odds are far too low or too high (`docs/measurements.md`). The kernel keeps a small table of them beside
the outcomes, which fades; Platt's line through that table is what makes a probability of them.
"""

from __future__ import annotations

import numpy as np

from forewarn.learn.calibration import LEAST_SLOPE, Calibration
from forewarn.learn.families.base import probabilities
from forewarn.learn.metrics import Floats

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
