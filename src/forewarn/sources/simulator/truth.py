"""The hidden truth beside the jobs: why each ended, and what would have prevented it.

It never stands among the observations: no feature can see it. `replay` answers from it what would have
become of a job with another request, by the same rule that ended it in the first place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from forewarn.job.outcomes import Outcome
from forewarn.sources.simulator.columns import known, names_of
from forewarn.sources.simulator.kernel import endings
from forewarn.sources.simulator.kernel.layout import NO_EXIT_BUT_NODE_FAIL, Records
from forewarn.sources.simulator.scenario import Scenario
from forewarn.sources.simulator.world import node_names

MIB = 1 << 20
_OUTCOMES = {
    "none": Outcome.COMPLETED,
    "memory": Outcome.OUT_OF_MEMORY,
    "time": Outcome.TIMEOUT,
    "script": Outcome.FAILED,
    "input": Outcome.FAILED,
    "node": Outcome.FAILED,
    "file_system": Outcome.FAILED,
    "user_cancel": Outcome.CANCELLED,
    "preempted": Outcome.PREEMPTED,
}
TRUTH_SCHEMA: Mapping[str, pl.DataType] = MappingProxyType(
    {
        "cluster": pl.String(),
        "job_id": pl.String(),
        "submit": pl.Int64(),
        "cause": pl.String(),  # none, memory, time, script, input, node, file_system, user_cancel, preempted
        "started": pl.Boolean(),
        # what it takes
        "need_memory": pl.Int64(),  # bytes on each node
        "need_time": pl.Int64(),  # seconds, with enough of everything
        "peak_after": pl.Int64(),  # seconds after the start: when too little memory would kill it
        "completes_if_given": pl.Boolean(),  # with enough memory and time, on healthy nodes
        "completes_elsewhere": pl.Boolean(),  # with its own request, on healthy nodes
        # what it had
        "had_memory": pl.Int64(),  # bytes on each node
        "had_cpus": pl.Int64(),  # on each node
        "had_nodes": pl.Int64(),
        "had_time": pl.Int64(),  # seconds: its time limit when it started
        "kill_delay": pl.Int64(),  # seconds by which a time limit strikes late
        # what struck or would have struck it, seconds after the start; null for never
        "bug_after": pl.Int64(),
        "bug_cause": pl.String(),
        "node_after": pl.Int64(),
        "node_lost": pl.Boolean(),
        "sick_node": pl.String(),
        "outage_after": pl.Int64(),
        "cancel_after": pl.Int64(),
        "preempt_after": pl.Int64(),
        # where it comes from
        "broken_script": pl.Int64(),  # the same for every job that carries the same mistake
        "campaign": pl.Int64(),
        "case": pl.Int64(),
    }
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ends: its outcome, the cause, and how long it ran (None: it never started)."""

    outcome: Outcome
    cause: str
    run_time: int | None


def replay(
    truth: Mapping[str, Any],
    *,
    memory: int | None = None,
    time_limit: int | None = None,
    exclude: Collection[str] = (),
) -> Ending:
    """Return how a job would have ended with other memory (bytes on each node), another time limit, or
    without some nodes. What is not given stays as it was.

    What struck the job from outside (an outage, a crash, its user's change of mind) strikes at the same
    second of its run; what would have struck later, had it run longer, nobody knows. A job that was
    cancelled while it waited is taken to have stayed cancelled.
    """
    if not truth["started"]:
        return Ending(Outcome.CANCELLED, "user_cancel", None)
    spared = truth["sick_node"] is not None and truth["sick_node"] in exclude

    def after(name: str) -> int:
        return endings.NEVER if truth[name] is None else int(truth[name])

    code, run_time = endings.first_ending(
        truth["need_time"],
        truth["had_time"] if time_limit is None else time_limit,
        truth["kill_delay"],
        truth["need_memory"],
        truth["had_memory"] if memory is None else memory,
        truth["peak_after"],
        after("bug_after"),
        endings.INPUT if truth["bug_cause"] == "input" else endings.SCRIPT,
        endings.NEVER if spared else after("node_after"),
        after("outage_after"),
        after("cancel_after"),
        after("preempt_after"),
    )
    cause = endings.CAUSES[code]
    lost = cause == "node" and truth["node_lost"]
    return Ending(Outcome.NODE_FAIL if lost else _OUTCOMES[cause], cause, run_time)


def truth_frame(scenario: Scenario, jobs: Records, job_ids: pl.Series) -> pl.DataFrame:
    """Return the truth of these jobs, one row per job."""
    started = jobs["start"] >= 0
    broken = jobs["bug_after"] >= 0
    unspoilt = started.copy()
    for name in ("bug_after", "outage_after", "cancel_after", "preempt_after"):
        unspoilt &= (jobs[name] < 0) | (jobs[name] >= jobs["need_time"])
    fits = (jobs["need_memory"] <= jobs["memory_given"]) & (
        jobs["need_time"] <= jobs["limit"] + jobs["kill_delay"]
    )
    strikes = {
        name: known(jobs[name], jobs[name] >= 0)
        for name in ("bug_after", "node_after", "outage_after", "cancel_after", "preempt_after")
    }
    struck = jobs["node_after"] >= 0
    columns: dict[str, Any] = {
        "cluster": pl.repeat(scenario.cluster.name, len(jobs), eager=True),
        "job_id": job_ids,
        "submit": jobs["submit"],
        "cause": names_of(endings.CAUSES, jobs["cause"]),
        "started": started,
        "need_memory": jobs["need_memory"] * MIB,
        "need_time": jobs["need_time"],
        "peak_after": jobs["peak_after"],
        "completes_if_given": unspoilt,
        "completes_elsewhere": unspoilt & fits,
        "had_memory": jobs["memory_given"] * MIB,
        "had_cpus": jobs["cpus_node"],
        "had_nodes": jobs["nodes"],
        "had_time": jobs["limit"],
        "kill_delay": jobs["kill_delay"],
        **strikes,
        "bug_cause": names_of(endings.CAUSES, np.where(broken, jobs["bug_cause"], -1)),
        "node_lost": known(jobs["node_exit"] == NO_EXIT_BUT_NODE_FAIL, struck),
        "sick_node": names_of(node_names(scenario), np.where(struck, jobs["sick_node"], -1)),
        "broken_script": known(jobs["mistake"], jobs["mistake"] > 0),
        "campaign": jobs["campaign"],
        "case": jobs["index"],
    }
    return pl.DataFrame(columns).select(pl.col(name).cast(dtype) for name, dtype in TRUTH_SCHEMA.items())
