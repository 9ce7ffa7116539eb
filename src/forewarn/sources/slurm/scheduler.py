"""The contract of a scheduler that is asked while it runs: slurmrestd's client, and Slurm's own commands.

Both give the same records as files do, by the same readers. What both keep:

- one request is in flight at a time, each has a time limit, and its answer a largest size: neither the
  scheduler's memory nor ours grows with the history;
- what fails is a `SchedulerError` that says what to do; calls that change nothing are tried again where
  the trouble may pass;
- records of the controller (`live_jobs`, `job`, `nodes`, `partitions`) were seen when it answered;
  `history` is reconstructed, as from a file: nobody was there when those jobs ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from forewarn.sources.base import Batch


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """Some jobs of a history.

    `reached` is where to go on from: each job that ended before it, and that accounting knew of, has been
    given. It moves with the last piece of a window only, so that whoever stops in between loses nothing.
    """

    batch: Batch
    reached: int
    share: float  # of the time asked for, from 0 to 1
    notes: tuple[str, ...] = ()  # what a person should know about these answers


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmission:
    """A batch job to submit; what is None is left to the site."""

    script: str
    work_dir: str
    name: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time_limit: int | None = None  # seconds; Slurm counts whole minutes
    nodes: int | None = None
    tasks: int | None = None
    cpus_per_task: int | None = None
    memory_per_node: int | None = None  # bytes; Slurm counts megabytes
    environment: Mapping[str, str] = field(default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin:/bin"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """How the controller fares, by its own clock and counters."""

    at: int  # Unix seconds on the controller's clock
    since: int | None = None  # when its counters began
    jobs_pending: int | None = None
    jobs_running: int | None = None
    threads: int | None = None
    database_queue: int | None = None  # messages that slurmdbd has not taken yet
    calls: Mapping[str, tuple[int, float]] = field(default_factory=dict)  # RPC: how many, seconds in all


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step of a job, as accounting has it."""

    name: str  # batch, extern, 0, 1 …
    state: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    nodes: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetails:
    """What is not in a job's record, for who looks at one job: each part where it is to be had."""

    outputs: tuple[str, ...] = ()  # standard error and output, perhaps with sbatch's patterns in them
    script: str | None = None
    start_estimate: int | None = None  # Slurm's own, of a job that waits
    steps: tuple[StepRecord, ...] = ()
    notes: tuple[str, ...] = ()  # what could not be asked, and why


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """What was asked of a scheduler so far."""

    requests: int = 0  # or commands run
    received: int = 0  # bytes


class Scheduler(Protocol):
    """One cluster's Slurm. Close it at the end (`contextlib.closing`)."""

    @property
    def cluster(self) -> str:
        """The cluster's name: the one configured, else the scheduler's own."""

    @property
    def request_counts(self) -> RequestCounts:
        """What we have asked of it so far."""

    def history(self, since: int, until: int | None = None, *, steps: bool = True) -> Iterator[HistoryPart]:
        """Jobs that ended from `since` until `until` (else now), as accounting has them, in windows of time.

        Each is given once, with the window in which it ended. Versions that cannot be asked for ended jobs
        alone give those that have not ended with the last window. Without `steps` what a job used is
        missing, at half the cost. Accounting hears of a job some seconds after its end, or hours after if
        slurmdbd was away: whoever goes on from where a history ended begins a little earlier, and asks
        about those that it misses (`accounting_records`). `NoAccountingError` where this Slurm keeps none.
        """

    def accounting_records(self, job_ids: Sequence[str]) -> Iterator[Batch]:
        """What accounting knows of some jobs (``7``, ``7_3``), each of their runs; perhaps of more."""

    def live_jobs(self) -> Iterator[Batch]:
        """The jobs that the controller has in memory: waiting, running, and ended some minutes ago."""

    def job(self, job_id: str) -> Iterator[Batch]:
        """One job (``7``, ``7_3``, of an array ``7`` all its tasks).

        From accounting where only that knows it; no row where nobody does.
        """

    def details(self, job_id: str) -> JobDetails:
        """What more there is to know of one job; what cannot be asked is left out, with a note."""

    def nodes(self) -> Iterator[Batch]:
        """All nodes."""

    def partitions(self) -> Iterator[Batch]:
        """All partitions."""

    def ping(self) -> bool:
        """Whether the controller answers."""

    def diag(self) -> Diagnosis:
        """How the controller fares."""

    def submit(self, job: JobSubmission) -> str:
        """Submit a job: its id. Never tried twice."""

    def cancel(self, job_id: str) -> None:
        """Cancel a job; `RefusedError` where it is unknown or another user's."""

    def close(self) -> None:
        """Let go of connections."""
