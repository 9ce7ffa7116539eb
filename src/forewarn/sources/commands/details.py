"""What scontrol and sacct tell of one job beside its record: outputs, script, steps, Slurm's estimate."""

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


def read_details(runner: Runner, asked: JobId) -> JobDetails:
    """Each part where it can be had."""
    notes: list[str] = []

    def tried(what: str, ask: Callable[[], T], otherwise: T) -> T:
        try:
            return ask()
        except SchedulerError as error:
            if not (isinstance(error, RefusedError) and error.code == _UNKNOWN_JOB):
                notes.append(f"{what} could not be asked: {error}")
            return otherwise

    shown = tried("the controller", lambda: _shown(runner, asked), dict[str, str]())
    start = shown.get("StartTime", "") if shown.get("JobState") == "PENDING" else ""
    outputs = tuple(path for key in ("StdErr", "StdOut") if (path := shown.get(key)))
    return JobDetails(
        outputs=outputs or tried("sacct's StdOut", lambda: _outputs(runner, asked), ()),
        script=tried("the script", lambda: _script(runner, asked), None),
        start_estimate=int(start) if start.isdigit() else None,
        steps=tried("the steps", lambda: _steps(runner, asked), ()),
        notes=tuple(notes),
    )


def _shown(runner: Runner, asked: JobId) -> dict[str, str]:
    text = runner.text("scontrol", "-o", "show", "job", asked.job)
    for _, record in records([(0, text.encode())]):
        found = fields(record)
        task = found.get("ArrayTaskId")
        if asked.task is None or task is None or task == str(asked.task):
            return found
    return {}


def _outputs(runner: Runner, asked: JobId) -> tuple[str, ...]:
    """Since 24.05 accounting has them, as they were asked for."""
    if "stdout" not in runner.text("sacct", "--helpformat").lower().split():
        return ()
    text = runner.text("sacct", "-a", "-n", "-P", "-X", "-j", asked.job, "-o", "StdErr,StdOut")
    return tuple(path for path in (text.splitlines() or [""])[-1].split("|") if path)


def _script(runner: Runner, asked: JobId) -> str | None:
    """Where the site keeps scripts (AccountingStoreFlags=job_script), and to whom it shows them."""
    text = _SCRIPT.sub("", runner.text("sacct", "-a", "-B", "-j", str(asked.number)), count=1)
    return text if text.startswith("#!") else None


def _steps(runner: Runner, asked: JobId) -> tuple[StepRecord, ...]:
    """Of its last run: an earlier one ended as a run that was requeued."""
    command = ("sacct", "-a", "-n", "-P", "-j", asked.job, "-o", "JobID,State,ExitCode,NodeList,JobName")
    found = []
    for line in runner.text(*command).splitlines():
        job_id, state, code, nodes, name = (line.split("|", 4) + [""] * 5)[:5]
        of_job, dot, step = job_id.partition(".")
        exited = _EXIT.fullmatch(code)
        if dot and of_job == asked.job:
            found.append(
                StepRecord(
                    name=step,
                    state=state.split()[0] if state else None,
                    exit_code=from_sacct_text(int(exited[1]), int(exited[2])) if exited else None,
                    exit_signal=int(exited[2]) if exited else None,
                    nodes=nodes or None,
                    command=name if name and name != step else None,
                )
            )
    return tuple(found)
