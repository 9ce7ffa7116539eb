"""Assessments, jobs and nodes that deserve notices."""

from __future__ import annotations

from typing import Any

from forewarn.assess.assessment import (
    Advice,
    Assessment,
    CauseOfFailure,
    Change,
    Failure,
    Route,
    Verdict,
)
from forewarn.assess.codes import SummaryCode
from forewarn.assess.node_health.records import Health, NodeEvidence, NodeHealth
from forewarn.evidence import Statement
from forewarn.job.record import Job

NOON = 1_800_014_400  # 2027-01-15 12:00 UTC
DAY = 86400


def warning(
    job_id: str = "100", *, user: str = "ann", hours: float = 10.0, risk: float = 0.7, **more: Any
) -> Assessment:
    """A job that is likely to fail."""
    values: dict[str, Any] = {
        "cluster": "alps",
        "job_id": job_id,
        "submit": NOON - 600,
        "user": user,
        "name": f"solve{job_id}x",
        "partition": "main",
        "made_at": NOON,
        "phase": "submit",
        "state": "PENDING",
        "verdict": Verdict.LIKELY_TO_FAIL,
        "summary": Statement(
            SummaryCode.LIKELY_TO_FAIL,
            {
                "probability": risk,
                "base_rate": 0.1,
                "cause": "timeout",
                "hours_at_risk": hours,
                "problems": 0,
            },
        ),
        "failure": Failure(
            probability=risk,
            threshold=0.5,
            warns=True,
            base_rate=0.1,
            rests_on=900,
            causes=(CauseOfFailure(outcome="timeout", kind="limit", probability=risk),),
        ),
        "hours_at_risk": hours,
        "route": Route(model="alps.submit.generic", version=1, phase="submit", feature_set="generic"),
    }
    return Assessment(**values | more)


def advice() -> Advice:
    return Advice(
        steps=(),
        because=(),
        changes=(Change(option="time", before="01:00:00", after="04:00:00"),),
        risk_before=0.7,
        risk_after=0.2,
        command="scontrol update JobId=100 TimeLimit=04:00:00",
    )


def ended(
    job_id: str = "100",
    outcome: str = "out_of_memory",
    *,
    user: str = "ann",
    hours: float = 10.0,
    **more: Any,
) -> Job:
    """A job that ended after some hours on one node."""
    values: dict[str, Any] = {
        "cluster": "alps",
        "job_id": job_id,
        "submit": NOON - 600,
        "user": user,
        "name": f"solve{job_id}x",
        "partition": "main",
        "state": outcome.upper(),
        "outcome": outcome,
        "start": NOON,
        "end": NOON + round(3600 * hours),
        "nodes_given": 1,
        "nodes_asked": 1,
        "time_limit": 864000,
        "memory_asked": 4 << 30,
        "memory_per": "node",
    }
    return Job(**values | more)


def node(name: str = "n1", health: Health = Health.SICK, *, in_service: bool = True) -> NodeHealth:
    """A node; by default one that has become sick."""
    why = NodeEvidence(what="8 of 9 jobs failed there, 0.4 expected", health=health, source="jobs")
    return NodeHealth(
        cluster="alps",
        node=name,
        health=health,
        in_service=in_service,
        evidence=(why,) if health is Health.SICK else (),
        state="IDLE" if in_service else "DOWN",
    )
