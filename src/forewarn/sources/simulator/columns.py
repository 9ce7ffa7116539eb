"""Columns of text computed from columns of numbers, once for each distinct value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.sources.simulator.scenario import Scenario
from forewarn.sources.simulator.world import width

Numbers = NDArray[Any]  # whole numbers, or truth values

FEW = 1000  # rows that a dictionary maps sooner than polars joins a table


def each(text: Callable[..., str | None], *numbers: Numbers) -> pl.Series:
    """Compute `text` of the numbers in each row, called once for each distinct row.

    >>> each(lambda a, b: f"{a}.{b}", np.array([1, 2, 1]), np.array([5, 5, 5])).to_list()
    ['1.5', '2.5', '1.5']
    """
    if len(numbers[0]) <= FEW:
        rows = list(zip(*(column.tolist() for column in numbers), strict=True))
        by_row = {row: text(*row) for row in dict.fromkeys(rows)}
        return pl.Series("text", [by_row[row] for row in rows], dtype=pl.String)
    frame = pl.DataFrame({str(i): column for i, column in enumerate(numbers)})
    names = frame.columns
    different = frame.unique(maintain_order=True)
    texts = pl.Series("text", [text(*row) for row in different.iter_rows()], dtype=pl.String)
    return frame.join(different.with_columns(texts), on=names, how="left", maintain_order="left")["text"]


def names_of(names: Sequence[str], numbers: Numbers) -> pl.Series:
    """Return the name at each number; null for -1."""
    index = pl.Series(np.where(numbers < 0, len(names), numbers), dtype=pl.UInt32)
    return pl.Series([*names, None], dtype=pl.String).gather(index)


def known(values: NDArray[Any], when: NDArray[np.bool_]) -> pl.Series:
    """Return the values where they are known, null elsewhere."""
    column = pl.Series(values)
    return column if when.all() else pl.select(pl.when(pl.Series(when)).then(column)).to_series()


def node_lists(scenario: Scenario, placed: Numbers, counts: Numbers) -> pl.Series:
    """Write the nodes of each job as Slurm does; null if it has none. All of them are of one group."""
    groups = scenario.nodes
    first = np.cumsum([0, *(g.count for g in groups)])
    rows = np.repeat(np.arange(len(counts)), counts)
    taken = np.arange(placed.shape[1]) < counts[:, None]
    nodes = np.sort(np.where(taken, placed, np.iinfo(np.int64).max), axis=1)[taken]
    group = np.searchsorted(first, nodes, side="right") - 1
    number = nodes - first[group] + 1
    # A run of neighbours begins where the job is another or the node is not the next one.
    begins = np.ones(len(nodes), bool)
    begins[1:] = (rows[1:] != rows[:-1]) | (nodes[1:] != nodes[:-1] + 1)
    ends = np.roll(begins, -1) if len(nodes) else begins
    digits = np.array([width(g.count) for g in groups])[group[begins]]
    runs = pl.DataFrame(
        {"row": rows[begins], "group": group[begins], "low": number[begins], "high": number[ends]}
    ).with_columns(
        text=each(
            lambda low, high, d: f"{low:0{d}}" if low == high else f"{low:0{d}}-{high:0{d}}",
            number[begins],
            number[ends],
            digits,
        )
    )
    lists = runs.group_by("row", maintain_order=True).agg(
        pl.col("group").first(),
        pl.col("text").str.join(","),
        many=(pl.col("high") > pl.col("low")).any() | (pl.len() > 1),
    )
    prefix = names_of([g.prefix for g in groups], lists["group"].to_numpy())
    text = pl.when("many").then(pl.concat_str(prefix, pl.lit("["), "text", pl.lit("]")))
    named = lists.select("row", nodes=text.otherwise(pl.concat_str(prefix, "text")))
    every = pl.DataFrame({"row": np.arange(len(counts))})
    return every.join(named, on="row", how="left", maintain_order="left")["nodes"]
