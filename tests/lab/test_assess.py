"""Scripts and jobs that wait, assessed beside a real Slurm: by an ordinary user, with commands it takes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from forewarn.assess.advice.script_changes import for_job
from forewarn.assess.assessment import Advice, Change
from forewarn.config import Config
from forewarn.store.opening import open_store
from lab.cluster import Lab
from lab.jobs import submit
from lab.synthetic import FIRST_JOB, delete_jobs, load_jobs
from tests.lab.conftest import one_version
from tests.lab.site import EXECUTABLE, Site

SCRIPT = """#!/bin/sh
#SBATCH -J {name} -p main -t 60 -c 4 --mem=1000
hostname
"""


@one_version
def test_an_ordinary_user_checks_a_script(site: Site, tmp_path: Path) -> None:
    """With a bundle that somebody exported, and their own sacct; nothing of the site's is within reach."""
    lab = site.lab
    load_jobs(lab, 2500, days=14)
    mine = f"WHERE id_job > {FIRST_JOB} AND job_name"
    lab.sql(f"UPDATE lab_job_table SET state = 5, exit_code = 256 {mine} = 'fft';")
    lab.sql(f"UPDATE lab_job_table SET state = 3, exit_code = 0 {mine} = 'sim';")
    try:
        site.run("collect", "--once", "--since", "now-17days", "--no-assess")
        site.run("train", "--family", "online", "--json")
        site.run("models", "export", "lab.submit.generic", "-o", tmp_path / "lab.tar.gz")
        own = {k: v for k, v in site.environment.items() if not k.startswith(("FOREWARN", "SLURM"))}
        own |= {
            "FOREWARN_HOME": str(tmp_path / "alice"),
            "FOREWARN_MODEL": str(tmp_path / "lab.tar.gz"),
            "PATH": f"{lab.state / 'bin'}:{own['PATH']}",
        }
        assessments = {}
        for name in ("fft", "sim"):
            script = tmp_path / f"{name}.sbatch"
            script.write_text(SCRIPT.format(name=name))
            done = subprocess.run(
                [EXECUTABLE, "check", script, "-u", "alice", "--no-test-only", "--json"],
                env=own,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode < 3, done.stderr
            assessments[name] = json.loads(done.stdout)
    finally:
        delete_jobs(lab)
    bad, good = assessments["fft"], assessments["sim"]
    assert bad["route"]["model"] == "lab.submit.generic"
    assert bad["failure"]["probability"] > good["failure"]["probability"] + 0.05
    assert bad["nodes"]["fit"] > 0, "the machine was looked at too"
    with open_store(Config(home=tmp_path / "alice"), read_only=True) as store:
        users = {user for frame in store.scan(columns=["user"]) for user in frame["user"].unique()}
    assert users == {"alice"}, "nobody else's jobs were read"


@pytest.mark.parametrize(
    ("option", "before", "after", "shown"),
    [
        ("mem", "100M", "300M", "MinMemoryNode=300M"),
        ("time", "00:10:00", "00:20:00", "TimeLimit=00:20:00"),
        ("mem-per-cpu", "100M", "200M", "MinMemoryCPU=200M"),
    ],
)
@one_version
def test_slurm_takes_the_commands_of_advice(
    lab: Lab, option: str, before: str | None, after: str, shown: str
) -> None:
    """As the job's own user, while it waits."""
    change = Change(option=option, before=before, after=after)
    memory = f"--{option}=100" if option.startswith("mem") else "--mem=100"
    job = submit(lab, "alice", "--hold", "-p", "main", "-t", "10", memory, script="true")
    try:
        advice = Advice(steps=(), because=(), changes=(change,), risk_before=0.5, risk_after=0.1)
        command = for_job(advice, str(job)).command
        assert command
        lab.run("alice", *command.split())
        shown_job = lab.run("root", "scontrol", "show", "job", str(job))
        assert shown in shown_job
    finally:
        lab.try_run("root", "scancel", str(job))
