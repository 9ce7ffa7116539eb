"""Details of one job from scontrol and sacct that are not in its record: outputs, script, steps, start."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from forewarn.errors import RefusedError, SchedulerError
from forewarn.job.exit_codes import from_sacct_text
from forewarn.job.units import JobId
from forewarn.sources.commands.runner import Runner
from forewarn.sources.scontrol.text import fields, records
from forewarn.sources.slurm.scheduler import JobDetails, StepRecord

_SCRIPT = re.compile(r"^Batch Script for [^\n]*\n-{10,}\n", re.MULTILINE)
_EXIT = re.compile(r"(\d+):(\d+)")
_UNKNOWN_JOB = 2017
T = TypeVar("T")
_Steps = tuple[tuple[StepRecord, ...], str | None]  # and whose job it is
_NO_STEPS: _Steps = ((), None)


def read_details(runner: Runner, target: JobId) -> JobDetails:
    """Read each part where it is available."""
    notes: list[str] = []

    def attempt(what: str, ask: Callable[[], T], otherwise: T) -> T:
        try:
            return ask()
        except SchedulerError as error:
            if not (isinstance(error, RefusedError) and error.code == _UNKNOWN_JOB):
                notes.append(f"could not read {what}: {error}")
            return otherwise

    shown = attempt("the controller's record", lambda: _shown(runner, target), dict[str, str]())
    start = shown.get("StartTime", "") if shown.get("JobState") == "PENDING" else ""
    outputs = tuple(path for key in ("StdErr", "StdOut") if (path := shown.get(key)))
    owner = shown.get("UserId", "").partition("(")[0] or None
    steps, past_owner = attempt("the steps", lambda: _steps(runner, target), _NO_STEPS)
    if owner and past_owner not in (None, owner):  # accounting has an earlier job with this id
        return JobDetails(user=owner, outputs=outputs, notes=tuple(notes))
    return JobDetails(
        user=owner or past_owner,
        outputs=outputs or attempt("sacct's StdOut", lambda: _outputs(runner, target), ()),
        script=attempt("the script", lambda: _script(runner, target), None),
        start_estimate=int(start) if start.isdigit() else None,
        steps=steps,
        notes=tuple(notes),
    )


def _shown(runner: Runner, target: JobId) -> dict[str, str]:
    text = runner.text("scontrol", "-o", "show", "job", target.job)
    for _, record in records([(0, text.encode())]):
        found = fields(record)
        task = found.get("ArrayTaskId")
        if target.task is None or task is None or task == str(target.task):
            return found
    return {}


def _outputs(runner: Runner, target: JobId) -> tuple[str, ...]:
    """Read the outputs from accounting, which has them since 24.05, as they were requested."""
    if "stdout" not in runner.text("sacct", "--helpformat").lower().split():
        return ()
    text = runner.text("sacct", "-a", "-n", "-P", "-X", "-j", target.job, "-o", "StdErr,StdOut")
    return tuple(path for path in (text.splitlines() or [""])[-1].split("|") if path)


def _script(runner: Runner, target: JobId) -> str | None:
    """Read the script, where the site keeps it (AccountingStoreFlags=job_script) and shows it."""
    text = _SCRIPT.sub("", runner.text("sacct", "-a", "-B", "-j", str(target.number)), count=1)
    return text if text.startswith("#!") else None


def _steps(runner: Runner, target: JobId) -> _Steps:
    """Read the steps of the last run, and whose it is: an earlier run ended in a requeue."""
    columns = "JobID,State,ExitCode,NodeList,User,JobName"
    found, owner = [], None
    for line in runner.text("sacct", "-a", "-n", "-P", "-j", target.job, "-o", columns).splitlines():
        job_id, state, code, nodes, user, name = (line.split("|", 5) + [""] * 6)[:6]
        of_job, dot, step = job_id.partition(".")
        owner = user or owner  # steps have none
        exit_pair = _EXIT.fullmatch(code)
        if dot and of_job == target.job:
            found.append(
                StepRecord(
                    name=step,
                    state=state.split()[0] if state else None,
                    exit_code=from_sacct_text(int(exit_pair[1]), int(exit_pair[2])) if exit_pair else None,
                    exit_signal=int(exit_pair[2]) if exit_pair else None,
                    nodes=nodes or None,
                    command=name if name and name != step else None,
                )
            )
    return tuple(found), owner
