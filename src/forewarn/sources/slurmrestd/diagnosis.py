"""The controller's answers about itself: `ping` and `diag`."""

from __future__ import annotations

from typing import Any

from forewarn.errors import SchedulerError
from forewarn.sources.slurm.record_values import RawRecord, as_number, moment, number
from forewarn.sources.slurm.scheduler import Diagnosis


def any_up(answer: Any) -> bool:
    """Check whether a controller answers: `ping` up to v0.0.38, then `pinged`, since v0.0.42 `responding`.

    >>> any_up({"pings": [{"pinged": "DOWN"}, {"responding": True}]}), any_up({"pings": [{"ping": "UP"}]})
    (True, True)
    """
    return any(
        ping.get("responding") is True or "UP" in (ping.get("ping"), ping.get("pinged"))
        for ping in answer.get("pings") or ()
    )


def read_diagnosis(answer: Any) -> Diagnosis:
    """Read an answer of `diag`; v0.0.36 counts no calls."""
    facts: RawRecord = answer.get("statistics") or {}
    at = moment("req_time")(facts)
    if at is None:
        raise SchedulerError("diag: no time in the answer: it is not slurmctld's")
    return Diagnosis(
        at=at,
        since=moment("req_time_start")(facts),
        jobs_pending=number("jobs_pending")(facts),
        jobs_running=number("jobs_running")(facts),
        threads=number("server_thread_count")(facts),
        database_queue=number("dbd_agent_queue_size")(facts),
        calls={
            str(call["message_type"]): (
                int(as_number(call["count"]) or 0),
                (as_number(call["total_time"]) or 0) / 1e6,
            )
            for call in facts.get("rpcs_by_message_type") or ()
        },
    )
