"""Simple rules to compare a model with: the majority, or that the next job ends as the last one did.

The last one is the last that had *ended* when this job was submitted, never the last submitted: its outcome
would not have been known. Where there is none, a rule falls back on what its name says, and then on the
majority. A log without users has only rules about anyone's jobs: the last outcome of the same request, and at
start, when the first tasks have ended, of the same array.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from forewarn.learn.data.matrix import Rows
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.metrics import Alarms, Floats, f1
from forewarn.learn.evaluation.rule_labels import MAJORITY

# The columns that a rule uses; the first that is known decides.
RULES: Mapping[str, tuple[str, ...]] = {
    MAJORITY: (),
    "last_user": ("user_last",),
    "last_user_name": ("user_name_last",),
    "last_user_request": ("user_request_last",),
    "last_user_request_else_user": ("user_request_last", "user_last"),
    "last_user_name_else_user": ("user_name_last", "user_last"),
    "last_request": ("request_last",),
    "last_array": ("array_last",),
    "last_array_else_request": ("array_last", "request_last"),
}


def baseline_alarms(table: JobTable, rows: Rows, train: Rows) -> dict[str, Alarms]:
    """Compute the alarms of each rule for some jobs. The majority is that of the jobs learnt from."""
    majority = float(np.nanmean(table.fails[train]) > 0.5)
    alarms = {}
    for name, columns in RULES.items():
        prediction = np.full(len(table.fails[rows]), majority)
        for column in reversed(columns):
            if column in table.names:
                last = table.column(column)[rows]
                prediction = np.where(np.isnan(last), prediction, last)
        alarms[name] = prediction > 0.5
    return alarms


def best_rule(alarms: Mapping[str, Alarms], fails: Floats, among: Iterable[str] | None = None) -> str:
    """Find the rule with the highest F1, of all or of some, which a model has to beat.

    >>> best_rule({"never": np.array([False, False]), "always": np.array([True, True])}, np.ones(2))
    'always'
    """
    return max(alarms if among is None else among, key=lambda name: f1(fails, alarms[name]))


def available_rules(features: Iterable[str]) -> tuple[str, ...]:
    """List the rules that a model with these features could follow; the majority needs none.

    >>> available_rules(["cpus", "user_last"])
    ('majority', 'last_user')
    """
    available = {*features}
    return tuple(name for name, columns in RULES.items() if available.issuperset(columns))
