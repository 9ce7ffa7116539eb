"""Live jobs assessed as they come, and again whenever what is known of them has changed.

Most of what is not known at a job's submit is the fate of jobs that are still in flight. So a job is assessed
when it is first seen, when a job of the same user with the same request ends while it waits, when failures
burst over the whole cluster, and at its start. Of an array that waits, one task speaks for all.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from forewarn.assess.assessment import Assessment
from forewarn.assess.assessor import Assessor
from forewarn.assess.champions import Champions
from forewarn.features.present import Present
from forewarn.job.columns import to_records
from forewarn.job.record import Job
from forewarn.learn.serving import Serving
from forewarn.operate.predict import keep_predictions, policy_of
from forewarn.operate.upkeep import Happened, Key, Upkeep
from forewarn.store.base import Store

MOST = 1000  # assessments a round; the newest jobs first
BURST_JOBS, BURST_USERS, BURST_SECONDS = 5, 3, 60  # failures of so many users within so short a time
_NO_FAILURES = ("completed", "cancelled", "preempted", "unknown")


class Watch:
    """Assesses the live jobs of one cluster, round by round."""

    def __init__(self, store: Store, serving: Serving, cluster: str) -> None:
        self._store, self._cluster = store, cluster
        self._champions = Champions(cluster, serving)
        self._policy = policy_of(self._champions)
        self._upkeep = Upkeep(store, cluster, self._policy)

    def after(self, seen: pl.DataFrame, at: int) -> list[Assessment]:
        """Bring the online state up to a round's sightings, and assess what they give reason to."""
        happened = self._upkeep.after(seen)
        due = self._due(happened)
        if not due:
            return []
        assessor = Assessor(
            self._store, Present(self._store, self._cluster, at, self._policy), self._champions
        )
        said = assessor.assess_all(list(self._jobs(due)))
        keep_predictions(self._store, said)
        return said

    def _due(self, happened: Happened) -> set[Key]:
        due = {*happened.submitted, *happened.started, *happened.related}
        if self._is_burst(happened):
            due |= set(self._upkeep.live)
        return due

    def _is_burst(self, happened: Happened) -> bool:
        """Whether many jobs of several users failed at about the same time: something is broken."""
        if len(happened.ended) < BURST_JOBS:
            return False
        ended = pl.DataFrame(
            [(job.end, job.user) for job in self._jobs(set(happened.ended), alive=False) if _failed(job)],
            schema={"end": pl.Int64, "user": pl.String},
            orient="row",
        ).drop_nulls()
        near = (
            ended.sort("end")
            .rolling("end", period=f"{BURST_SECONDS}i")
            .agg(jobs=pl.len(), users=pl.col("user").n_unique())
        )
        return near.filter((pl.col("jobs") >= BURST_JOBS) & (pl.col("users") >= BURST_USERS)).height > 0

    def _jobs(self, keys: set[Key], *, alive: bool = True) -> Iterable[Job]:
        """The jobs as the store has them, the newest first; of an array that waits, one."""
        newest = sorted(keys, key=lambda key: -key[1])
        frames = self._store.scan(
            cluster=self._cluster,
            since=min(submit for _, submit in newest),
            job_ids=[job_id for job_id, _ in newest],
        )
        jobs = [job for frame in frames for job in to_records(frame, Job) if (job.job_id, job.submit) in keys]
        if not alive:
            return jobs
        spoken: set[int] = set()
        kept = []
        for job in sorted(jobs, key=lambda job: (-job.submit, job.array_task_id or 0)):
            if job.outcome is not None:
                continue
            if job.array_job_id is not None and job.start is None:
                if job.array_job_id in spoken:
                    continue
                spoken.add(job.array_job_id)
            kept.append(job)
        return kept[:MOST]


def _failed(job: Job) -> bool:
    return job.outcome is not None and job.outcome not in _NO_FAILURES
