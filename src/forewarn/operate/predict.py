"""Fetch pending and running jobs from Slurm, assess them now, and save jobs and assessments in the store.

The features come from the online state, which is first brought up to date unless a collector does that. Jobs
that the store does not have yet are written before they are assessed. Assessments are saved, to be compared
with the outcomes later. If the store is read-only, a private copy is used (`open_live_store`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace

import polars as pl

from forewarn.assess.assessment import Assessment, Route, Verdict
from forewarn.assess.assessor import Assessor
from forewarn.assess.champions import Champions
from forewarn.assess.codes import SummaryCode
from forewarn.config import Config
from forewarn.errors import StoreError
from forewarn.evidence import Statement
from forewarn.features.snapshot import bring_up_to_date, is_collected, is_maintained
from forewarn.formatting import count
from forewarn.job.arrays import split_arrays
from forewarn.job.columns import to_records
from forewarn.job.record import Job
from forewarn.learn.registry.serving import Serving
from forewarn.operate.live_result import unknown_job
from forewarn.operate.observe import write_batches
from forewarn.operate.one_shot import stored_assessor
from forewarn.progress import ShowActivity
from forewarn.sources.base import Batch
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.store.base import ASSESSMENT_SCHEMA, Store
from forewarn.store.opening import location_of, open_store

UNKNOWN_JOB = 2017  # Slurm's error number of an invalid job id
PENDING_STATES = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
# Opens an assessor of a cluster.
OpenAssessor = Callable[[str], AbstractContextManager[Assessor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveJobSelection:
    """The jobs to assess: these ids, or those of all pending and running jobs that match."""

    job_ids: Sequence[str] = ()
    pending: bool = False
    running: bool = False
    user: str | None = None

    def fits(self) -> pl.Expr:
        """Return the condition that selects them among the controller's jobs."""
        states = pl.lit(not self.pending and not self.running)
        is_pending = pl.col("state").is_in(PENDING_STATES)
        if self.pending:
            states |= is_pending
        if self.running:
            states |= ~is_pending
        return states & pl.lit(True) if self.user is None else states & (pl.col("user") == self.user)


@contextmanager
def open_live_store(config: Config, cluster: str, serving: Serving, *, at: int) -> Iterator[Store]:
    """Open the configured store to assess live jobs.

    A user who may only read it gets it read-only while a collector updates it, otherwise a private copy that
    can be brought up to date.
    """
    place = location_of(config)
    if place.may_write or not place.exists:
        with open_store(config) as store:
            yield store
        return
    with ExitStack() as stack:
        store = stack.enter_context(open_store(config, read_only=True))
        if not is_collected(store, cluster, Champions(cluster, serving).policy, at):
            try:
                copy = stack.enter_context(place.private_copy(store))
                store = stack.enter_context(open_store(copy))
            except (StoreError, OSError):
                pass  # no space for a copy: use the state that was saved last
        yield store


def fetch(scheduler: Scheduler, selection: LiveJobSelection, unknown: list[str] | None = None) -> list[Batch]:
    """Fetch jobs from the scheduler: all in one request, or one request per id.

    Ids that Slurm does not know are added to `unknown`; without it, the first of them is an error.
    """
    if not selection.job_ids:
        matches = pl.col("outcome").is_null() & selection.fits()
        return [Batch(batch.kind, batch.frame.filter(matches)) for batch in scheduler.live_jobs()]
    fetched: list[Batch] = []
    for job_id in dict.fromkeys(selection.job_ids):
        batches = [batch for batch in scheduler.job(job_id) if batch.frame.height]
        if not batches and unknown is None:
            raise unknown_job(job_id)
        if not batches and unknown is not None:
            unknown.append(job_id)
        fetched += batches
    return fetched


def assess_live(
    store: Store,
    scheduler: Scheduler,
    serving: Serving,
    selection: LiveJobSelection,
    *,
    at: int,
    timezone: str | None = None,
    full: bool = False,
    unknown: list[str] | None = None,
    working: ShowActivity = nullcontext,
    open_assessor: OpenAssessor | None = None,
) -> list[Assessment]:
    """Fetch live jobs, write them to the store, assess them, and save the assessments.

    Nothing is written to a read-only store.

    Parameters
    ----------
    full
        Whether to assess in full, with reasons, similar jobs and advice, or in brief.
    unknown
        See `fetch`.
    open_assessor
        Opens an assessor of a cluster; by default one that reads the store.
    """
    if open_assessor is None:

        def open_assessor(cluster: str) -> AbstractContextManager[Assessor]:
            return nullcontext(current_assessor(store, serving, cluster, at, working))

    with working("asking Slurm about the jobs"):
        batches = fetch(scheduler, selection, unknown)
    if store.may_write:
        write_batches(store, batches, timezone=timezone)
    frames = [batch.frame for batch in batches if batch.frame.height]
    if not frames:
        return []
    jobs = _latest(pl.concat(frames))
    assessments = {
        assessment.job_id: assessment
        for (cluster,), group in jobs.group_by("cluster", maintain_order=True)
        for assessment in _assess_cluster(store, open_assessor, str(cluster), group, at, full, working)
    }
    return [assessments[job_id] for job_id in jobs["job_id"]]


def _latest(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return each job once, of a requeued one its latest run."""
    newest = pl.col("submit") == pl.col("submit").max().over("cluster", "job_id")
    return jobs.filter(newest).unique(["cluster", "job_id"], keep="last", maintain_order=True)


def _assess_cluster(
    store: Store,
    open_assessor: OpenAssessor,
    cluster: str,
    jobs: pl.DataFrame,
    at: int,
    full: bool,
    working: ShowActivity,
) -> list[Assessment]:
    ended = jobs.filter(pl.col("outcome").is_not_null())
    live = jobs.filter(pl.col("outcome").is_null())
    assessments = [_of_ended(job, at) for job in to_records(ended, Job)]
    if live.height:
        to_assess = _first_tasks(live)
        with open_assessor(cluster) as assessor, working(f"assessing {count(len(to_assess), 'job')}"):
            of_live = list(map(assessor.assess, to_assess)) if full else assessor.assess_all(to_assess)
        # Saved under the task's id, with which its outcome will be recorded; returned under the array's.
        save_assessments(store, of_live)
        assessments += [replace(a, job_id=job_id) for a, job_id in zip(of_live, live["job_id"], strict=True)]
    return assessments


def _first_tasks(jobs: pl.DataFrame) -> list[Job]:
    """Return the jobs, with the first task in place of a pending array, which the store has as its tasks."""
    numbered = jobs.with_row_index("_row")
    tasks = split_arrays(numbered).unique("_row", keep="first", maintain_order=True)
    first = dict(zip(tasks["_row"], to_records(tasks, Job), strict=True))
    return [first.get(row, job) for row, job in enumerate(to_records(jobs, Job))]


def current_assessor(
    store: Store, serving: Serving, cluster: str, at: int, working: ShowActivity = nullcontext
) -> Assessor:
    """Return an assessor of a cluster, and bring the online state up to date unless a collector does."""
    champions = Champions(cluster, serving)
    with working("loading the models"):
        policy = champions.policy
    if store.may_write and not is_maintained(store, cluster, policy, at):
        with working(f"reading {count(store.count(cluster=cluster), 'job')} of history"):
            bring_up_to_date(store, cluster, policy)
    return stored_assessor(store, champions, at)


def _of_ended(job: Job, at: int) -> Assessment:
    route = Route(model=None, version=None, phase="ended", feature_set=None)
    return Assessment(
        cluster=job.cluster,
        job_id=job.job_id,
        submit=job.submit,
        user=job.user,
        name=job.name,
        partition=job.partition,
        made_at=at,
        phase="ended",
        state=job.state,
        verdict=Verdict.CANNOT_SAY,
        summary=Statement(SummaryCode.ENDED),
        route=route,
    )


def _model_of(route: Route) -> str:
    """Name the model, with its version if it has one; one that learns as it goes has none."""
    if route.model is None:
        return "none"
    return route.model if route.version is None else f"{route.model}/{route.version}"


def save_assessments(store: Store, assessments: Sequence[Assessment]) -> None:
    """Save assessments in full, to be compared with the outcomes later."""
    rows = [
        {
            **{name: getattr(a, name) for name in ("cluster", "job_id", "submit", "phase", "made_at")},
            "model": _model_of(a.route),
            "probability": a.failure.probability if a.failure else None,
            "threshold": a.failure.threshold if a.failure else None,
            "verdict": str(a.verdict),
            "hours_at_risk": a.hours_at_risk,
            "cause": next(iter(a.failure.by_outcome), None) if a.failure else None,
            "body": json.dumps(a.to_json(), ensure_ascii=False, separators=(",", ":"), default=str),
        }
        for a in assessments
        if a.job_id is not None
    ]
    if rows and store.may_write:
        with store.writing() as writer:
            writer.keep_assessments(pl.DataFrame(rows, schema=dict(ASSESSMENT_SCHEMA)))


def delete_old_assessments(store: Store, cluster: str, before: int) -> None:
    """Delete assessments older than a moment; write nothing if there are none."""
    if store.assessments(cluster=cluster, until=before, columns=["made_at"]).height:
        with store.writing() as writer:
            writer.forget_assessments(cluster, before)
