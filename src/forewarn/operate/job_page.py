"""Everything that is stored about one job: record, observations, assessments over time, and how it ended."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forewarn.assess.assessment import Assessment
from forewarn.assess.post_mortem.find_job import most_informative, tasks_of
from forewarn.errors import UnknownJobError
from forewarn.job.columns import JOB_SCHEMA, to_records
from forewarn.job.json_form import job_to_json
from forewarn.job.outcomes import POLICIES
from forewarn.job.record import Job
from forewarn.operate.job_history import JobChange, job_history
from forewarn.operate.job_rows import stored_model
from forewarn.operate.visibility import EVERYTHING, Visibility
from forewarn.store.base import KNOWN_AT, Store

if TYPE_CHECKING:
    from forewarn.assess.wording.reader import Reader

_COLUMNS = (
    *("submit", "phase", "model", "made_at", "probability", "threshold", "verdict", "hours_at_risk", "cause"),
)

_NUMBER = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AssessmentSummary:
    """One assessment of a job in short."""

    made_at: int
    phase: str
    model: str | None  # None: every model abstained
    probability: float | None
    threshold: float | None
    verdict: str | None
    hours_at_risk: float | None
    cause: str | None

    @property
    def warns(self) -> bool | None:
        """Whether it was an alert; None where no model answered."""
        if self.probability is None or self.threshold is None:
            return None
        return self.probability >= self.threshold

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        values = {name: getattr(self, name) for name in _COLUMNS if name != "submit"}
        return {**values, "warns": self.warns}


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionResult:
    """The last prediction before a job ended, compared with its outcome."""

    failed: bool  # by the failure policy
    assessment: AssessmentSummary
    is_right: bool | None  # it warned and the job failed, or neither; None: no model answered

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {"failed": self.failed, "right": self.is_right, "made_at": self.assessment.made_at}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """What is stored about one job."""

    job: Job
    known_at: int | None  # when the outcome became known
    observations: tuple[JobChange, ...]
    assessments: tuple[AssessmentSummary, ...]  # oldest first
    newest: Assessment | None  # the newest that this version can read, in full
    result: PredictionResult | None  # None: not ended, outside the population, or never assessed
    other_submits: tuple[int, ...]  # of jobs with the same id in the same cluster

    def to_json(self, reader: Reader | None = None) -> dict[str, Any]:
        """Convert to JSON, with the English of the newest assessment for a reader."""
        return {
            "job": job_to_json(self.job),
            "known_at": self.known_at,
            "observations": [change.to_json() for change in self.observations],
            "assessments": [assessment.to_json() for assessment in self.assessments],
            "newest_assessment": None if self.newest is None else self.newest.to_json(reader),
            "outcome": self.job.outcome,
            "prediction": None if self.result is None else self.result.to_json(),
            "other_submits": list(self.other_submits),
        }


def job_page(
    store: Store,
    job_id: str,
    *,
    policy: str,
    cluster: str | None = None,
    submit: int | None = None,
    visible: Visibility = EVERYTHING,
) -> JobPage:
    """Read what is stored about a job; of several with this id the one submitted last.

    The number of an array stands for its most informative task, as in an explanation.
    A job that the caller may not see is as unknown as one that does not exist: `UnknownJobError`.
    """
    runs = [
        (job, known_at)
        for job, known_at in _records(store, job_id, cluster)
        if visible.sees(job.user, job.account)
    ]
    selected = [run for run in runs if submit is None or run[0].submit == submit]
    if not selected:
        raise UnknownJobError(f"no job {job_id} in the store, or it belongs to somebody else")
    newest = max((job.submit, job.cluster) for job, _ in selected)
    last = {job.job_id: (job, at) for job, at in selected if (job.submit, job.cluster) == newest}
    job, known_at = last[most_informative(job for job, _ in last.values()).job_id]
    history = job_history(store, job.job_id, (job.cluster,))
    changes = (change for change in history if change.submit == job.submit)
    assessments = _assessments(store, job)
    others = (run for run, _ in runs if (run.cluster, run.job_id) == (job.cluster, job.job_id) and run != job)
    return JobPage(
        job=job,
        known_at=known_at,
        observations=tuple(changes),
        assessments=assessments,
        newest=_newest(store, job),
        result=_result(job, assessments, policy),
        other_submits=tuple(sorted(run.submit for run in others)),
    )


def _records(store: Store, job_id: str, cluster: str | None) -> list[tuple[Job, int | None]]:
    if not job_id or not job_id.isprintable():
        return []
    columns = [*JOB_SCHEMA, KNOWN_AT]
    frames = list(store.scan(cluster=cluster, job_ids=[job_id], columns=columns))
    if not frames and _NUMBER.fullmatch(job_id):
        frames = list(store.scan(cluster=cluster, where=tasks_of(int(job_id)), columns=columns))
    return [
        (job, known_at)
        for frame in frames
        for job, known_at in zip(to_records(frame, Job), frame[KNOWN_AT].to_list(), strict=True)
    ]


def _assessments(store: Store, job: Job) -> tuple[AssessmentSummary, ...]:
    frame = store.assessments(cluster=job.cluster, job_id=job.job_id, columns=_COLUMNS)
    return tuple(
        AssessmentSummary(**{**row, "model": stored_model(row["model"])})
        for row in frame.filter(submit=job.submit).drop("submit").iter_rows(named=True)
    )


def _newest(store: Store, job: Job) -> Assessment | None:
    """Read the newest assessment whose form this version reads."""
    frame = store.assessments(cluster=job.cluster, job_id=job.job_id, columns=["submit", "body"])
    for body in reversed(frame.filter(submit=job.submit)["body"].drop_nulls().to_list()):
        with suppress(ValueError):  # of another version, or a row of before there were bodies
            return Assessment.from_json(json.loads(body))
    return None


def _result(job: Job, assessments: Sequence[AssessmentSummary], policy: str) -> PredictionResult | None:
    failed = POLICIES[policy].failed(job)
    before = [one for one in assessments if job.end is None or one.made_at <= job.end]
    if failed is None or job.outcome is None or not before:
        return None
    last = next((one for one in reversed(before) if one.warns is not None), before[-1])
    return PredictionResult(
        failed=bool(failed), assessment=last, is_right=None if last.warns is None else last.warns == failed
    )
