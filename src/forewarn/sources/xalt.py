"""XALT's records of programs that ran: which application a job was, where a site keeps them.

Format: https://xalt.readthedocs.io (docs/source/120_xalt_json.rst of github.com/xalt/xalt, XALT 2): one JSON
object for each start (``aaa``) and end (``zzz``) of a program, in files named
``run.<syshost>.<date>.<user>.<aaa|zzz>.<uuid>.json``. Read of it: ``userT`` (text: job_id, exec_path, user,
syshost, scheduler, run_uuid) and ``userDT`` (numbers: start_time, run_time, num_tasks). Of a link or package
record, and of a program that ran outside any job (job_id ``unknown``), nothing is taken.

What a job runs is known when it runs, not when it is submitted, and a job that never started has no record:
`with_applications` is for explaining and for studies. Put into history as a field of the request, its
absence would tell how the job ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from forewarn.errors import SourceError

# They start other programs and say nothing of the work.
_NO_WORK = frozenset(
    {"bash", "sh", "dash", "env", "srun", "mpirun", "mpiexec", "mpiexec.hydra", "orted", "hydra_pmi_proxy"}
)
_MOST_BYTES = 64 << 20  # of one record


@dataclass(frozen=True, slots=True)
class XaltRun:
    """One program that a job ran."""

    cluster: str | None
    job_id: str
    user: str | None
    path: str
    run_time: float | None  # seconds; None of a record of the start
    tasks: int | None

    @property
    def application(self) -> str:
        """The program's name."""
        return PurePosixPath(self.path).name


def read_runs(folder: Path) -> Iterator[XaltRun]:
    """The programs in a folder of records, in all its folders, each once: as it ended, if that is told."""
    runs: dict[str, XaltRun] = {}
    for path in sorted(folder.rglob("run.*.json")):
        if path.stat().st_size > _MOST_BYTES:
            continue
        try:
            record = json.loads(path.read_bytes())
        except ValueError as error:
            raise SourceError(f"{path}: no XALT record, which is JSON: {error}") from None
        run = read_run(record)
        if run is not None:
            key = str(record["userT"].get("run_uuid") or path.name)
            if key not in runs or run.run_time is not None:
                runs[key] = run
    yield from runs.values()


def read_run(record: Any) -> XaltRun | None:
    """One record; None where it tells of no program of a job.

    >>> read_run({"userT": {"job_id": "7", "exec_path": "/opt/lmp"}, "userDT": {"run_time": 2.5}}).application
    'lmp'
    """
    texts = record.get("userT") if isinstance(record, dict) else None
    if not isinstance(texts, dict):
        return None
    job, path = str(texts.get("job_id", "unknown")), str(texts.get("exec_path") or "")
    if job in ("unknown", "") or not path:
        return None
    numbers = record.get("userDT") if isinstance(record.get("userDT"), dict) else {}
    ran, tasks = numbers.get("run_time"), numbers.get("num_tasks")
    return XaltRun(
        texts.get("syshost"),
        job,
        texts.get("user"),
        path,
        float(ran) if isinstance(ran, int | float) and ran > 0 else None,
        int(tasks) if isinstance(tasks, int | float) and tasks > 0 else None,
    )


def applications(runs: Iterable[XaltRun]) -> dict[str, str]:
    """The application of each job: the program that it spent most time in, launchers and shells aside."""
    spent: dict[str, dict[str, float]] = {}
    for run in runs:
        if run.application not in _NO_WORK:
            times = spent.setdefault(run.job_id, {})
            times[run.application] = times.get(run.application, 0.0) + (run.run_time or 0.0) * (
                run.tasks or 1
            )
    return {job: max(sorted(times), key=times.__getitem__) for job, times in spent.items()}


def with_applications(jobs: pl.DataFrame, known: dict[str, str]) -> pl.DataFrame:
    """Jobs with what they ran, where that was not known otherwise.

    Slurm gives an array task's own number to XALT, which a record has as `raw_id`.
    """
    raw = pl.col("raw_id").cast(pl.String)
    named = pl.coalesce(
        pl.col("job_id").replace_strict(known, default=None, return_dtype=pl.String),
        raw.replace_strict(known, default=None, return_dtype=pl.String),
    )
    return jobs.with_columns(application=pl.coalesce("application", named))
