"""From sacct's text to advice: jobs that Slurm calls FAILED, and whose steps were killed for their memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from forewarn.config import Config
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import read_table
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.learn.fitting.train import train
from forewarn.learn.registry.registry import Registry
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.sources.base import open_source
from forewarn.store.opening import open_store
from tests.serve.conftest import Forewarn

pytestmark = pytest.mark.slow

HEADER = (
    "JobID|Cluster|User|Account|Partition|Submit|Start|End|Timelimit|State|ExitCode|DerivedExitCode|ReqCPUS|"
    "ReqMem|ReqTRES|NNodes|NCPUS|AllocTRES|NodeList|NTasks|TotalCPU|MaxRSS|JobName"
)
FIELDS = HEADER.split("|")
BEGIN, STEP = 1_700_000_000, 120  # seconds between submits
PEOPLE, JOBS = 24, 60
SEVEN = 7
SCRIPT = """#!/bin/bash
#SBATCH --job-name=solve
#SBATCH --account=lab
#SBATCH --partition=main
#SBATCH --ntasks=1
#SBATCH --mem=2G
#SBATCH --time=01:00:00
srun hostname || exit 1
"""


def clock(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def row(**cells: object) -> str:
    return "|".join(str(cells.get(name, "")) for name in FIELDS)


def job(number: int, user: str, submit: int, memory: int, need: int, name: str = "solve") -> Iterator[str]:
    """A job of so many megabytes that needs so many, as 24.11 prints it: its row and its steps'."""
    killed = need > memory
    begin, end = submit + 5, submit + (35 if killed else 605)
    tres = f"cpu=1,mem={memory}M,node=1"
    times = {"Submit": clock(submit), "Start": clock(begin), "End": clock(end)}
    given = {"NNodes": 1, "NCPUS": 1, "AllocTRES": tres, "NodeList": "n1"}
    asked = {"Timelimit": "01:00:00", "ReqCPUS": 1, "ReqMem": f"{memory}M", "ReqTRES": tres}
    who = {"Cluster": "c", "User": user, "Account": "lab", "Partition": "main", "JobName": name}
    script = {"State": "FAILED", "ExitCode": "1:0"} if killed else {"State": "COMPLETED", "ExitCode": "0:0"}
    step = {"State": "OUT_OF_MEMORY", "ExitCode": "0:125"} if killed else script
    yield row(JobID=number, DerivedExitCode=step["ExitCode"], **who, **asked, **given, **times, **script)
    yield row(JobID=f"{number}.batch", JobName="batch", MaxRSS="3000K", NTasks=1, **given, **times, **script)
    used = f"{min(need, memory)}M"
    yield row(JobID=f"{number}.0", JobName="solver", MaxRSS=used, NTasks=1, **given, **times, **step)


def history() -> tuple[str, int]:
    """People who are killed for memory some times before they ask for more, and the moment after it all."""
    random = np.random.default_rng(11)
    lines, number, at = [HEADER], 1, BEGIN
    memory = dict.fromkeys(range(PEOPLE), 2048)
    need = {person: int(random.choice([800, 1200, 3000, 5000])) for person in range(PEOPLE)}
    kills = dict.fromkeys(range(PEOPLE), 0)
    for _ in range(PEOPLE * JOBS):
        person = int(random.integers(PEOPLE))
        wanted = int(need[person] * random.uniform(0.9, 1.1))
        lines += job(number, f"user{person}", at, memory[person], wanted)
        kills[person] += wanted > memory[person]
        if (
            kills[person] >= 12
        ):  # at last they ask for more, and later begin something new with the old request
            memory[person], kills[person] = 8192, 0
        elif memory[person] > 2048 and random.random() < 0.06:
            memory[person], need[person] = 2048, int(random.choice([800, 1200, 3000, 5000]))
        number, at = number + 1, at + STEP
    for _ in range(SEVEN):
        lines += job(number, "newcomer", at, 2048, 3000)
        number, at = number + 1, at + STEP
    return "\n".join(lines) + "\n", at + 3600


def test_after_seven_of_them_memory_is_advised(
    forewarn: Forewarn,
    tmp_path: Path,
    registry_template: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path / "home"
    (home / "models").mkdir(parents=True)
    shutil.copy(registry_template, home / "models" / registry_template.name)
    monkeypatch.setenv("FOREWARN_HOME", str(home))
    text, at = history()
    (tmp_path / "history.txt").write_text(text)
    with open_store(Config(home=home)) as store:
        review_missing_fields(store, ingest(store, open_source(f"sacct:{tmp_path / 'history.txt'}")).clusters)
        table = read_table(store, "c", "submit", POPULATIONS["wasted"])
        settings = FitSettings(trials=1, families=("lightgbm",), threads=1)
        train(table, settings, searches=tmp_path / "searches", at=at).save(tmp_path / "bundle")
    registry = Registry(home)
    version = registry.record(tmp_path / "bundle")
    assert version
    if "champion" not in version.aliases:
        registry.promote(version.name, version.version)
    listed = forewarn("jobs", "-u", "newcomer", "--json").lines
    assert [(one["state"], one["outcome"]) for one in listed] == [("FAILED", "out_of_memory")] * SEVEN
    script = tmp_path / "job.sbatch"
    script.write_text(SCRIPT)
    result = forewarn("check", script, "-u", "newcomer", "--at", at, "--no-test-only", "--json")
    assessment = result.json
    causes = {cause["outcome"]: cause["probability"] for cause in assessment["failure"]["causes"]}
    assert causes["out_of_memory"] > 0.5 * assessment["failure"]["probability"]
    changes = [change["option"] for advice in assessment["advice"] for change in advice["changes"]]
    assert "mem" in changes, assessment["advice"]
