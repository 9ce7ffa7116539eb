"""Predictions on demand: jobs that wait or run are fetched, kept, and assessed as of this moment.

What is knowable of a job is read from the online state, which is brought up to date first where no collector
sees to that. A job that the scheduler has and the store had not is kept before it is asked about, so that its
own record is the one assessed. What was said is kept too: later it is held against what came true. Of a store
that may only be read, a private copy takes its place (`store_of_live`).
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
from forewarn.errors import RefusedError, StoreError
from forewarn.evidence import Statement
from forewarn.features.snapshot import bring_up_to_date, is_collected, is_kept_up
from forewarn.job.arrays import split_arrays
from forewarn.job.columns import to_records
from forewarn.job.record import Job
from forewarn.learn.registry.serving import Serving
from forewarn.operate.observe import keep
from forewarn.operate.one_shot import stored_assessor
from forewarn.progress import Working
from forewarn.sources.base import Batch
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.store.base import ASSESSMENT_SCHEMA, Store
from forewarn.store.opening import open_store, place_of

UNKNOWN_JOB = 2017  # Slurm's number for it
WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
# Gives an assessor of a cluster, for as long as the block lasts.
Asking = Callable[[str], AbstractContextManager[Assessor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveJobSelection:
    """Which jobs: these, or of all that have not ended those that fit."""

    job_ids: Sequence[str] = ()
    pending: bool = False
    running: bool = False
    user: str | None = None

    def fits(self) -> pl.Expr:
        """Those of the controller's jobs that are meant."""
        states = pl.lit(not self.pending and not self.running)
        waits = pl.col("state").is_in(WAITING)
        if self.pending:
            states |= waits
        if self.running:
            states |= ~waits
        return states & pl.lit(True) if self.user is None else states & (pl.col("user") == self.user)


@contextmanager
def store_of_live(config: Config, cluster: str, serving: Serving, *, at: int) -> Iterator[Store]:
    """The configured store to assess live jobs by.

    Who may only read it gets it as it is while a collector keeps it up to date, else a private copy, in which
    the same can be done as its owner does.
    """
    place = place_of(config)
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
                pass  # no room for a copy: by the state that was saved last
        yield store


def fetch(scheduler: Scheduler, wanted: LiveJobSelection, unknown: list[str] | None = None) -> list[Batch]:
    """The jobs as the scheduler has them now; one question for all, or one for each id.

    Ids that nobody knows are added to `unknown`; without it, the first of them is an error.
    """
    if not wanted.job_ids:
        batches = list(scheduler.live_jobs())
        return [Batch(b.kind, b.frame.filter(pl.col("outcome").is_null() & wanted.fits())) for b in batches]
    found: list[Batch] = []
    for job_id in dict.fromkeys(wanted.job_ids):
        batches = [batch for batch in scheduler.job(job_id) if batch.frame.height]
        if not batches and unknown is None:
            raise unknown_job(job_id)
        if not batches and unknown is not None:
            unknown.append(job_id)
        found += batches
    return found


def unknown_job(*job_ids: str) -> RefusedError:
    """The error of jobs that Slurm does not know."""
    which = f"job {job_ids[0]}" if len(job_ids) == 1 else f"jobs {', '.join(job_ids)}"
    return RefusedError(f"{which}: neither slurmctld nor accounting knows it", UNKNOWN_JOB)


def assess_live(
    store: Store,
    scheduler: Scheduler,
    serving: Serving,
    wanted: LiveJobSelection,
    *,
    at: int,
    timezone: str | None = None,
    whole: bool = False,
    unknown: list[str] | None = None,
    working: Working = nullcontext,
    asking: Asking | None = None,
) -> list[Assessment]:
    """Jobs as the scheduler has them, kept in the store and assessed: in brief, or as a whole.

    What is said is kept too, where the store may be written to. For `unknown` see `fetch`. `working` is told
    what may take long. `asking` gives an assessor of a cluster; without it one reads what it needs from the
    store.
    """
    if asking is None:

        def asking(cluster: str) -> AbstractContextManager[Assessor]:
            return nullcontext(current_assessor(store, serving, cluster, at, working))

    with working("asking Slurm about the jobs"):
        batches = fetch(scheduler, wanted, unknown)
    if store.may_write:
        keep(store, batches, timezone=timezone)
    frames = [batch.frame for batch in batches if batch.frame.height]
    if not frames:
        return []
    jobs = _latest(pl.concat(frames))
    said = {
        assessment.job_id: assessment
        for (cluster,), group in jobs.group_by("cluster", maintain_order=True)
        for assessment in _about(store, asking, str(cluster), group, at, whole, working)
    }
    return [said[job_id] for job_id in jobs["job_id"]]


def _jobs(count: int) -> str:
    """
    >>> _jobs(1), _jobs(1200)
    ('1 job', '1,200 jobs')
    """
    return "1 job" if count == 1 else f"{count:,} jobs"


def _latest(jobs: pl.DataFrame) -> pl.DataFrame:
    """Each job once, of a requeued one its latest run."""
    newest = pl.col("submit") == pl.col("submit").max().over("cluster", "job_id")
    return jobs.filter(newest).unique(["cluster", "job_id"], keep="last", maintain_order=True)


def _about(
    store: Store,
    asking: Asking,
    cluster: str,
    jobs: pl.DataFrame,
    at: int,
    whole: bool,
    working: Working,
) -> list[Assessment]:
    ended = jobs.filter(pl.col("outcome").is_not_null())
    alive = jobs.filter(pl.col("outcome").is_null())
    said = [_of_ended(job, at) for job in to_records(ended, Job)]
    if alive.height:
        speakers = _speakers(alive)
        with asking(cluster) as assessor, working(f"assessing {_jobs(len(speakers))}"):
            assessed = list(map(assessor.assess, speakers)) if whole else assessor.assess_all(speakers)
        # Kept under the name that its end will be told by.
        keep_assessments(store, assessed)
        said += [replace(a, job_id=job_id) for a, job_id in zip(assessed, alive["job_id"], strict=True)]
    return said


def _speakers(jobs: pl.DataFrame) -> list[Job]:
    """The jobs; of an array that waits, which is in the store as its tasks, the first of them."""
    numbered = jobs.with_row_index("_row")
    tasks = split_arrays(numbered).unique("_row", keep="first", maintain_order=True)
    first = dict(zip(tasks["_row"], to_records(tasks, Job), strict=True))
    return [first.get(row, job) for row, job in enumerate(to_records(jobs, Job))]


def current_assessor(
    store: Store, serving: Serving, cluster: str, at: int, working: Working = nullcontext
) -> Assessor:
    """An assessor of a cluster, whose online state knows all that the store does, or will soon."""
    champions = Champions(cluster, serving)
    with working("loading the models"):
        policy = champions.policy
    if store.may_write and not is_kept_up(store, cluster, policy, at):
        with working(f"reading {_jobs(store.count(cluster=cluster))} of history"):
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


def keep_assessments(store: Store, assessments: Sequence[Assessment]) -> None:
    """Keep assessments whole, so that they can be held against what comes true."""
    rows = [
        {
            **{name: getattr(a, name) for name in ("cluster", "job_id", "submit", "phase", "made_at")},
            "model": "none" if a.route.model is None else f"{a.route.model}/{a.route.version}",
            "probability": a.failure.probability if a.failure else None,
            "threshold": a.failure.threshold if a.failure else None,
            "verdict": str(a.verdict),
            "hours_at_risk": a.hours_at_risk,
            "body": json.dumps(a.to_json(), ensure_ascii=False, separators=(",", ":"), default=str),
        }
        for a in assessments
        if a.job_id is not None
    ]
    if rows and store.may_write:
        with store.writing() as writer:
            writer.keep_assessments(pl.DataFrame(rows, schema=dict(ASSESSMENT_SCHEMA)))


def forget_old(store: Store, cluster: str, before: int) -> None:
    """Remove assessments that were made before a moment, where there are any."""
    if store.assessments(cluster=cluster, until=before, columns=["made_at"]).height:
        with store.writing() as writer:
            writer.forget_assessments(cluster, before)
