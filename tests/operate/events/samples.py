"""Jobs, assessments and histories for tests of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

from forewarn.assess.assessment import Assessment, Route
from forewarn.job.record import Job
from forewarn.operate.events.event import Event, EventType, assessment_event, job_event

ROUTE = Route(model=None, version=None, phase="submit", feature_set=None)


def an_assessment(job_id: str = "7", user: str = "ann", **fields: Any) -> Assessment:
    values: dict[str, Any] = {"cluster": "c", "submit": 100, "name": None, "partition": None, "made_at": 200}
    return Assessment(job_id=job_id, user=user, phase="submit", route=ROUTE, **(values | fields))


def a_job_event(job_id: str = "7", user: str = "ann", kind: EventType = EventType.JOB_PENDING) -> Event:
    job = Job(cluster="c", job_id=job_id, submit=100, start=150, end=180, user=user, account="physics")
    return job_event(kind, job)


@cache
def an_assessment_event(number: int, user: str = "ann", **fields: Any) -> Event:
    body = an_assessment(str(number), user, **fields).to_json()
    return replace(assessment_event(body, "physics"), id=str(number))


class ListedHistory:
    """A history in memory: the numbers of the assessments in a store."""

    def __init__(self, numbers: Sequence[int] = ()) -> None:
        self.numbers, self.reads = list(numbers), 0

    def newest(self) -> int:
        return max(self.numbers, default=0)

    def read(self, after: int, until: int, most: int) -> list[Event]:
        self.reads += 1
        numbers = islice((n for n in tuple(self.numbers) if after < n <= until), most)
        return [an_assessment_event(number) for number in numbers]
