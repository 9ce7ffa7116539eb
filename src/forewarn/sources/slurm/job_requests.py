"""What a live scheduler is asked to do with a job: submit it, or change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from forewarn.errors import UsageError

ENVIRONMENT: Mapping[str, str] = MappingProxyType({"PATH": "/usr/local/bin:/usr/bin:/bin"})

# Has slurmd give the job the environment of its user's login, as `sbatch --export=NONE` does.
LOGIN_ENVIRONMENT: Mapping[str, str] = MappingProxyType({"SLURM_GET_USER_ENV": "1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmission:
    """A batch job to submit; what is None is left to the site.

    slurmrestd does not read the ``#SBATCH`` lines of a script: `submission_from_script` turns them into these
    fields.
    """

    script: str
    work_dir: str
    name: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    constraint: str | None = None
    time_limit: int | None = None  # seconds; Slurm counts whole minutes; units.UNLIMITED
    nodes: int | None = None
    max_nodes: int | None = None  # of a range
    tasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    memory_per_node: int | None = None  # bytes; Slurm counts megabytes; 0: all of the node's
    memory_per_cpu: int | None = None
    gpus: str | None = None  # of the whole job: 2, a100:2
    gpus_per_node: str | None = None
    gpus_per_task: str | None = None
    gres: str | None = None  # of each node: gpu:2,nvme:100
    exclusive: bool | None = None
    array: str | None = None  # 0-9%2
    dependency: str | None = None
    required_nodes: str | None = None  # in Slurm's form: n[01-03,7]
    excluded_nodes: str | None = None
    hold: bool | None = None
    requeue: bool | None = None
    nice: int | None = None
    comment: str | None = None
    licenses: str | None = None
    wckey: str | None = None
    output: str | None = None
    error: str | None = None
    input: str | None = None
    mail_type: str | None = None  # END,FAIL
    mail_user: str | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(ENVIRONMENT))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUpdate:
    """Changes of a job; what is None stays as it is.

    Slurm lets a user change most of a pending job, and of a running one only shorten its time limit.
    """

    time_limit: int | None = None  # seconds; Slurm counts whole minutes
    memory_per_node: int | None = None  # bytes; Slurm counts megabytes
    partition: str | None = None
    qos: str | None = None
    excluded_nodes: str | None = None  # in Slurm's form; an empty text: none
    comment: str | None = None
    held: bool | None = None  # True: hold, False: release

    @property
    def changes(self) -> dict[str, Any]:
        """The changes by name; `UsageError` where there is none."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        found = {name: value for name, value in found.items() if value is not None}
        if not found:
            raise UsageError(
                f"nothing to change: name at least one of {', '.join(f.name for f in fields(self))}"
            )
        return found
