"""Expected failures: how many of a node's jobs would have failed on any other node.

The failure probability of a job is that of related jobs: those of the same user, name and day on other nodes,
then the user's jobs of that name, all of the user's jobs, and the cluster's. Missing knowledge widens the
distribution instead of counting as zero: the number of failures of a cell (same user, name and day) on a node
is beta-binomial. How strongly jobs of a cell are correlated is fitted to the cluster, whose nodes are mostly
healthy. So a user whose jobs always fail, and always on one node, makes no node sick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST = 10  # jobs of a cell on one node that are counted: more add no information
_PRIOR_CELLS = 2.0  # weight of the next wider rate, in cells
_PRIOR_JOBS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # weight of the wider rate, in jobs
_ELSEWHERE = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)  # weight of a job of the same cell on another node
_LEAST = 1 / 3  # smallest rate of any work, as a share of the cluster's rate
_RAREST = 0.002  # smallest rate of any work
_FITTED = 15_000  # cells on nodes that suffice to fit the two weights


@dataclass(frozen=True, slots=True)
class ExpectedFailures:
    """The beta distribution of the failure probability of each cell on each node."""

    table: pl.DataFrame  # cell, node, alpha, beta
    prior_jobs: float
    elsewhere: float


def expect(runs: pl.DataFrame, failed: str) -> ExpectedFailures:
    """Fit the expected failures to runs; `failed` names the boolean column of failures."""
    rates = _rates(runs, failed)
    n, f = thinned(rates["n"].to_numpy(), rates["f"].to_numpy())
    everywhere = float(rates["everywhere"][0])
    rate = rates["rate"].to_numpy().clip(max(_RAREST, _LEAST * everywhere), 1 - _RAREST)
    n_elsewhere, f_elsewhere = rates["n_elsewhere"].to_numpy(), rates["f_elsewhere"].to_numpy()
    sample = np.s_[:: 1 + len(n) // _FITTED]
    best, weights = -np.inf, (_PRIOR_JOBS[0], _ELSEWHERE[0])
    for prior_jobs in _PRIOR_JOBS:
        for elsewhere in _ELSEWHERE:
            a = rate * prior_jobs + f_elsewhere * elsewhere
            b = (1 - rate) * prior_jobs + (n_elsewhere - f_elsewhere) * elsewhere
            likelihood = float(np.log(probability(n[sample], f[sample], a[sample], b[sample])).sum())
            if likelihood > best:
                best, weights = likelihood, (prior_jobs, elsewhere)
    prior_jobs, elsewhere = weights
    table = rates.select(
        "cell",
        "node",
        alpha=pl.Series(rate * prior_jobs + f_elsewhere * elsewhere),
        beta=pl.Series((1 - rate) * prior_jobs + (n_elsewhere - f_elsewhere) * elsewhere),
    )
    return ExpectedFailures(table, prior_jobs, elsewhere)


def thinned(n: NDArray[Any], f: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Reduce each cell to at most `MOST` jobs with the same share of failures, rounded down."""
    counted = np.minimum(n, MOST).astype(np.int64)
    return counted, (f * counted // np.maximum(n, 1)).astype(np.int64)


def probability(n: NDArray[np.int64], f: NDArray[np.int64], a: Floats, b: Floats) -> Floats:
    """Compute the beta-binomial probability of exactly f failures among n jobs, by its product form.

    >>> float(probability(np.array([2]), np.array([1]), np.array([1.0]), np.array([1.0]))[0])
    0.3333333333333333
    """
    product = np.ones(len(n))
    for i in range(MOST):
        product = np.where(i < f, product * (a + i) * (n - i) / (i + 1), product)
        product = np.where(i < n - f, product * (b + i), product)
        product = np.where(i < n, product / (a + b + i), product)
    return product


def _rates(runs: pl.DataFrame, failed: str) -> pl.DataFrame:
    """Count for each cell and node the jobs there and elsewhere, and the wider rate without both."""
    y = pl.col(failed).cast(pl.Float64)
    on_node = runs.group_by("user", "work", "cell", "node").agg(n=pl.len(), f=y.sum())
    cells = runs.group_by("user", "work", "cell").agg(
        jobs=pl.col("share").sum(), fails=(pl.col("share") * y).sum()
    )
    everywhere = (cells["fails"] / cells["jobs"]).mean()
    table = on_node.join(cells, on=["user", "work", "cell"]).with_columns(
        n_elsewhere=(pl.col("jobs") - pl.col("n")).clip(0),
        f_elsewhere=(pl.col("fails") - pl.col("f")).clip(0),
    )
    table = table.with_columns(f_elsewhere=pl.min_horizontal("f_elsewhere", "n_elsewhere"))
    # Cells have equal weight whatever their size: an array of a thousand jobs is one piece of evidence.
    whole = pl.col("fails") / pl.col("jobs")
    is_elsewhere = pl.col("n_elsewhere") > 0.5
    rest = pl.when(is_elsewhere).then(pl.col("f_elsewhere") / pl.col("n_elsewhere")).otherwise(0.0)
    table = table.with_columns(_rest=rest, _elsewhere=is_elsewhere.cast(pl.Float64), _whole=whole)
    rate = pl.lit(everywhere)
    for level in (["user"], ["work"]):
        total = cells.group_by(level).agg(_sum=whole.sum(), _count=pl.len().cast(pl.Float64))
        own = table.group_by([*level, "node"]).agg(
            _lost=(pl.col("_whole") - pl.col("_rest")).sum(), _gone=(1 - pl.col("_elsewhere")).sum()
        )
        # The rate of the level without this node's jobs in any cell, and without this cell.
        table = table.join(total, on=level).join(own, on=[*level, "node"])
        summed = pl.col("_sum") - pl.col("_lost") - pl.col("_rest")
        count = (pl.col("_count") - pl.col("_gone") - pl.col("_elsewhere")).clip(0)
        rate = (_PRIOR_CELLS * rate + summed.clip(0)) / (_PRIOR_CELLS + count)
        table = table.with_columns(rate=rate).drop("_sum", "_count", "_lost", "_gone")
        rate = pl.col("rate")
    return table.with_columns(everywhere=pl.lit(everywhere)).sort("node", "cell")
