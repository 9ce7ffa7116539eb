"""Options of sbatch and fields of `scontrol update` for what a scheduler is asked to do with a job."""

from __future__ import annotations

from collections.abc import Mapping

from forewarn.errors import UsageError
from forewarn.job.units import UNLIMITED
from forewarn.sources.slurm.job_requests import JobSubmission, JobUpdate


def submit_options(job: JobSubmission) -> list[str]:
    """Return the options of sbatch for a submission, besides those in its script.

    >>> submit_options(JobSubmission(script="", work_dir="/w", time_limit=90, environment={}))
    ['--chdir=/w', '--time=2', '--export=NIL']
    """
    options = {
        "chdir": job.work_dir,
        "job-name": job.name,
        "partition": job.partition,
        "account": job.account,
        "qos": job.qos,
        "reservation": job.reservation,
        "constraint": job.constraint,
        "time": _minutes(job.time_limit),
        "nodes": job.nodes if job.max_nodes in (None, job.nodes) else f"{job.nodes}-{job.max_nodes}",
        "ntasks": job.tasks,
        "ntasks-per-node": job.tasks_per_node,
        "cpus-per-task": job.cpus_per_task,
        "mem": _megabytes(job.memory_per_node),
        "mem-per-cpu": _megabytes(job.memory_per_cpu),
        "gpus": job.gpus,
        "gpus-per-node": job.gpus_per_node,
        "gpus-per-task": job.gpus_per_task,
        "gres": job.gres,
        "array": job.array,
        "dependency": job.dependency,
        "nodelist": job.required_nodes,
        "exclude": job.excluded_nodes,
        "nice": job.nice,
        "comment": job.comment,
        "licenses": job.licenses,
        "wckey": job.wckey,
        "output": job.output,
        "error": job.error,
        "input": job.input,
        "mail-type": job.mail_type,
        "mail-user": job.mail_user,
        "export": _exported(job.environment),
    }
    flags = {
        "exclusive": job.exclusive,
        "hold": job.hold,
        "requeue": job.requeue,
        "no-requeue": job.requeue is False,
    }
    found = [f"--{name}={value}" for name, value in options.items() if value is not None]
    return found + [f"--{name}" for name, is_set in flags.items() if is_set]


def update_fields(changes: JobUpdate) -> list[str]:
    """Return the fields of `scontrol update`; whether a job is held is a command of its own.

    >>> update_fields(JobUpdate(time_limit=90, memory_per_node=1 << 30, held=True))
    ['TimeLimit=2', 'MinMemoryNode=1024']
    """
    memory = _megabytes(changes.memory_per_node)
    fields = {
        "TimeLimit": _minutes(changes.time_limit),
        "MinMemoryNode": None if memory is None else memory.rstrip("M"),
        "Partition": changes.partition,
        "QOS": changes.qos,
        "ExcNodeList": changes.excluded_nodes,
        "Comment": changes.comment,
    }
    return [f"{name}={value}" for name, value in fields.items() if value is not None]


def _minutes(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    return "UNLIMITED" if seconds >= UNLIMITED else str(-(-seconds // 60))


def _megabytes(memory: int | None) -> str | None:
    return None if memory is None else f"{-(-memory >> 20)}M"


def _exported(environment: Mapping[str, str]) -> str:
    """Write --export with names and values; sbatch ends a value at a comma."""
    for name, value in environment.items():
        if "," in value:
            raise UsageError(f"{name}: a value passed to sbatch --export cannot contain a comma")
    return ",".join(f"{name}={value}" for name, value in environment.items()) or "NIL"
