"""What `forewarn check` finds in scripts beside what becomes of them on a real Slurm.

*Right*: it says that a script cannot run, or warns, and the job does not go well; or it finds nothing wrong,
and the job completes. *Wrong*: it says so of one that completes and has no flaw. *Silent*: a job fails, and
nothing was found. Nothing may be wrong; what it is silent about is listed, so that a change either way is
noticed.

What is found is in the script, against the cluster's nodes and partitions, and in Slurm's own answer. The
verdict that a person reads rests on a model too, where there is a history: it is judged before the author has
ever run these scripts, when it must not go beyond what was found, and after three runs of each, when it must
know their fate. *Unsaid*: it cannot say, and the job completes.
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
from lab.synthetic import FIRST_JOB, delete_jobs, load_jobs
from lab.users import PEOPLE, LabUser
from tests.lab.conftest import one_version
from tests.lab.site import EXECUTABLE, Site
from tests.lab.trial_scripts import PENDING, REFUSED, TRIALS, Trial

pytestmark = one_version
ALICE, BOB = PEOPLE[:2]
WELL = "completed"
CANNOT_RUN, WARNING, NOTHING = "cannot run", "warning", "nothing"
# How much memory a program takes, and what it finds, no script tells; the others no rule looks at.
SILENT = {"too_little_memory", "exits_by_test"}
SILENT |= {"unset_variable", "steps_too_wide"}


JUDGEMENTS = ("right", "wrong", "silent", "unsaid")
BY_VERDICT = {"likely_to_fail": CANNOT_RUN, "warning": WARNING, "fine": NOTHING}


@dataclass(frozen=True)
class Row:
    """A script, what was said of it, and what became of it."""

    trial: Trial
    prediction: str  # cannot run, warning, nothing, or the verdict `cannot_say`
    findings: tuple[str, ...]
    ended: str

    @property
    def judgement(self) -> str:
        if self.prediction in (CANNOT_RUN, WARNING):
            return "right" if self.ended != WELL or self.trial.has_flaw else "wrong"
        if self.ended != WELL:
            return "silent"
        return "right" if self.prediction == NOTHING else "unsaid"

    def __str__(self) -> str:
        found = "; ".join(self.findings) or "-"
        return f"| {self.trial.name} | {self.prediction} | {found} | {self.ended} | {self.judgement} |"


def test_predictions_for_scripts_come_true(lab: Lab, site: Site) -> None:
    folder = _folder(lab)
    site.run("collect", "--once")
    makers = _place(lab, folder)
    prediction = {name: _findings(one) for name, one in _checked(site, folder).items()}
    ended = _run(lab, folder, makers)
    rows = [Row(trial, *prediction[trial.name], ended[trial.name]) for trial in TRIALS]
    print("\n".join(map(str, rows)))
    assert ended == {trial.name: trial.ends for trial in TRIALS}
    assert [str(row) for row in rows if row.judgement == "wrong"] == []
    assert {row.trial.name for row in rows if row.judgement == "silent"} == SILENT


def test_the_verdict_comes_true(lab: Lab, site: Site) -> None:
    folder = _folder(lab)
    load_jobs(lab, 2500, days=14)
    # Made-up endings are chance: let something be learnt of them.
    mine = f"WHERE id_job > {FIRST_JOB} AND job_name"
    lab.sql(f"UPDATE lab_job_table SET state = 5, exit_code = 256 {mine} = 'fft';")
    lab.sql(f"UPDATE lab_job_table SET state = 3, exit_code = 0 {mine} = 'sim';")
    try:
        site.run("collect", "--once", "--since", "now-17days", "--no-assess")
        trained = site.json("train", "--family", "lightgbm", "--family", "online", "--trials", "1")
        assert trained["aliases"] == ["champion"], trained["verdict"]
        makers = _place(lab, folder)
        new = _verdicts(_checked(site, folder, BOB))
        for _ in range(3):
            ended = _run(lab, folder, makers)
            assert ended == {trial.name: trial.ends for trial in TRIALS}
            makers = _place(lab, folder)
        site.run("collect", "--once", "--no-assess")
        checked = _checked(site, folder)
        known = _verdicts(checked)
        lab.run("root", "scancel", *map(str, makers))
    finally:
        delete_jobs(lab)
    # Of a script that somebody has never run, findings are all that is known.
    by = {what: {name for name, one in new.items() if one["judgement"] == what} for what in JUDGEMENTS}
    assert by["wrong"] == set()
    assert by["silent"] == SILENT
    assert by["unsaid"] == {trial.name for trial in TRIALS if trial.ends == WELL and not trial.has_flaw}
    # After three runs of each the history knows the rest.
    assert {name: one for name, one in known.items() if one["judgement"] != "right"} == {}
    modelled = [one["route"]["model"] for one in checked.values() if one["verdict"] == "fine"]
    assert set(modelled) == {"lab.submit.generic"}
    killed = checked["too_little_memory"]["failure"]["causes"][0]
    assert killed["outcome"] == "out_of_memory", "as its own runs ended"


def _folder(lab: Lab) -> Path:
    return lab.state / "home" / ALICE.name / "trial"


def _run(lab: Lab, folder: Path, makers: list[int]) -> dict[str, str]:
    """Submit all of them, wait, and tell how each ended."""
    jobs = {trial.name: _submitted(lab, trial, folder) for trial in TRIALS}
    for maker in makers:
        lab.run("root", "scontrol", "release", str(maker))
    wait_ended(lab, [job for trial in TRIALS if trial.ends != PENDING and (job := jobs[trial.name])])
    ended = {trial.name: _ended(lab, jobs[trial.name]) for trial in TRIALS}
    lab.run("root", "scancel", *(str(jobs[trial.name]) for trial in TRIALS if trial.ends == PENDING))
    return ended


def _verdicts(checked: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The verdict of each script beside its fate, and why."""
    rows = {}
    for trial in TRIALS:
        assessment = checked[trial.name]
        prediction = BY_VERDICT.get(assessment["verdict"], assessment["verdict"])
        judgement = Row(trial, prediction, (), trial.ends).judgement
        rows[trial.name] = {
            "judgement": judgement,
            "verdict": assessment["verdict"],
            "why": assessment["summary"],
        }
    print("\n".join(f"{name}: {row}" for name, row in rows.items()))
    return rows


def _place(lab: Lab, folder: Path) -> list[int]:
    """Write the scripts and what lies beside them; the jobs that make what others need, held."""
    shutil.rmtree(folder, ignore_errors=True)  # of a first try
    folder.mkdir()
    makers = []
    for trial in TRIALS:
        text = trial.text
        if trial.makes:
            maker_script = f"sleep 1; echo 1 > trial/{trial.makes}"
            makers.append(submit(lab, ALICE.name, "--hold", "-J", "maker", "-t", "1", script=maker_script))
            text = text.replace("@JOB@", str(makers[-1]))
        for name, content in {_file(trial): text, **trial.files}.items():
            (folder / name).write_bytes(content.encode())
    for path in (folder, *folder.iterdir()):
        os.chown(path, ALICE.uid, ALICE.uid)
    return makers


def _file(trial: Trial) -> str:
    return f"{trial.name}.sbatch"


def _checked(site: Site, folder: Path, user: LabUser = ALICE) -> dict[str, Any]:
    """What is said of each script, checked in the folder from which they are submitted."""
    # A Python that can be looked into, whatever stands on PATH.
    path = f"{site.lab.state / 'bin'}:{EXECUTABLE.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [EXECUTABLE, "check", "-u", user.name, "--json", *(_file(trial) for trial in TRIALS)],
        env=site.environment | {"PATH": path, "LAB_USER": user.name},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    return {Path(one["script"]).stem: one for one in json.loads(done.stdout)}


def _findings(assessment: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    odd = (assessment["oddness"] or {}).get("oddities", ())
    certain = [one["what"] for one in odd if one["impossible"]]
    certain += [one["what"] for one in assessment["findings"] if one["severity"] == "error"]
    doubts = [one["what"] for one in assessment["findings"] if one["severity"] == "warning"]
    prediction = CANNOT_RUN if certain else WARNING if doubts else NOTHING
    return prediction, (*certain, *doubts)


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
