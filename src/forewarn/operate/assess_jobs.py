"""Assess any jobs, by an assessor of the engine or of the store.

A long-lived process asks its engine (`engine.py`); a command reads what it needs from the store, once
(`one_shot.py`). Jobs of the live Slurm are assessed by `live_jobs.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from forewarn.assess.assessment import Assessment
from forewarn.assess.assessor import Assessor
from forewarn.assess.post_mortem.advice import as_requested_now
from forewarn.job.record import Job
from forewarn.operate.one_shot import open_stored_assessor, resolve_cluster
from forewarn.operate.workspace import Workspace
from forewarn.progress import ShowActivity

PRESENT = 3600  # seconds around the current time in which the engine's memory is up to date enough
FULL_AT_ONCE, BRIEF_AT_ONCE = 10, 1000  # jobs assessed while the engine is locked


@contextmanager
def open_assessor(
    workspace: Workspace,
    *,
    cluster: str | None = None,
    user: str = "",
    at: int | None = None,
    working: ShowActivity = nullcontext,
) -> Iterator[Assessor]:
    """Open an assessor of a cluster's jobs at a moment; raise `StoreError` where there is no history.

    Parameters
    ----------
    cluster
        None: the configured one, or the only one.
    user
        Whose own history is read on a login node, where the site's store is out of reach.
    at
        None: the current time.
    """
    now, config = workspace.now(), workspace.config
    at = now if at is None else at
    # The engine holds nodes and earlier jobs of the current time: for any other moment, read the store.
    if workspace.long_lived and config.model is None and abs(at - now) <= PRESENT:
        engine = workspace.engine(resolve_cluster(workspace.reading(), cluster or config.cluster))
        with engine.open_assessor(at) as assessor:
            yield assessor
        return
    with open_stored_assessor(config, cluster=cluster, user=user, at=at, working=working) as (_, assessor):
        yield assessor


def assess_jobs(
    workspace: Workspace,
    jobs: Iterable[Job],
    *,
    full: bool = False,
    prediction_only: bool = False,
    at: int | None = None,
    working: ShowActivity = nullcontext,
) -> list[Assessment]:
    """Assess jobs in the given order: in brief, or in full with reasons, similar jobs and advice.

    `prediction_only` leaves CPU efficiency, I/O rate and the profile out of the brief form.
    A job that has ended is assessed as if it were submitted again now.
    """
    jobs = list(jobs)
    assessments: dict[int, Assessment] = {}
    for cluster in dict.fromkeys(job.cluster for job in jobs):
        indices = [index for index, job in enumerate(jobs) if job.cluster == cluster]
        # In chunks: while an assessor is open the engine cannot update, and other callers wait for that.
        size = (FULL_AT_ONCE if full else BRIEF_AT_ONCE) if workspace.long_lived else len(indices)
        for chunk in (indices[begin : begin + size] for begin in range(0, len(indices), size)):
            with open_assessor(workspace, cluster=cluster, at=at, working=working) as assessor:
                results = _assess_chunk(assessor, [jobs[index] for index in chunk], full, prediction_only)
                assessments |= zip(chunk, results, strict=True)
    return [assessments[index] for index in range(len(jobs))]


def _assess_chunk(
    assessor: Assessor, jobs: Sequence[Job], full: bool, prediction_only: bool
) -> list[Assessment]:
    requests = [job if job.outcome is None else as_requested_now(job, assessor.at) for job in jobs]
    assessments = (
        [assessor.assess(job) for job in requests]
        if full
        else assessor.assess_all(requests, prediction_only=prediction_only)
    )
    # A resubmitted job gets its own id back, so that the caller can match answers to jobs.
    return [
        one if one.job_id == (job.job_id or None) else replace(one, job_id=job.job_id, submit=job.submit)
        for one, job in zip(assessments, jobs, strict=True)
    ]
