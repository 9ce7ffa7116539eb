"""The usage of the same user's earlier jobs, where the features do not contain it.

The features have run times, and memory relative to the request. They have no CPU efficiency, no I/O, and no
memory where none is requested: without these columns the model of CPU efficiency was worse than the mean of
the user's last two jobs (SDSC-SP2: mean error .24 instead of .18).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.table import JobTable
from forewarn.learn.heads.usage.baselines import codes, last_two, medians
from forewarn.learn.heads.usage.quantities import Quantity, Target

Floats = NDArray[np.float64]
HISTORY = ("earlier_last_two", "earlier_median", "earlier_name_last_two", "earlier_name_median")
_REQUESTED = 0.5  # share of jobs that must request memory for the features to suffice


def needs_user_history(quantity: Quantity, table: JobTable) -> bool:
    """Check whether the features lack the usage of earlier jobs."""
    if quantity.name == "memory":
        return bool(np.isfinite(table.column("memory")).mean() < _REQUESTED)
    return quantity.name != "run_time"


def history(table: JobTable, target: Target, rows: NDArray[np.int64]) -> dict[str, Floats]:
    """Compute the columns of `HISTORY` for these jobs, each at its moment; NaN for all other rows."""
    user, name = codes(table, "user"), codes(table, "user", "label")
    columns = {}
    for column, (rule, keys) in zip(
        HISTORY, ((last_two, user), (medians, user), (last_two, name), (medians, name)), strict=True
    ):
        columns[column] = np.full(len(table.values), np.nan)
        columns[column][rows] = rule(table, target.value, keys, rows)
    return columns
