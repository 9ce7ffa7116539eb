"""What needs no model: the majority, and that the next job ends as the last one did.

The last one is the last that had *ended* when this job was submitted, never the last submitted: its outcome
would not have been known. Where there is none, the rule falls back on what its name says, and then on the
majority.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from forewarn.learn.matrix import Rows
from forewarn.learn.metrics import Alarms, Floats, f1
from forewarn.learn.table import Table

# The columns that a rule asks, the first that has an answer wins.
RULES: Mapping[str, tuple[str, ...]] = {
    "majority": (),
    "last_user": ("user_last",),
    "last_user_name": ("user_name_last",),
    "last_user_request": ("user_request_last",),
    "last_user_request_else_user": ("user_request_last", "user_last"),
    "last_user_name_else_user": ("user_name_last", "user_last"),
}


def baselines(table: Table, rows: Rows, train: Rows) -> dict[str, Alarms]:
    """The alarms of each rule for some jobs. The majority is that of the jobs learnt from."""
    majority = float(np.nanmean(table.fails[train]) > 0.5)
    made = {}
    for name, columns in RULES.items():
        answer = np.full(len(table.fails[rows]), majority)
        for column in reversed(columns):
            last = table.column(column)[rows]
            answer = np.where(np.isnan(last), answer, last)
        made[name] = answer > 0.5
    return made


def best_baseline(alarms: Mapping[str, Alarms], fails: Floats) -> str:
    """The rule with the highest F1, which a model has to beat.

    >>> best_baseline({"never": np.array([False, False]), "always": np.array([True, True])}, np.ones(2))
    'always'
    """
    return max(alarms, key=lambda name: f1(fails, alarms[name]))
