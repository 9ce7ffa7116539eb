"""Somebody who runs Forewarn beside a lab, and what sacct says of the same jobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from forewarn.config import Config
from forewarn.job.columns import KEYS
from forewarn.job.outcomes import outcome_of_state
from forewarn.store.opening import open_store
from lab.cluster import Lab

EXECUTABLE = Path(sys.executable).parent / "forewarn"
JobEnd = tuple[str, int, str]  # job, submit, outcome


@dataclass(frozen=True)
class Site:
    """Somebody who runs Forewarn beside a lab."""

    lab: Lab
    home: Path

    @cached_property
    def environment(self) -> dict[str, str]:
        others = {k: v for k, v in os.environ.items() if not k.startswith(("FOREWARN", "SLURM"))}
        return others | {
            "FOREWARN_HOME": str(self.home),
            "FOREWARN_SLURMRESTD": self.lab.rest_url,
            "FOREWARN_SLURM_USER": "root",
            # 22.05's controller does not say it: without, slurmdbd is asked, which may be away.
            "FOREWARN_CLUSTER": self.lab.settings.cluster,
            "SLURM_JWT": self.lab.token("root", 3600),
        }

    def run(self, *args: object, code: int = 0) -> str:
        done = subprocess.run(
            [EXECUTABLE, *map(str, args)], env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def json(self, *args: object) -> Any:
        return json.loads(self.run(*args, "--json"))

    def observations(self) -> list[dict[str, Any]]:
        """All that was ever seen of jobs."""
        with open_store(Config(home=self.home), read_only=True) as store:
            return store.observations("job", {"cluster": self.lab.settings.cluster}).to_dicts()

    def has(self, jobs: Iterable[int]) -> Counter[JobEnd]:
        """What the store holds of some jobs, arrays and earlier runs with them."""
        numbers = set(jobs)
        with open_store(Config(home=self.home), read_only=True) as store:
            columns = [*KEYS["job"], "outcome"]
            return Counter(
                (job_id, submit, outcome or "")
                for frame in store.scan(columns=columns)
                for _, job_id, submit, outcome in frame.iter_rows()
                if int(job_id.split("_")[0]) in numbers
            )


def by_sacct(lab: Lab, jobs: Iterable[int]) -> Counter[JobEnd]:
    """What sacct says of some jobs, which all have ended or are held."""
    ids = ",".join(map(str, jobs))
    asked = ("sacct", "-a", "-X", "-D", "-n", "-P", "-o", "JobID,Submit,State", "-j", ids)
    lines = lab.run("root", "env", "SLURM_TIME_FORMAT=%s", *asked).splitlines()
    rows = [line.split("|") for line in lines]
    return Counter((job, int(at), _outcome(state.split()[0])) for job, at, state in rows)


def _outcome(state: str) -> str:
    return "" if state == "PENDING" else str(outcome_of_state(state) or "")
