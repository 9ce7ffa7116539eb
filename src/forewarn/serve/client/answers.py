"""The types of answers that are plain JSON; the others are the library's own (`Assessment`, `NodeHealth` …).

Fields may be added within a version of the service, so a program should ignore those that it does not know.
"""

from __future__ import annotations

from typing import Any, TypedDict

JsonObject = dict[str, Any]


class ShortAssessment(TypedDict):
    """The newest assessment of a listed job, in short."""

    made_at: int
    phase: str
    model: str | None
    probability: float | None
    threshold: float | None
    verdict: str | None
    hours_at_risk: float | None
    cause: str | None
    warns: bool | None


class JobRow(TypedDict):
    """A listed job: the main fields of its record, and its newest assessment. Times are Unix seconds."""

    cluster: str
    job_id: str
    submit: int
    name: str | None
    user: str | None
    account: str | None
    partition: str | None
    state: str | None
    outcome: str | None
    start: int | None
    end: int | None
    time_limit: int | None
    nodes_asked: int | None
    cpus_asked: int | None
    memory_asked: int | None
    nodes: str | None
    pending_tasks: int | None  # of the array for which this task stands
    assessment: ShortAssessment | None


class JobsAnswer(TypedDict):
    """A page of jobs; `next` is the cursor of the following one."""

    jobs: list[JobRow]
    total: int
    next: str | None
    order: str
    descending: bool


class JobAnswer(TypedDict):
    """All that is stored about one job."""

    job: JsonObject
    known_at: int | None
    observations: list[JsonObject]
    assessments: list[ShortAssessment]
    newest_assessment: JsonObject | None
    outcome: str | None
    prediction: JsonObject | None
    other_submits: list[int]


class SubmitAnswer(TypedDict):
    """A job that was submitted, perhaps again."""

    cluster: str
    job_id: str
    resubmits: str | None
    changes: list[dict[str, str]]


class CancelAnswer(TypedDict):
    """A job that was cancelled."""

    cluster: str
    job_id: str
    cancelled: bool


class ExcludeAnswer(TypedDict):
    """The sick nodes, and the option of sbatch that avoids them."""

    cluster: str
    at: int
    nodes: list[str]
    option: str | None


class LivenessAnswer(TypedDict):
    """That the process lives."""

    status: str
    version: str
    started_at: float


class ReadinessAnswer(TypedDict):
    """Whether requests can be answered now, and which part cannot."""

    ready: bool
    parts: dict[str, JsonObject]


class NoticesAnswer(TypedDict):
    """Notices, newest first, and the measured precision of each rule."""

    notices: list[JsonObject]
    precision: list[JsonObject]
