"""Details of a simulated job: its script, and its output as a file that can be read like any other."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from forewarn.files import write_file
from forewarn.sources.simulator.live.scripts import output_of, script_of
from forewarn.sources.simulator.live.world import VisitorJob
from forewarn.sources.slurm.scheduler import JobDetails, StepRecord

_MOST_OUTPUTS = 500  # files kept


def details_of(
    job: dict[str, Any], case: tuple[int, int], submitted: VisitorJob | None, folder: Path
) -> JobDetails:
    """Write the details of a job by its record; `case` is its campaign and input."""
    script = submitted.submission.script if submitted else script_of(job, *case)
    if job["end"] is None or job["start"] is None:
        return JobDetails(script=script)
    path = _write_output(folder / "output", job)
    step = StepRecord(
        name="batch",
        state=job["state"],
        exit_code=job["exit_code"],
        exit_signal=job["exit_signal"],
        nodes=job["nodes"],
        command=None,
    )
    return JobDetails(
        script=script,
        outputs=() if path is None else (str(path),),
        steps=(step,),
        notes=() if path else ("the output of a simulated job needs a home that can be written",),
    )


def _write_output(folder: Path, job: dict[str, Any]) -> Path | None:
    """Write the output, where it is not there yet, and delete the oldest of many; None without permission."""
    path = folder / f"slurm-{job['job_id']}-{job['submit']}.out"
    try:
        if not path.exists():
            folder.mkdir(exist_ok=True)
            write_file(path, output_of(job), private=True)
            os.utime(path, (job["end"], job["end"]))
            others = sorted(folder.iterdir(), key=lambda one: one.lstat().st_ctime)
            for old in others[:-_MOST_OUTPUTS]:
                with suppress(OSError):
                    old.unlink()
    except OSError:
        return None
    return path
