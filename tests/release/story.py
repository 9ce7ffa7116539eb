"""What a new user does first, with the commands of an installed Forewarn."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from forewarn import __version__
from forewarn.serve.cli.main import COMMANDS
from tests.release.environments import Environment

JOBS = 4800  # enough failures for each block of a training
AFTERWARDS = "2024-01-22"  # the day after the last of them
LINE_TO_TYPE = "pip install 'forewarn[train]'"


def simulate(environment: Environment) -> None:
    """Write a small cluster's history, which the other functions read; Numba compiles for it."""
    environment.run("forewarn", "simulate", "--scenario", "small", "--jobs", str(JOBS), "-o", "jobs.parquet")


def try_core(environment: Environment) -> None:
    """Do with the core alone what needs no model of one's own."""
    assert environment.run("forewarn", "--version").stdout == f"forewarn {__version__}\n"
    page = environment.run("forewarn", "--help").stdout
    assert not [name for name in COMMANDS if name not in page]
    assert check_usual_script(environment, ingest(environment))["route"]["model"] == "online"


def try_without_train(environment: Environment) -> None:
    """Ask for what needs the extra `train`: the answer is one line, with what to type."""
    for command in ("train", "bench", "compare", "profiles"):
        error = environment.run("forewarn", command, exit_codes={6}).stderr
        assert error.startswith("forewarn: error: ")
        assert error.endswith(f"{LINE_TO_TYPE}\n")
        assert len(error.splitlines()) == 1


def try_train(environment: Environment) -> None:
    """Train a model on the history; it is the one that answers."""
    environment.run("python", "-c", "import catboost, imblearn, lightgbm")  # not needed for this model
    jobs = ingest(environment)
    command = ("train", "--trials", "1", "--family", "xgboost", "--family", "online", "--json")
    trained = json.loads(environment.run("forewarn", *command).stdout)
    assert (trained["model"], trained["aliases"]) == ("small.submit.generic", ["champion"])
    route = check_usual_script(environment, jobs)["route"]
    assert (route["model"], route["version"]) == ("small.submit.generic", 1)


def ingest(environment: Environment) -> list[dict[str, Any]]:
    """Read the simulated jobs into the store, and list them."""
    environment.run("forewarn", "ingest", "parquet:jobs.parquet")
    listed = environment.run("forewarn", "jobs", "--limit", "0", "--json").stdout
    jobs = [json.loads(line) for line in listed.splitlines()]
    assert len(jobs) == JOBS
    return jobs


def check_usual_script(environment: Environment, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Check a script with the most frequent request: of a job unlike any other nothing is stated."""
    single = [job for job in jobs if job["array_job_id"] is None]
    ((user, line), _), *_ = Counter((job["user"], job["submit_line"]) for job in single).most_common(1)
    options = " ".join(line.split()[1:-1])  # between `sbatch` and the script
    environment.write("job.sbatch", f"#!/bin/bash\n#SBATCH {options}\nsleep 60\n")
    command = ("check", "job.sbatch", "--json", "-u", user, "--at", AFTERWARDS)
    # The exit code is the verdict; 3 would be "cannot say".
    answer: dict[str, Any] = json.loads(environment.run("forewarn", *command, exit_codes={0, 1, 2}).stdout)
    assert 0 < answer["failure"]["probability"] < 1
    return answer
