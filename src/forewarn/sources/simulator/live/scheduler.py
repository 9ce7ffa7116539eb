"""The simulated cluster as a `Scheduler`."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np
import polars as pl

from forewarn.sources.base import Batch
from forewarn.sources.simulator.kernel.layout import PENDING, RUNNING
from forewarn.sources.simulator.live.actions import UserAction
from forewarn.sources.simulator.live.details import details_of
from forewarn.sources.simulator.live.ended_jobs import KernelJobs
from forewarn.sources.simulator.live.records import RecordWriter
from forewarn.sources.simulator.live.shared_world import SharedWorld
from forewarn.sources.simulator.live.world import LiveWorld
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.job_requests import JobSubmission, JobUpdate
from forewarn.sources.slurm.one_job import only_users, require_job_id
from forewarn.sources.slurm.scheduler import Diagnosis, HistoryPart, JobDetails, RequestCounts

_WINDOW = 86400  # seconds of history in one part
_FROM_STEPS = ("cpu_time", "max_memory", "io_read", "io_written", "energy")
_LISTED = 300  # seconds for which an ended job stays in the controller's memory


class SimulatedScheduler:
    """A simulated cluster; `acting` submits and changes jobs, and sees those of `user`, else everybody's.

    Any number of schedulers share the world of their folder, in one process or in several.
    """

    def __init__(
        self,
        world: SharedWorld,
        *,
        cluster: str | None = None,
        acting: str | None = None,
        user: str | None = None,
    ) -> None:
        self._world = world
        self._cluster, self._user = cluster, user
        self._acting = acting or getpass.getuser()
        self._requests = 0

    @property
    def cluster(self) -> str:
        """The configured name, else the scenario's."""
        return self._cluster or self._world.scenario.cluster.name

    @property
    def clock(self) -> Clock:
        """The clock of the simulated cluster."""
        return self._world.folder.clock()

    @property
    def request_counts(self) -> RequestCounts:
        """See `Scheduler`."""
        return RequestCounts(self._requests)

    def acting_as(self, user: str) -> SimulatedScheduler:
        """Return the same cluster for another user, who submits, changes and cancels jobs."""
        return SimulatedScheduler(self._world, cluster=self._cluster, acting=user, user=self._user)

    # --- history -----------------------------------------------------------------------------------

    def history(self, since: int, until: int | None = None, *, steps: bool = True) -> Iterator[HistoryPart]:
        """Yield the history in windows of time."""
        with self._world.now() as world:
            end = world.now if until is None else min(until, world.now)
            begin = first = max(since, min(world.begin, end))
        while begin < end:
            stop = min(begin + _WINDOW, end)
            # The last window has the jobs that ended in its last second too.
            batch = self._ended(begin, stop + (stop == end), steps=steps)
            yield HistoryPart(batch, stop, (stop - first) / (end - first))
            begin = stop

    def _ended(self, since: int, until: int, *, steps: bool) -> Batch:
        with self._now() as world:
            batch = self._named(RecordWriter(world).ended(world.ended_between(since, until)))
        if steps:
            return batch
        unknown = (pl.lit(None, batch.frame.schema[name]).alias(name) for name in _FROM_STEPS)
        return replace(batch, frame=batch.frame.with_columns(unknown))

    def accounting_records(self, job_ids: Sequence[str]) -> Iterator[Batch]:
        """Read some jobs."""
        for job_id in job_ids:
            target = require_job_id(job_id)
            with self._now() as world:
                found = world.find(target)
                writer = RecordWriter(world)
                is_live = np.isin(found.jobs["state"], (PENDING, RUNNING))
                batches = [writer.ended(found.where(~is_live)), writer.now(found.where(is_live))]
            yield from (self._named(batch) for batch in batches if batch.frame.height)

    # --- now ---------------------------------------------------------------------------------------

    def live_jobs(self) -> Iterator[Batch]:
        """Read the pending and running jobs, and those that ended some minutes ago."""
        with self._now() as world:
            batch = self._named(RecordWriter(world).now(world.not_ended(recent=_LISTED)))
        yield batch

    def job(self, job_id: str) -> Iterator[Batch]:
        """Read one job, or the tasks of an array."""
        target = require_job_id(job_id)
        with self._now() as world:
            batch = self._named(RecordWriter(world).now(world.find(target)))
        yield batch

    def details(self, job_id: str) -> JobDetails:
        """Read the script and the output of one job."""
        target = require_job_id(job_id)
        with self._now() as world:
            found = self._visible(world, world.find(target))
            if not len(found):
                return JobDetails(notes=(f"the simulator knows no job {target.job}",))
            one = KernelJobs(found.jobs[-1:], found.placed[-1:], found.seqs[-1:])
            record = self._named(RecordWriter(world).now(one)).frame.row(0, named=True)
            case = int(one.jobs["campaign"][0]), int(one.jobs["index"][0])
            submitted = world.submitted.get(int(one.seqs[0]))
        return details_of(record, case, submitted, self._world.folder.path)

    def nodes(self) -> Iterator[Batch]:
        """Read the nodes."""
        with self._now() as world:
            batch = self._named(RecordWriter(world).nodes())
        yield batch

    def partitions(self) -> Iterator[Batch]:
        """Read the partitions."""
        with self._now() as world:
            batch = self._named(RecordWriter(world).partitions())
        yield batch

    def ping(self) -> bool:
        """Return True: it answers as long as its folder can be read."""
        self._requests += 1
        return bool(self._world.folder.settings)

    def diag(self) -> Diagnosis:
        """Read the state of the simulated controller; accounting has every end at once."""
        with self._now() as world:
            states = world.field("state", world.in_kernel())
            return Diagnosis(
                at=world.now,
                since=world.begin,
                jobs_pending=int((states == PENDING).sum()),
                jobs_running=int((states == RUNNING).sum()),
                threads=1,
                database_queue=0,
            )

    def _now(self) -> AbstractContextManager[LiveWorld]:
        self._requests += 1
        return self._world.now()

    def _named(self, batch: Batch) -> Batch:
        """Give records the configured name of the cluster, and select the user's jobs."""
        if self._cluster is not None:
            batch = replace(batch, frame=batch.frame.with_columns(cluster=pl.lit(self._cluster)))
        return next(only_users([batch], self._user if batch.kind == "job" else None))

    def _visible(self, world: LiveWorld, found: KernelJobs) -> KernelJobs:
        if self._user is None:
            return found
        owners = [world.owner(job, int(seq)) for job, seq in zip(found.jobs, found.seqs, strict=True)]
        return found.where(np.array([owner == self._user for owner in owners], np.bool_))

    # --- changes -----------------------------------------------------------------------------------

    def submit(self, job: JobSubmission) -> str:
        """Submit a batch job, which then waits, runs and ends as the scenario has it."""
        return self._act(UserAction(at=0, user=self._acting, submission=job))

    def update(self, job_id: str, changes: JobUpdate) -> None:
        """Change a job, and with it what becomes of it."""
        assert changes.changes
        self._act(UserAction(at=0, user=self._acting, job_id=require_job_id(job_id).job, update=changes))

    def cancel(self, job_id: str) -> None:
        """Cancel a job."""
        self._act(UserAction(at=0, user=self._acting, job_id=require_job_id(job_id).job))

    def _act(self, action: UserAction) -> str:
        self._requests += 1
        return self._world.act(action)

    def close(self) -> None:
        """Do nothing: the world stays in memory for the next scheduler of this process."""
