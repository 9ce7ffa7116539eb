"""What the same user's earlier jobs used, where the features do not tell it.

The kernel keeps run times, and memory beside what was asked. It keeps no CPU efficiency, no I/O, and nothing
of memory where none is asked: without these columns the model of CPU efficiency was worse than the mean of
the user's last two jobs (SDSC-SP2: off by .24 against .18 on average).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.table import JobTable
from forewarn.learn.heads.usage.baselines import codes, last_two, medians
from forewarn.learn.heads.usage.quantities import Quantity, Target

Floats = NDArray[np.float64]
HISTORY = ("earlier_last_two", "earlier_median", "earlier_name_last_two", "earlier_name_median")
_ASKED = 0.5  # share of jobs that must ask for memory for the kernel's history to be enough


def remembers(quantity: Quantity, table: JobTable) -> bool:
    """Whether the features tell too little of what earlier jobs used."""
    if quantity.name == "memory":
        return bool(np.isfinite(table.column("memory")).mean() < _ASKED)
    return quantity.name != "run_time"


def history(table: JobTable, target: Target, rows: NDArray[np.int64]) -> dict[str, Floats]:
    """For these jobs, as of their moments; NaN for all others of the table."""
    user, name = codes(table, "user"), codes(table, "user", "label")
    made = {}
    for label, (rule, keys) in zip(
        HISTORY, ((last_two, user), (medians, user), (last_two, name), (medians, name)), strict=True
    ):
        made[label] = np.full(len(table.values), np.nan)
        made[label][rows] = rule(table, target.value, keys, rows)
    return made
