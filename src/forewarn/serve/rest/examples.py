"""Requests that run, shown in the OpenAPI document and run by the tests."""

from __future__ import annotations

from typing import Any

JOB: dict[str, Any] = {
    "name": "train",
    "partition": "main",
    "nodes_asked": 1,
    "cpus_asked": 8,
    "memory_asked": 17179869184,
    "memory_per": "node",
    "time_limit": 7200,
}
JOBS: dict[str, Any] = {"jobs": [JOB, {"name": "short", "cpus_asked": 1, "time_limit": 600}]}
SCRIPT = "#!/bin/bash\n#SBATCH --time=2:00:00\n#SBATCH --mem=16G\n#SBATCH --cpus-per-task=8\nsrun ./solver\n"
LOG: dict[str, Any] = {"log": "slurmstepd: error: Detected 1 oom_kill event in StepId=1.batch.\n"}
RESUBMIT: dict[str, Any] = {"changes": [{"option": "mem", "value": "32G"}]}
# A preview changes nothing; the name is that of a model of the simulated cluster.
THRESHOLD: dict[str, Any] = {"model": "small.submit.generic", "threshold": 0.6, "preview": True}
TOKEN: dict[str, Any] = {"token": "fwt_0123456789abcdef"}
CHECK: dict[str, Any] = {"script": SCRIPT, "options": ["--partition=main"], "file_name": "job.sbatch"}
