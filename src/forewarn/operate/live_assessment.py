"""Assess live jobs after each round of the collector: new ones, and those of which more is known now.

What is missing most at a job's submit are the outcomes of jobs that still run. So a job is assessed when it
is first observed; when a job of the same user with the same request ends while it is pending (the newest
represent the others); when failures burst over the whole cluster; at its start; and when another model or
threshold answers than before (`outdated.py`). Of a pending array, one task represents all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import polars as pl

from forewarn.assess.assessment import Assessment
from forewarn.assess.assessor import Assessor
from forewarn.job.columns import to_records
from forewarn.job.outcomes import FailurePolicy
from forewarn.job.record import Job
from forewarn.operate.collector_round import JobChanges, PublishRound, RoundAssessments
from forewarn.operate.engine import Engine
from forewarn.operate.online_state import Key, StateChanges, newest_first
from forewarn.operate.outdated import REMEMBERED, OutdatedAssessments, array_of, one_per_array
from forewarn.operate.predict import save_assessments
from forewarn.store.base import Store

# Assessments in one round: jobs that started, new ones, those now known better, those out of date. The rest
# waits for the next round.
MOST = 1000
MOST_FULL = 50  # warnings in one round that are assessed in full
BURST_JOBS, BURST_USERS, BURST_SECONDS = 5, 3, 60  # a burst: so many failures of so many users in this time
MOST_PUBLISHED = 2000  # jobs of each kind whose events one round publishes


class LiveAssessment:
    """An assessor of one cluster's live jobs for a collector, with an engine that follows the store."""

    def __init__(self, store: Store, engine: Engine, publish: PublishRound | None = None) -> None:
        self._store, self._cluster, self._engine = store, engine.cluster, engine
        self._publish = publish
        self._outdated = OutdatedAssessments(store, engine)

    def assess_round(self, at: int) -> RoundAssessments:
        """Update the engine, assess the jobs for which something is new, and save the assessments."""
        changes = self._engine.follow(at)
        if changes.rebuilt:
            changes.submitted, changes.rebuilt = self._never_assessed(changes.submitted, at), False
        outdated = self._outdated.waiting(at)
        due = [*dict.fromkeys([*self._due(changes, self._engine.pending, self._engine.policy), *outdated])]
        result = RoundAssessments()
        if due:
            jobs = [job for job in self._jobs(due[:MOST]) if job.outcome is None]
            with self._engine.open_assessor(at) as assessor:
                result = _assess_each(assessor, jobs)
            save_assessments(self._store, result.assessments)
        self._outdated.wait(due[MOST:])
        if self._publish is not None:
            self._publish(self._store, self.job_changes(changes))
        return result

    def follow_models(self) -> None:
        """Use promoted models and new thresholds, while jobs are not assessed yet."""
        self._engine.follow_models()

    def job_changes(self, changes: StateChanges) -> JobChanges:
        """Read the jobs of which something is published: the newest, if there are very many.

        Of a state that was rebuilt it is not known which jobs are new: none is.
        """
        ended = sorted(changes.ended, key=newest_first)[:MOST_PUBLISHED]
        started = sorted(set(changes.started) - set(ended), key=newest_first)[:MOST_PUBLISHED]
        submitted = set() if changes.rebuilt else set(changes.submitted) - set(changes.started)
        pending = one_per_array(sorted(submitted, key=newest_first))[:MOST_PUBLISHED]
        keys = [*ended, *started, *pending]
        if not keys:
            return JobChanges()
        jobs = {(job.job_id, job.submit): job for job in self._jobs(keys)}

        def found(keys: list[Key]) -> list[Job]:
            return [jobs[key] for key in reversed(keys) if key in jobs]

        first_seen = found(pending)  # after a restart some of them run already
        running = [job for job in first_seen if job.start is not None] + found(started)
        return JobChanges(
            pending=[job for job in first_seen if job.start is None], running=running, ended=found(ended)
        )

    def _due(self, changes: StateChanges, all_pending: Iterable[Key], policy: FailurePolicy) -> list[Key]:
        """Choose the jobs to assess, the most important first."""
        submitted = changes.submitted
        started = sorted(changes.started, key=newest_first)
        pending = [*sorted(submitted, key=newest_first), *sorted(changes.related, key=newest_first)]
        if self._is_burst(changes, policy):
            pending += sorted(all_pending, key=newest_first)
        return [*started, *one_per_array(pending)]

    def _never_assessed(self, keys: list[Key], at: int) -> list[Key]:
        stored = self._store.assessments(
            cluster=self._cluster, since=at - REMEMBERED, columns=["job_id", "submit"]
        )
        assessed = {array_of(key) for key in stored.iter_rows()}
        return [key for key in keys if array_of(key) not in assessed]

    def _is_burst(self, changes: StateChanges, policy: FailurePolicy) -> bool:
        """Check whether many jobs of several users failed within a minute: the cluster may be broken."""
        if len(changes.ended) < BURST_JOBS:
            return False
        ended = pl.DataFrame(
            [(job.end, job.user) for job in self._jobs(changes.ended) if policy.failed(job)],
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
        """Read jobs from the store."""
        frames = self._store.scan(
            cluster=self._cluster,
            since=min(submit for _, submit in keys),
            job_ids=[job_id for job_id, _ in keys],
        )
        selected = set(keys)
        return [
            job for frame in frames for job in to_records(frame, Job) if (job.job_id, job.submit) in selected
        ]


def _assess_each(assessor: Assessor, jobs: list[Job]) -> RoundAssessments:
    """Assess jobs together; if that fails, one by one, so that a broken record costs only its own job."""
    try:
        return RoundAssessments(_with_reasons(assessor, jobs, assessor.assess_all(jobs)))
    except Exception:
        assessments: list[Assessment] = []
        troubles: list[str] = []
        for job in jobs:
            try:
                assessments += assessor.assess_all([job])
            except Exception as error:
                troubles.append(f"job {job.job_id}: {type(error).__name__}: {error}")
        return RoundAssessments(assessments, troubles)


def _with_reasons(assessor: Assessor, jobs: list[Job], brief: list[Assessment]) -> list[Assessment]:
    """Replace the worst warnings by full assessments, with reasons, similar jobs and advice."""
    warned = [index for index, one in enumerate(brief) if one.failure and one.failure.warns]
    worst = sorted(warned, key=lambda index: -(brief[index].hours_at_risk or 0.0))[:MOST_FULL]
    full = {index: assessor.assess(jobs[index]) for index in worst}
    return [full.get(index, one) for index, one in enumerate(brief)]
