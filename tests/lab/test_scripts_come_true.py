"""What `forewarn check` finds in scripts beside what becomes of them on a real Slurm.

*Right*: it says that a script cannot run, or warns, and the job does not go well; or it finds nothing wrong,
and the job completes. *Wrong*: it says so of one that completes and has no flaw. *Silent*: a job fails, and
nothing was found. Nothing may be wrong; what it is silent about is listed, so that a change either way is
noticed.

What is found is in the script, against the cluster's nodes and partitions, and in Slurm's own answer. What
a model says of the same scripts depends on what their author ran before: see docs/measurements.md.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.cluster import Lab
from lab.jobs import records, submit, wait_ended, wait_until
from lab.users import PEOPLE
from tests.lab.conftest import one_version
from tests.lab.site import EXECUTABLE, Site
from tests.lab.trial_scripts import PENDING, REFUSED, TRIALS, Trial

pytestmark = one_version
ALICE = PEOPLE[0]
WELL = "completed"
CANNOT_RUN, WARNING, NOTHING = "cannot run", "warning", "nothing"
# How much memory a program takes, and what it finds, no script tells; the others no rule looks at.
SILENT = {"too_little_memory", "exits_by_test"}
SILENT |= {"unset_variable", "steps_too_wide"}


@dataclass(frozen=True)
class Row:
    """A script, what was said of it, and what became of it."""

    trial: Trial
    said: str  # cannot run, warning, nothing
    findings: tuple[str, ...]
    ended: str

    @property
    def judgement(self) -> str:
        if self.said != NOTHING:
            return "right" if self.ended != WELL or self.trial.has_flaw else "wrong"
        return "right" if self.ended == WELL else "silent"

    def __str__(self) -> str:
        found = "; ".join(self.findings) or "-"
        return f"| {self.trial.name} | {self.said} | {found} | {self.ended} | {self.judgement} |"


def test_what_is_said_comes_true(lab: Lab, site: Site) -> None:
    folder = lab.state / "home" / ALICE.name / "trial"
    site.run("collect", "--once")
    makers = _place(lab, folder)
    said = _said(site, folder)
    jobs = {trial.name: _submitted(lab, trial, folder) for trial in TRIALS}
    for maker in makers:
        lab.run("root", "scontrol", "release", str(maker))
    wait_ended(lab, [job for trial in TRIALS if trial.ends != PENDING and (job := jobs[trial.name])])
    rows = [Row(trial, *said[trial.name], _ended(lab, jobs[trial.name])) for trial in TRIALS]
    lab.run("root", "scancel", *(str(jobs[trial.name]) for trial in TRIALS if trial.ends == PENDING))
    print("\n".join(map(str, rows)))
    assert {row.trial.name: row.ended for row in rows} == {trial.name: trial.ends for trial in TRIALS}
    assert [str(row) for row in rows if row.judgement == "wrong"] == []
    assert {row.trial.name for row in rows if row.judgement == "silent"} == SILENT


def _place(lab: Lab, folder: Path) -> list[int]:
    """Write the scripts and what lies beside them; the jobs that make what others need, held."""
    shutil.rmtree(folder, ignore_errors=True)  # of a first try
    folder.mkdir()
    makers = []
    for trial in TRIALS:
        text = trial.text
        if trial.makes:
            made = f"sleep 1; echo 1 > trial/{trial.makes}"
            makers.append(submit(lab, ALICE.name, "--hold", "-J", "maker", "-t", "1", script=made))
            text = text.replace("@JOB@", str(makers[-1]))
        for name, content in {_file(trial): text, **trial.files}.items():
            (folder / name).write_bytes(content.encode())
    for path in (folder, *folder.iterdir()):
        os.chown(path, ALICE.uid, ALICE.uid)
    return makers


def _file(trial: Trial) -> str:
    return f"{trial.name}.sbatch"


def _said(site: Site, folder: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """What is said of each script, and why, checked in the folder from which they are submitted."""
    # A Python that can be looked into, whatever stands on PATH.
    path = f"{site.lab.state / 'bin'}:{EXECUTABLE.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [EXECUTABLE, "check", "-u", ALICE.name, "--json", *(_file(trial) for trial in TRIALS)],
        env=site.environment | {"PATH": path, "LAB_USER": ALICE.name},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    return {Path(one["script"]).stem: _findings(one) for one in json.loads(done.stdout)}


def _findings(told: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    odd = (told["oddness"] or {}).get("oddities", ())
    certain = [one["what"] for one in odd if one["impossible"]]
    certain += [one["what"] for one in told["findings"] if one["severity"] == "error"]
    doubts = [one["what"] for one in told["findings"] if one["severity"] == "warning"]
    said = CANNOT_RUN if certain else WARNING if doubts else NOTHING
    return said, (*certain, *doubts)


def _submitted(lab: Lab, trial: Trial, folder: Path) -> int | None:
    """Its number; None where sbatch refuses it."""
    inside = f"/home/{ALICE.name}/{folder.name}"
    done = lab.try_run(ALICE.name, "sbatch", "--parsable", "-D", inside, f"{inside}/{_file(trial)}")
    return int(done.stdout.strip().split(";")[0]) if done.returncode == 0 else None


def _ended(lab: Lab, job: int | None) -> str:
    """How it ended; of an array or a het job the worst."""
    if job is None:
        return REFUSED
    wait_until(lambda: bool(records(lab, [job])), 30, f"accounting knows job {job}")
    states = {record.state.lower() for record in records(lab, [job])}
    return next(iter(sorted(states - {WELL})), WELL)
