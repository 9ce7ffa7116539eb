"""Simple answers to hold clever ones against."""

from __future__ import annotations

import numpy as np

from forewarn.learn.evaluation.metrics import Floats, ScoredPredictions


def best_f1(fails: Floats, p: Floats) -> float:
    """The threshold with the highest F1 on these rows; of several, the highest."""
    thresholds, true, alarms = ScoredPredictions(fails, p).curve()
    return float(thresholds[np.argmax(2 * true / (alarms + true[-1]))])
