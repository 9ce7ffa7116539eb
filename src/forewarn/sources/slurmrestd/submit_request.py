"""The request to submit a job, in each version of the API."""

from __future__ import annotations

from typing import Any

from forewarn.sources.slurm.scheduler import JobSubmission
from forewarn.sources.slurmrestd.versions import number_of


def submit_request(job: JobSubmission, version: str) -> dict[str, Any]:
    """Build the body of `POST /slurm/vX/job/submit`; since v0.0.39 numbers are objects, environment a list.

    >>> job = JobSubmission(script="#!/bin/sh", work_dir="/tmp", time_limit=90)
    >>> submit_request(job, "v0.0.38")["job"]["time_limit"]
    2
    """
    plain = number_of(version) < 39

    def number(value: int | None) -> Any:
        return value if plain or value is None else {"set": True, "infinite": False, "number": value}

    environment = dict(job.environment)
    options = {
        "name": job.name,
        "partition": job.partition,
        "account": job.account,
        "qos": job.qos,
        "time_limit": number(None if job.time_limit is None else -(-job.time_limit // 60)),
        # A range as text: up to v0.0.38 a number is refused.
        "nodes": None if job.nodes is None else [job.nodes, job.nodes] if plain else str(job.nodes),
        "tasks": job.tasks,
        "cpus_per_task": job.cpus_per_task,
        "memory_per_node": number(None if job.memory_per_node is None else -(-job.memory_per_node >> 20)),
        "current_working_directory": job.work_dir,
        "environment": environment if plain else [f"{name}={value}" for name, value in environment.items()],
    }
    return {
        "script": job.script,
        "job": {name: value for name, value in options.items() if value is not None},
    }
