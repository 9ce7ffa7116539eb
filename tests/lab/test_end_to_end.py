"""From a real Slurm to a prediction: collect every ending, learn from a history, predict a job that waits."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forewarn.job.columns import KEYS
from forewarn.job.outcomes import Outcome, outcome_of_state
from forewarn.store.embedded import open_store
from lab.cluster import Lab
from lab.endings import Ending
from lab.jobs import submit, wait_ended, wait_running
from lab.synthetic import FIRST_JOB, load_jobs

EXECUTABLE = Path(sys.executable).parent / "forewarn"
Told = tuple[str, int, str]  # job, submit, outcome


@dataclass(frozen=True)
class Site:
    """Somebody who runs Forewarn beside a lab."""

    lab: Lab
    home: Path

    @property
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

    def has(self, jobs: Iterable[int]) -> Counter[Told]:
        """What the store holds of some jobs, arrays and earlier runs with them."""
        numbers = set(jobs)
        with open_store(self.home, read_only=True) as store:
            columns = [*KEYS["job"], "outcome"]
            return Counter(
                (job_id, submit, outcome or "")
                for frame in store.scan(columns=columns)
                for _, job_id, submit, outcome in frame.iter_rows()
                if int(job_id.split("_")[0]) in numbers
            )


@pytest.fixture
def site(lab: Lab, registry_template: Path, tmp_path: Path) -> Site:
    models = tmp_path / "home" / "models"
    models.mkdir(parents=True)
    (models / registry_template.name).write_bytes(registry_template.read_bytes())
    return Site(lab, tmp_path / "home")


def by_sacct(lab: Lab, jobs: Iterable[int]) -> Counter[Told]:
    """What sacct says of some jobs, which all have ended or are held."""
    ids = ",".join(map(str, jobs))
    asked = ("sacct", "-a", "-X", "-D", "-n", "-P", "-o", "JobID,Submit,State", "-j", ids)
    lines = lab.run("root", "env", "SLURM_TIME_FORMAT=%s", *asked).splitlines()
    rows = [line.split("|") for line in lines]
    return Counter((job, int(at), _outcome(state.split()[0])) for job, at, state in rows)


def _outcome(state: str) -> str:
    return "" if state == "PENDING" else str(outcome_of_state(state) or "")


def test_every_ending_is_collected(site: Site, endings: dict[str, Ending]) -> None:
    jobs = [ending.job_id for ending in endings.values()]
    said = by_sacct(site.lab, jobs)
    assert max(said.values()) == 1
    site.run("collect", "--once", "--since", "now-1day")
    assert site.has(jobs) == said, "none missing, none twice, each with its outcome"
    again = site.json("collect", "--once")
    assert (again["new_jobs"], again["changed_jobs"], again["bad"]) == (0, 0, 0)
    assert again["lag"] == 0
    outcomes = {outcome for _, _, outcome in said}
    assert outcomes >= {Outcome.COMPLETED, Outcome.FAILED, Outcome.TIMEOUT, Outcome.CANCELLED, ""}


def test_killed_again_and_again(site: Site) -> None:
    jobs = kill_again_and_again(site, 8)
    assert site.has(jobs) == by_sacct(site.lab, jobs), "none is missing, none is there twice"


def kill_again_and_again(site: Site, times: int) -> list[int]:
    """Kill a collector at any moment, slurmrestd restarted in between; the jobs that there were meanwhile."""
    luck = random.Random(7)
    jobs = [submit(site.lab, "carol", "--array=0-3", script="exit $((SLURM_ARRAY_TASK_ID % 2))")]
    command = [EXECUTABLE, "collect", "--since", "now-1hour", "--interval", "1"]
    for turn in range(times):
        jobs.append(submit(site.lab, "carol", script=f"exit {turn % 2}"))
        running = subprocess.Popen(command, env=site.environment, stderr=subprocess.DEVNULL)
        time.sleep(luck.uniform(0.5, 3))
        if turn % 8 == 4:
            site.lab.daemons.kill("slurmrestd")
            time.sleep(0.5)
            site.lab.daemons.start("slurmrestd")
        running.send_signal(signal.SIGKILL)
        running.wait()
    wait_ended(site.lab, jobs)
    site.run("collect", "--once")
    return jobs


def test_an_ending_while_slurmdbd_is_away(site: Site) -> None:
    site.run("collect", "--once", "--since", "now-1hour")
    site.lab.daemons.kill("slurmdbd")
    try:
        jobs = [submit(site.lab, "dave", script="exit 3"), submit(site.lab, "dave", "--hold", script="true")]
        assert "slurmdbd" in site.run("collect", "--once", code=8)
        assert {job for job, _, _ in site.has(jobs)} == set(map(str, jobs)), "live jobs are seen all the same"
    finally:
        site.lab.daemons.start("slurmdbd")
    wait_ended(site.lab, jobs[:1])
    site.run("collect", "--once")
    assert site.has(jobs) == by_sacct(site.lab, jobs)
    site.lab.run("dave", "scancel", str(jobs[1]))


def test_from_history_to_a_prediction(site: Site) -> None:
    lab = site.lab
    load_jobs(lab, 2500, days=14)
    # Made-up endings are chance: let something be learnt of them.
    mine = f"WHERE id_job > {FIRST_JOB} AND job_name"
    lab.sql(f"UPDATE lab_job_table SET state = 5, exit_code = 256 {mine} = 'fft';")
    lab.sql(f"UPDATE lab_job_table SET state = 3, exit_code = 0 {mine} = 'sim';")
    held: list[int] = []
    try:
        site.run("collect", "--once", "--since", "now-17days")
        trained = site.json("train", "--family", "online")
        assert trained["aliases"] == ["champion"], trained["verdict"]
        asked = ("-p", "main", "-t", "60", "-c", "4", "--mem=1000")
        held = [
            submit(lab, "alice", "-J", name, "--hold", *asked, "-D", f"/home/alice/p{n}", script="true")
            for n, name in enumerate(("fft", "sim"))
        ]
        running = submit(lab, "bob", "-J", "sim", script="sleep 60")
        held.append(running)
        wait_running(lab, running)
        bad, good, late = site.json("predict", *held)
        assert bad["failure"]["probability"] > good["failure"]["probability"]
        assert bad["failure"]["warns"]
        assert not good["failure"]["warns"]
        route = bad["route"]
        assert (route["model"], route["version"], route["phase"]) == ("lab.submit.generic", 1, "submit")
        assert bad["failure"]["causes"][0]["outcome"] == "failed"
        assert "no model for start" in late["notes"][0]
        waiting = {said["job_id"]: said for said in site.json("predict", "--pending", "-u", "alice")}
        assert waiting[str(held[0])]["failure"]["warns"]
        assert str(running) not in waiting
    finally:
        lab.try_run("root", "scancel", *map(str, held))
        lab.sql(f"DELETE FROM lab_job_table WHERE id_job > {FIRST_JOB};")


def test_learning_straight_from_accounting(site: Site) -> None:
    load_jobs(site.lab, 1000, days=4)
    try:
        benched = site.json("bench", "slurm:now-7days", "--family", "online", "--phases", "submit")
    finally:
        site.lab.sql(f"DELETE FROM lab_job_table WHERE id_job > {FIRST_JOB};")
    assert benched["log"] == "lab"
    assert benched["phases"]["submit"]["n"] > 150
