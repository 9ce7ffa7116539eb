"""Live jobs assessed as they come, and again whenever what is known of them has changed.

Most of what is not known at a job's submit is the fate of jobs that are still in flight. So a job is assessed
when it is first seen, when a job of the same user with the same request ends while it waits (the newest speak
for the others), when failures burst over the whole cluster, and at its start. Of an array that waits, one
task speaks for all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import polars as pl

from forewarn.assess.assessment import Assessment
from forewarn.assess.assessor import Assessor
from forewarn.job.columns import to_records
from forewarn.job.outcomes import FailurePolicy
from forewarn.job.record import Job
from forewarn.operate.collector import RoundAssessments
from forewarn.operate.engine import Engine
from forewarn.operate.online_state import Key, StateChanges, newest_first
from forewarn.operate.predict import keep_assessments
from forewarn.store.base import Store

MOST = 1000  # assessments a round: what started first, then what is new, then what is known better
WHOLE = 50  # of those that are warned of, which are assessed as a whole
BURST_JOBS, BURST_USERS, BURST_SECONDS = 5, 3, 60  # failures of so many users within so short a time
REMEMBERED = 7 * 86400  # seconds for which an assessment is not made again only because nobody knows of it


class LiveAssessment:
    """Assesses the live jobs of one cluster, round by round, by an engine that it lets follow the store."""

    def __init__(self, store: Store, engine: Engine, *, keeps: bool = True) -> None:
        """`keeps` has what is said kept in the store."""
        self._store, self._cluster, self._engine, self._keeps = store, engine.cluster, engine, keeps

    def after(self, at: int) -> RoundAssessments:
        """Let the engine take up what is new, and assess what that gives reason to."""
        happened = self._engine.follow(at)
        due = self._due(happened, self._engine.waiting, self._engine.policy, at)
        if not due:
            return RoundAssessments()
        jobs = [job for job in self._jobs(due) if job.outcome is None]
        with self._engine.asking(at) as assessor:
            said = _each(assessor, jobs)
        if self._keeps:
            keep_assessments(self._store, said.assessments)
        return said

    def _due(
        self, happened: StateChanges, waiting: Iterable[Key], policy: FailurePolicy, at: int
    ) -> list[Key]:
        """Whom to assess, in this order."""
        submitted = self._never_assessed(happened.submitted, at) if happened.anew else happened.submitted
        started = sorted(happened.started, key=newest_first)
        waits = [*sorted(submitted, key=newest_first), *sorted(happened.related, key=newest_first)]
        if self._is_burst(happened, policy):
            waits += sorted(waiting, key=newest_first)
        speakers: dict[Key, Key] = {}
        for job_id, submit in waits:
            speakers.setdefault((_array(job_id), submit), (job_id, submit))
        return list(dict.fromkeys([*started, *speakers.values()]))[:MOST]

    def _never_assessed(self, keys: list[Key], at: int) -> list[Key]:
        said = self._store.assessments(
            cluster=self._cluster, since=at - REMEMBERED, columns=["job_id", "submit"]
        )
        known = {(_array(job_id), submit) for job_id, submit in said.iter_rows()}
        return [(job_id, submit) for job_id, submit in keys if (_array(job_id), submit) not in known]

    def _is_burst(self, happened: StateChanges, policy: FailurePolicy) -> bool:
        """Whether many jobs of several users failed at about the same time: something is broken."""
        if len(happened.ended) < BURST_JOBS:
            return False
        ended = pl.DataFrame(
            [(job.end, job.user) for job in self._jobs(happened.ended) if policy.failed(job)],
            schema={"end": pl.Int64, "user": pl.String},
            orient="row",
        ).drop_nulls()
        near = (
            ended.sort("end")
            .rolling("end", period=f"{BURST_SECONDS}i")
            .agg(jobs=pl.len(), users=pl.col("user").n_unique())
        )
        return near.filter((pl.col("jobs") >= BURST_JOBS) & (pl.col("users") >= BURST_USERS)).height > 0

    def _jobs(self, keys: Collection[Key]) -> list[Job]:
        """The jobs as the store has them."""
        frames = self._store.scan(
            cluster=self._cluster,
            since=min(submit for _, submit in keys),
            job_ids=[job_id for job_id, _ in keys],
        )
        wanted = set(keys)
        return [
            job for frame in frames for job in to_records(frame, Job) if (job.job_id, job.submit) in wanted
        ]


def _each(assessor: Assessor, jobs: list[Job]) -> RoundAssessments:
    """What is said of each, of those that are warned of as a whole; without one where that goes wrong."""
    try:
        return RoundAssessments(_with_reasons(assessor, jobs, assessor.assess_all(jobs)))
    except Exception:
        made: list[Assessment] = []
        troubles: list[str] = []
        for job in jobs:
            try:
                made += assessor.assess_all([job])
            except Exception as error:
                troubles.append(f"job {job.job_id}: {type(error).__name__}: {error}")
        return RoundAssessments(made, troubles)


def _with_reasons(assessor: Assessor, jobs: list[Job], brief: list[Assessment]) -> list[Assessment]:
    """The assessments, the worst warnings with reasons, similar jobs and advice: somebody will ask why."""
    warned = [place for place, one in enumerate(brief) if one.failure and one.failure.warns]
    worst = sorted(warned, key=lambda place: -(brief[place].hours_at_risk or 0.0))[:WHOLE]
    whole = {place: assessor.assess(jobs[place]) for place in worst}
    return [whole.get(place, one) for place, one in enumerate(brief)]


def _array(job_id: str) -> str:
    """The array of a task; any other job is its own."""
    return job_id.partition("_")[0]
