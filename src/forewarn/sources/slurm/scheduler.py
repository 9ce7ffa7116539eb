"""The contract of a live scheduler: slurmrestd's client, Slurm's own commands, and the live simulator.

The first two yield the same records as files do, by the same readers.

Who may call it, and when: `forewarn.sources.slurm.connect.connect` builds one without a request; any method
may then be called, in any order, by one thread at a time, until `close`. Iterators ask as they are consumed:
stop iterating, and nothing more is asked.

What all keep:

- one request is in flight at a time, each has a time limit, and its answer a maximum size: neither the
  scheduler's memory nor this process's grows with the length of the history;
- requests that change nothing are retried after a transient error, with pauses; `submit`, `update` and
  `cancel` are never sent again where the controller may have received them;
- records of the controller (`live_jobs`, `job`, `nodes`, `partitions`) are observations at the time of its
  answer; those of `history` and `accounting_records` are reconstructed, as from a file: nobody observed when
  those jobs ended.

What they raise: `SchedulerError` with what to do about it (`NoAccountingError` where this Slurm keeps no
accounting, `RefusedError` where Slurm refuses, `PausedError` after repeated failures; `forewarn.errors` has
all); `UsageError` for a job id that is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from forewarn.sources.slurm.job_requests import JobSubmission, JobUpdate

if TYPE_CHECKING:
    from forewarn.sources.base import Batch

# Codes of `RefusedError`: Slurm answers to a change of another user's job with the one or the other.
UNKNOWN_JOB = 2017
DENIED = frozenset({2002, 2010})


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """Some jobs of a history.

    `reached` is where to continue: every job that ended before it, and that accounting knew of, has been
    yielded. It moves only with the last part of a window, so that a caller who stops in between loses
    nothing.
    """

    batch: Batch
    reached: int
    share: float  # of the requested time, from 0 to 1
    notes: tuple[str, ...] = ()  # what a person should know about these answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The state of the controller, by its own clock and counters."""

    at: int  # Unix seconds on the controller's clock
    since: int | None = None  # when its counters began
    jobs_pending: int | None = None
    jobs_running: int | None = None
    threads: int | None = None
    database_queue: int | None = None  # messages that slurmdbd has not accepted yet
    calls: Mapping[str, tuple[int, float]] = field(default_factory=dict)  # RPC: how many, seconds in all


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step of a job, as accounting records it."""

    name: str  # batch, extern, 0, 1 …
    state: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    nodes: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetails:
    """Details of one job that are not in its record; each part where it is available.

    Slurm uses ids again: they are of the last job with the id, which may be another one, of another user.
    """

    user: str | None = None  # whose job it is, where Slurm says so
    outputs: tuple[str, ...] = ()  # standard error and output, perhaps with sbatch's patterns in them
    script: str | None = None
    start_estimate: int | None = None  # Slurm's own, of a pending job
    steps: tuple[StepRecord, ...] = ()
    notes: tuple[str, ...] = ()  # what is not available, and why


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """The requests sent to a scheduler so far."""

    requests: int = 0  # or commands run
    received: int = 0  # bytes


class Scheduler(Protocol):
    """One cluster's Slurm; the module describes the contract. Close it at the end (`contextlib.closing`)."""

    @property
    def cluster(self) -> str:
        """The cluster's name: the one configured, else the scheduler's own."""

    @property
    def request_counts(self) -> RequestCounts:
        """The requests sent so far."""

    def history(self, since: int, until: int | None = None, *, steps: bool = True) -> Iterator[HistoryPart]:
        """Yield jobs of accounting that ended from `since` until `until` (else now), in windows of time.

        Each job comes once, with the window in which it ended. Versions that cannot be asked for ended jobs
        alone yield those that have not ended with the last window. Without `steps`, the resources used are
        missing, at half the cost. Accounting learns of a job some seconds after its end, or hours after if
        slurmdbd was down: a caller who continues a history begins a little before its end, and asks for the
        jobs that are still missing (`accounting_records`). Raises `NoAccountingError` where this Slurm keeps
        no accounting.
        """

    def accounting_records(self, job_ids: Sequence[str]) -> Iterator[Batch]:
        """Yield every run that accounting has of some jobs (``7``, ``7_3``), and perhaps of more jobs."""

    def live_jobs(self) -> Iterator[Batch]:
        """Yield the jobs in the controller's memory: pending, running, and ended some minutes ago."""

    def job(self, job_id: str) -> Iterator[Batch]:
        """Yield one job (``7``, ``7_3``; for an array ``7`` all its tasks).

        It comes from accounting where the controller does not know it; no row where neither does.
        """

    def details(self, job_id: str) -> JobDetails:
        """Return further details of one job; what is not available is left out, with a note."""

    def nodes(self) -> Iterator[Batch]:
        """Yield all nodes."""

    def partitions(self) -> Iterator[Batch]:
        """Yield all partitions."""

    def ping(self) -> bool:
        """Check whether the controller answers."""

    def diag(self) -> Diagnosis:
        """Return the state of the controller."""

    def submit(self, job: JobSubmission) -> str:
        """Submit a job and return its id; never sent twice."""

    def update(self, job_id: str, changes: JobUpdate) -> None:
        """Change a job (for an array ``7`` all its tasks that have not ended); never sent twice.

        Raises `RefusedError` where it is unknown (`UNKNOWN_JOB`), another user's (`DENIED`), or Slurm does
        not allow the change (a running job's memory, a longer limit for a running job), `UsageError` where
        nothing is to be changed.
        """

    def cancel(self, job_id: str) -> None:
        """Cancel a job; raises `RefusedError` where it is unknown or another user's."""

    def close(self) -> None:
        """Close connections."""
