"""Tests of defaults that slurmrestd omits from partitions, learned from the flags of jobs."""

from __future__ import annotations

from typing import Any

import polars as pl

from forewarn.job.columns import complete
from forewarn.sources.base import Batch
from forewarn.sources.slurmrestd.site_defaults import SiteDefaults

MB = 1 << 20


def jobs(*rows: dict[str, Any]) -> pl.DataFrame:
    return complete(pl.DataFrame(list(rows), infer_schema_length=None))


def partitions(**columns: Any) -> Batch:
    return Batch("partition", complete(pl.DataFrame({"name": ["main", "low"], **columns}), "partition"))


def left_open(partition: str, memory: int = 100) -> dict[str, Any]:
    known = {"memory_asked": memory * MB, "memory_per": "cpu"}
    return {"partition": partition, "defaulted": "memory_asked,partition,qos", **known}


def test_jobs_tell_the_default_partition_and_memory() -> None:
    defaults = SiteDefaults()
    assert defaults.fill(partitions()).frame["is_default"].to_list() == [None, None], "nothing was seen yet"
    moved = left_open("low", 30)  # by `scontrol update`: its flag stays
    named = {"partition": "low", "memory_asked": 7 * MB, "memory_per": "node", "defaulted": None}
    defaults.learn(jobs(left_open("main"), left_open("main"), moved, named, named, named))
    filled = defaults.fill(partitions()).frame
    assert filled["is_default"].to_list() == [True, False]
    assert filled.select("memory_default", "memory_default_per").row(0) == (100 * MB, "cpu")
    defaults.learn(jobs(named))
    assert defaults.partition == "main", "an answer without such jobs takes nothing away"


def test_what_partitions_say_themselves_stays() -> None:
    defaults = SiteDefaults()
    defaults.learn(jobs(left_open("main")))
    batch = partitions(is_default=[False, True], memory_default=[5, None], memory_default_per=["node", None])
    filled = defaults.fill(batch).frame
    assert filled["is_default"].to_list() == [False, True]
    assert filled["memory_default"].to_list() == [5, None]
