"""How many of a node's jobs would have failed on any other node.

A job's chance is that of the jobs it stands or falls with: those of the same user, name and day that ran
elsewhere, then the user's of that name, the user's, the cluster's. What is not known widens the chance
instead of being taken for zero: the count of failures of a cell (same user, name, day) on a node is
beta-binomial. How much jobs of a cell have in common is fitted to the cluster itself, whose nodes are mostly
healthy. So a user who always fails and always on one node makes no node sick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST = 10  # jobs of a cell on one node that are counted: more say the same again
_BACKING = 2.0  # cells that the next wider rate counts for
_ALIKE = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # weight of the wider rate, in jobs
_ELSEWHERE = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)  # weight of a job of the same cell on another node
_LEAST = 1 / 3  # of the cluster's rate: below that nobody's chance is put, however well they fared
_RAREST = 0.002
_FITTED = 15_000  # cells on nodes that are enough to fit the two weights


@dataclass(frozen=True, slots=True)
class ExpectedFailures:
    """For each cell and node the two parameters of the chance that one of its jobs there fails."""

    table: pl.DataFrame  # cell, node, alpha, beta
    alike: float
    elsewhere: float


def expect(runs: pl.DataFrame, failed: str) -> ExpectedFailures:
    """Fit to runs; `failed` names the column that says which failed."""
    rates = _rates(runs, failed)
    n, f = thinned(rates["n"].to_numpy(), rates["f"].to_numpy())
    everywhere = float(rates["everywhere"][0])
    rate = rates["rate"].to_numpy().clip(max(_RAREST, _LEAST * everywhere), 1 - _RAREST)
    there, broke = rates["n_elsewhere"].to_numpy(), rates["f_elsewhere"].to_numpy()
    some = np.s_[:: 1 + len(n) // _FITTED]
    best, found = -np.inf, (_ALIKE[0], _ELSEWHERE[0])
    for alike in _ALIKE:
        for elsewhere in _ELSEWHERE:
            a = rate * alike + broke * elsewhere
            b = (1 - rate) * alike + (there - broke) * elsewhere
            likely = float(np.log(chance(n[some], f[some], a[some], b[some])).sum())
            if likely > best:
                best, found = likely, (alike, elsewhere)
    alike, elsewhere = found
    table = rates.select(
        "cell",
        "node",
        alpha=pl.Series(rate * alike + broke * elsewhere),
        beta=pl.Series((1 - rate) * alike + (there - broke) * elsewhere),
    )
    return ExpectedFailures(table, alike, elsewhere)


def thinned(n: NDArray[Any], f: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """At most `MOST` jobs of each cell, as many of them failed as in all, rounded down."""
    kept = np.minimum(n, MOST).astype(np.int64)
    return kept, (f * kept // np.maximum(n, 1)).astype(np.int64)


def chance(n: NDArray[np.int64], f: NDArray[np.int64], a: Floats, b: Floats) -> Floats:
    """Of exactly f failures among n jobs: beta-binomial, by its product form as n is small.

    >>> float(chance(np.array([2]), np.array([1]), np.array([1.0]), np.array([1.0]))[0])
    0.3333333333333333
    """
    made = np.ones(len(n))
    for i in range(MOST):
        made = np.where(i < f, made * (a + i) * (n - i) / (i + 1), made)
        made = np.where(i < n - f, made * (b + i), made)
        made = np.where(i < n, made / (a + b + i), made)
    return made


def _rates(runs: pl.DataFrame, failed: str) -> pl.DataFrame:
    """For each cell and node: its jobs there, the cell's elsewhere, and the wider rate without both."""
    y = pl.col(failed).cast(pl.Float64)
    here = runs.group_by("user", "work", "cell", "node").agg(n=pl.len(), f=y.sum())
    cells = runs.group_by("user", "work", "cell").agg(
        jobs=pl.col("share").sum(), fails=(pl.col("share") * y).sum()
    )
    everywhere = (cells["fails"] / cells["jobs"]).mean()
    table = here.join(cells, on=["user", "work", "cell"]).with_columns(
        n_elsewhere=(pl.col("jobs") - pl.col("n")).clip(0),
        f_elsewhere=(pl.col("fails") - pl.col("f")).clip(0),
    )
    table = table.with_columns(f_elsewhere=pl.min_horizontal("f_elsewhere", "n_elsewhere"))
    # Cells count alike, whatever their size: an array of a thousand jobs is one piece of evidence.
    whole = pl.col("fails") / pl.col("jobs")
    there = pl.col("n_elsewhere") > 0.5
    rest = pl.when(there).then(pl.col("f_elsewhere") / pl.col("n_elsewhere")).otherwise(0.0)
    table = table.with_columns(_rest=rest, _there=there.cast(pl.Float64), _whole=whole)
    rate = pl.lit(everywhere)
    for level in (["user"], ["work"]):
        total = cells.group_by(level).agg(_sum=whole.sum(), _count=pl.len().cast(pl.Float64))
        own = table.group_by([*level, "node"]).agg(
            _lost=(pl.col("_whole") - pl.col("_rest")).sum(), _gone=(1 - pl.col("_there")).sum()
        )
        # The level's rate with this node's jobs out of every cell, and this cell out altogether.
        table = table.join(total, on=level).join(own, on=[*level, "node"])
        summed = pl.col("_sum") - pl.col("_lost") - pl.col("_rest")
        count = (pl.col("_count") - pl.col("_gone") - pl.col("_there")).clip(0)
        rate = (_BACKING * rate + summed.clip(0)) / (_BACKING + count)
        table = table.with_columns(rate=rate).drop("_sum", "_count", "_lost", "_gone")
        rate = pl.col("rate")
    return table.with_columns(everywhere=pl.lit(everywhere)).sort("node", "cell")
