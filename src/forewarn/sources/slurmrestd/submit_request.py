"""The requests to submit and to change a job, in each version of the API."""

from __future__ import annotations

from typing import Any

from forewarn.errors import UsageError
from forewarn.job.units import UNLIMITED, expand_nodes
from forewarn.sources.slurm.job_requests import JobSubmission, JobUpdate
from forewarn.sources.slurmrestd.versions import number_of

_MINUTES, _MEGABYTES = 60, 1 << 20


class _Form:
    """How one version writes values: since v0.0.39 numbers are objects, and some names are others."""

    def __init__(self, version: str) -> None:
        self.version, self.plain = version, number_of(version) < 39

    def number(self, value: int | None, unit: int = 1) -> Any:
        if value is None:
            return None
        units = -(-value // unit)
        if self.plain:
            return units
        return {"set": True, "infinite": False, "number": units}

    def time_limit(self, value: int | None) -> Any:
        if value is None or value < UNLIMITED:
            return self.number(value, _MINUTES)
        if self.plain:
            raise self.missing("--time=UNLIMITED")
        return {"set": True, "infinite": True, "number": 0}

    def nodes(self, low: int | None, high: int | None) -> Any:
        if low is None:
            return None
        if self.plain and high not in (None, low):
            raise self.missing(f"a range of nodes (--nodes={low}-{high})")
        # A range as text: up to v0.0.38 a number is refused.
        return [low, high or low] if self.plain else f"{low}" if high in (None, low) else f"{low}-{high}"

    def gpus(self, job: JobSubmission) -> dict[str, Any]:
        if self.plain:
            return {
                "gpus": job.gpus,
                "gpus_per_node": job.gpus_per_node,
                "gpus_per_task": job.gpus_per_task,
                "gres": job.gres,
            }
        by_node = [f"gres/gpu:{job.gpus_per_node}"] if job.gpus_per_node else []
        by_node += [f"gres/{one}" for one in (job.gres or "").split(",") if one]
        return {
            "tres_per_job": f"gres/gpu:{job.gpus}" if job.gpus else None,
            "tres_per_node": ",".join(by_node) or None,
            "tres_per_task": f"gres/gpu:{job.gpus_per_task}" if job.gpus_per_task else None,
        }

    def exclusive(self, exclusive: bool | None) -> dict[str, Any]:
        if not exclusive:
            return {}
        if self.plain:
            return {"exclusive": "exclusive"}
        return {"shared": ["none"]}

    def node_list(self, option: str, text: str | None) -> list[str] | None:
        if text is None:
            return None
        if self.plain:
            raise self.missing(option)
        return expand_nodes(text)

    def requeue(self, requeue: bool | None) -> bool | None:
        if self.plain and requeue is False:  # it is ignored there
            raise self.missing("--no-requeue")
        return requeue

    def missing(self, option: str) -> UsageError:
        return UsageError(f"slurmrestd {self.version} has no field for {option}; remove it, or use sbatch")

    def words(self, text: str | None) -> Any:
        return text if self.plain or text is None else [one for one in text.upper().split(",") if one]


def submit_request(job: JobSubmission, version: str) -> dict[str, Any]:
    """Build the body of `POST /slurm/vX/job/submit`.

    >>> job = JobSubmission(script="#!/bin/sh", work_dir="/tmp", time_limit=90)
    >>> submit_request(job, "v0.0.38")["job"]["time_limit"]
    2
    """
    form, environment = _Form(version), dict(job.environment)
    options = {
        "name": job.name,
        "partition": job.partition,
        "account": job.account,
        "qos": job.qos,
        "reservation": job.reservation,
        "constraints": job.constraint,
        "time_limit": form.time_limit(job.time_limit),
        "nodes": form.nodes(job.nodes, job.max_nodes),
        "tasks": job.tasks,
        "tasks_per_node": job.tasks_per_node,
        "cpus_per_task": job.cpus_per_task,
        "memory_per_node": form.number(job.memory_per_node, _MEGABYTES),
        "memory_per_cpu": form.number(job.memory_per_cpu, _MEGABYTES),
        **form.gpus(job),
        **form.exclusive(job.exclusive),
        "array": job.array,
        "dependency": job.dependency,
        "required_nodes": form.node_list("--nodelist", job.required_nodes),
        "excluded_nodes": form.node_list("--exclude", job.excluded_nodes),
        "hold": job.hold,
        "requeue": form.requeue(job.requeue),
        "nice": job.nice,
        "comment": job.comment,
        "licenses": job.licenses,
        "wckey": job.wckey,
        "standard_output": job.output,
        "standard_error": job.error,
        "standard_input": job.input,
        "mail_type": form.words(job.mail_type),
        "mail_user": job.mail_user,
        "current_working_directory": job.work_dir,
        "environment": environment
        if form.plain
        else [f"{name}={value}" for name, value in environment.items()],
    }
    return {
        "script": job.script,
        "job": {name: value for name, value in options.items() if value is not None},
    }


def update_request(changes: JobUpdate, version: str) -> dict[str, Any]:
    """Build the body of `POST /slurm/vX/job/ID`.

    >>> update_request(JobUpdate(time_limit=90, held=True), "v0.0.42")["hold"]
    True
    """
    form = _Form(version)
    fields = {
        "time_limit": form.time_limit(changes.time_limit),
        "memory_per_node": form.number(changes.memory_per_node, _MEGABYTES),
        "partition": changes.partition,
        "qos": changes.qos,
        "excluded_nodes": form.node_list("excluded nodes", changes.excluded_nodes),
        "comment": changes.comment,
        "hold": changes.held,
    }
    return {name: value for name, value in fields.items() if value is not None}
