"""Who answers about jobs: in a long-lived process the engine, else what is read from the store for once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from forewarn.assess.assessment import Assessment
from forewarn.assess.assessor import Assessor
from forewarn.assess.post_mortem.advice import as_requested_now
from forewarn.job.record import Job
from forewarn.operate.one_shot import cluster_asked, knowledge
from forewarn.operate.workspace import Workspace
from forewarn.progress import Working

NOW = 3600  # seconds from now within which a moment counts as now
FULL_AT_ONCE, BRIEF_AT_ONCE = 10, 1000  # jobs for which an engine is asked at a time


@contextmanager
def asking(
    workspace: Workspace,
    *,
    cluster: str | None = None,
    user: str = "",
    at: int | None = None,
    working: Working = nullcontext,
) -> Iterator[Assessor]:
    """An assessor of a cluster as of a moment; `StoreError` where nothing is known.

    Parameters
    ----------
    cluster
        None: the configured one, or the only one.
    user
        Whose own history is read on a login node, where the site's store is out of reach.
    """
    now, config = int(time.time()), workspace.config
    moment = now if at is None else at
    # Nodes and earlier jobs in memory are those of now: of another moment the store is asked.
    if workspace.lives and config.model is None and abs(moment - now) <= NOW:
        engine = workspace.engine(cluster_asked(workspace.reading(), cluster or config.cluster))
        with engine.asking(moment) as assessor:
            yield assessor
        return
    with knowledge(config, cluster=cluster, user=user, at=moment, working=working) as (_, assessor):
        yield assessor


def assess_jobs(
    workspace: Workspace,
    jobs: Iterable[Job],
    *,
    full: bool = False,
    at: int | None = None,
    working: Working = nullcontext,
) -> list[Assessment]:
    """Assess jobs in their order: in brief, or with reasons, similar jobs and advice.

    One that has ended is assessed as a new request of now.
    """
    asked = list(jobs)
    made: dict[int, Assessment] = {}
    for cluster in dict.fromkeys(job.cluster for job in asked):
        places = [place for place, job in enumerate(asked) if job.cluster == cluster]
        # Some at a time: while an engine is asked, nothing new is taken up, and others who ask wait for that.
        size = (FULL_AT_ONCE if full else BRIEF_AT_ONCE) if workspace.lives else len(places)
        for some in (places[begin : begin + size] for begin in range(0, len(places), size)):
            with asking(workspace, cluster=cluster, at=at, working=working) as assessor:
                made |= zip(some, _assessed(assessor, [asked[place] for place in some], full), strict=True)
    return [made[place] for place in range(len(asked))]


def _assessed(assessor: Assessor, jobs: Sequence[Job], full: bool) -> list[Assessment]:
    new = [job if job.outcome is None else as_requested_now(job, assessor.at) for job in jobs]
    found = [assessor.assess(job) for job in new] if full else assessor.assess_all(new)
    # Under its own name, so that who asked knows which is which.
    return [
        one if one.job_id == job.job_id else replace(one, job_id=job.job_id, submit=job.submit)
        for one, job in zip(found, jobs, strict=True)
    ]
