"""The records that sources yield: job, node, partition, usage sample, program run; and observations.

One dataclass per record is the only place where a field is named; the columnar schema that sources yield and
the store keeps (`columns.py`) is derived from it.

Missing is ``None``, never 0 or -1. Times are Unix seconds (UTC), durations are seconds, memory and I/O bytes,
energy joules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from forewarn.quick_init import quick_init


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job, whatever its source. Key: cluster, job id, submit time (ids are reused; a requeue keeps them).

    >>> Job(cluster="c", job_id="7_1", submit=0, array_job_id=7, array_task_id=1).run_time is None
    True
    """

    # identity
    cluster: str
    job_id: str  # as people write it: 123, 123_4 (array task), 123+1 (het component)
    submit: int
    raw_id: int | None = None  # Slurm's own number of an array task or het component
    # who
    user: str | None = None
    group: str | None = None
    account: str | None = None
    # what
    name: str | None = None
    work_dir: str | None = None
    submit_line: str | None = None
    application: str | None = None  # the program: SWF's executable number
    script_hash: str | None = None
    script_language: str | None = None
    script_modules: str | None = None  # comma separated
    script_launcher: str | None = None  # srun, mpirun, srun+apptainer; none: it starts programs itself
    script_environment: str | None = None  # conda:torch, venv:env
    array_job_id: int | None = None
    array_task_id: int | None = None
    array_tasks: str | None = None  # of an array not yet split into tasks: 0-9%2
    het_job_id: int | None = None
    het_offset: int | None = None
    dependency: str | None = None
    # where
    partition: str | None = None  # while pending it may name several: a,b
    qos: str | None = None
    reservation: str | None = None
    constraint: str | None = None
    nodes: str | None = None  # as allocated, in Slurm's form: n[01-03,7]
    # requested
    nodes_asked: int | None = None
    tasks_asked: int | None = None
    cpus_asked: int | None = None
    memory_asked: int | None = None  # bytes; 0: `--mem=0` where the amount is not known
    memory_per: str | None = None  # memory_asked is per: node, cpu or gpu
    time_limit: int | None = None  # seconds; units.UNLIMITED
    gpus_asked: int | None = None
    tres_asked: str | None = None  # in Slurm's form, sorted: cpu=2,gres/gpu=1,mem=200M,node=1
    defaulted: str | None = None  # comma separated fields above that the user left to the site
    priority: int | None = None
    # allocated
    nodes_given: int | None = None
    cpus_given: int | None = None
    memory_given: int | None = None
    gpus_given: int | None = None
    tres_given: str | None = None
    # when
    eligible: int | None = None
    start: int | None = None
    end: int | None = None
    suspended: int | None = None  # seconds spent suspended between start and end
    restarts: int | None = None
    # result
    state: str | None = None  # one word of the scheduler's: COMPLETED, OUT_OF_MEMORY …
    outcome: str | None = None  # outcomes.Outcome; None while the job has not ended
    reason: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    derived_exit_code: int | None = None
    cancelled_by: str | None = None
    # used
    cpu_time: float | None = None
    max_memory: int | None = None  # of the largest task of any step
    io_read: int | None = None
    io_written: int | None = None
    energy: int | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """The job's key: cluster, job id and submit time."""
        return (self.cluster, self.job_id, self.submit)

    @property
    def run_time(self) -> int | None:
        """Seconds between start and end, without suspension."""
        if self.start is None or self.end is None:
            return None
        return self.end - self.start - (self.suspended or 0)

    @property
    def ran_to_limit(self) -> bool:
        """Whether it ran until its time limit: a timeout, in logs that have no such state."""
        ran, limit = self.run_time, self.time_limit
        return ran is not None and limit is not None and ran >= limit


_job_fields = tuple(Job.__slots__)
_values_of = attrgetter(*_job_fields)
_no_values = dict.fromkeys(_job_fields)
_setters = tuple(Job.__dict__[name].__set__ for name in _job_fields)


def job_of(values: Mapping[str, Any]) -> Job:
    """Return the job with these fields: `Job(**values)` in half its time; the caller checks what is required.

    >>> job_of({"cluster": "c", "job_id": "7", "submit": 0}) == Job(cluster="c", job_id="7", submit=0)
    True
    """
    job = object.__new__(Job)
    for set_value, value in zip(_setters, {**_no_values, **values}.values(), strict=True):
        set_value(job, value)
    return job


def changed_copy(job: Job, changes: Mapping[str, Any]) -> Job:
    """Return the job with some fields changed: `dataclasses.replace` in a quarter of its time.

    >>> changed_copy(Job(cluster="c", job_id="7", submit=0), {"user": "ann"}).user
    'ann'
    """
    copy = object.__new__(Job)
    for set_value, value in zip(_setters, _values_of(job), strict=True):
        set_value(copy, value)
    for name, value in changes.items():
        object.__setattr__(copy, name, value)
    return copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One compute node, as observed at one time."""

    cluster: str
    name: str
    state: str | None = None  # Slurm's words joined by +: IDLE+DRAIN
    reason: str | None = None
    reason_at: int | None = None
    boot: int | None = None
    slurmd_start: int | None = None
    last_busy: int | None = None
    cpus: int | None = None
    cpus_given: int | None = None
    memory: int | None = None
    memory_given: int | None = None
    memory_free: int | None = None
    cpu_load: float | None = None
    gpus: int | None = None
    gres: str | None = None
    features: str | None = None
    partitions: str | None = None  # comma separated
    architecture: str | None = None
    version: str | None = None  # of its slurmd


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition, as observed at one time."""

    cluster: str
    name: str
    state: str | None = None
    is_default: bool | None = None
    nodes: str | None = None
    nodes_total: int | None = None
    cpus_total: int | None = None
    time_max: int | None = None
    time_default: int | None = None
    nodes_max: int | None = None
    memory_max: int | None = None
    memory_max_per: str | None = None
    memory_default: int | None = None
    memory_default_per: str | None = None
    qos: str | None = None
    priority_tier: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSample:
    """The resources that a running job had used by one moment."""

    cluster: str
    job_id: str
    submit: int
    at: int
    cpu_time: float | None = None
    memory: int | None = None
    io_read: int | None = None
    io_written: int | None = None
    network_received: int | None = None
    network_sent: int | None = None
    energy: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRun:
    """One program that a job ran. Key: cluster, job and the run's own id."""

    cluster: str
    job_id: str  # Slurm's own number of the job: `Job.raw_id` of an array task
    run_id: str
    user: str | None = None
    path: str | None = None
    application: str | None = None  # the program's name; None for a shell or a launcher
    version: str | None = None  # where the path or a loaded module names it
    libraries: str | None = None  # comma separated, without the system's own
    tasks: int | None = None
    start: int | None = None
    end: int | None = None  # None where only the start was recorded


Record = Job | Node | Partition | UsageSample | ProgramRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A record, and when and by which source it was observed.

    `seen_at` is the clock of the observer. Nobody observed a record that is read from a file: it is
    `reconstructed`, and its `seen_at` is the last moment that the record itself proves.
    """

    seen_at: int
    source: str
    reconstructed: bool
    record: Record
