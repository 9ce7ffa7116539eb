"""XALT's records of programs, as a history of what each job ran.

Format: https://xalt.readthedocs.io (docs/source/120_xalt_json.rst of github.com/xalt/xalt, XALT 2): one JSON
object for each start (``aaa``) and end (``zzz``) of a program, in files named
``run.<syshost>.<date>.<user>.<aaa|zzz>.<uuid>.json``. A folder is read with all its folders; a file holds
one record, or one on each line. Read of a record: ``userT`` (text: job_id, exec_path, user, syshost,
run_uuid), ``userDT`` (numbers: start_time, end_time, run_time, num_tasks), ``libA`` and the loaded modules.
Link and package records, and programs that ran outside any job (job_id ``unknown``), are left out.

The programs of a job are known when it runs, not when it is submitted, and a job that never started has no
record. So they are never fields of that job: `features/programs.py` gives them to *later* jobs of the same
user and name.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import polars as pl

from forewarn.errors import BadRow, SourceError
from forewarn.job.columns import to_frame
from forewarn.job.record import Observation, ProgramRun
from forewarn.sources.base import EARLIEST, LATEST, Batch, Source, line_blocks, open_file

# Programs that only start others, and show nothing of the job's work.
_NO_WORK = frozenset(
    {"bash", "sh", "dash", "env", "srun", "mpirun", "mpiexec", "mpiexec.hydra", "orted", "hydra_pmi_proxy"}
)
_MOST_BYTES = 64 << 20  # of one record
_MOST_LIBRARIES = 64
_VERSION = re.compile(r"v?\d+(?:\.\d+)+[-\w.]*")
_SYSTEM_LIBRARIES = re.compile(
    r"(?:ld-linux|ld|linux-vdso|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libutil|libxalt_init)[-.]"
)


class NoRecordError(ValueError):
    """The error of one record: the field, then the reason."""


class XaltSource(Source):
    """XALT's run records: a folder of them, or one file."""

    name: ClassVar[str] = "xalt"

    def batches(self) -> Iterator[Batch]:
        """Yield the records in the order of file names; start and end are two observations of one run."""
        found: list[Observation] = []
        lines: list[int] = []
        bad: list[BadRow] = []
        records, outside = 0, 0
        for records, (file, line, record) in enumerate(self._records(), 1):
            try:
                if isinstance(record, ValueError):
                    raise NoRecordError("record", f"not JSON: {record}")
                run = read_run(record, self.options.cluster, otherwise=self.cluster)
            except NoRecordError as error:
                field, reason = error.args
                bad.append(BadRow(str(file), line, field, reason))
                run = None
            else:
                outside += run is None
            if run is not None:
                found.append(run)
                lines.append(records if self._is_folder else line)
            if len(found) + len(bad) >= self.options.batch_rows:
                yield _batch(found, lines, bad)
                found, lines, bad = [], [], []
        if not records:
            raise SourceError(f"{self.path}: no XALT record in it: no file run.*.json, or an empty one")
        yield _batch(found, lines, bad)
        if outside:
            self.notes.append(
                f"{self.path.name}: {outside:,} records of programs outside any job are left out"
            )

    @cached_property
    def _is_folder(self) -> bool:
        try:
            return self.path.is_dir()
        except PermissionError:
            return False  # opening it reports the error

    def _records(self) -> Iterator[tuple[Path, int, Any]]:
        """Yield file, line and JSON of each record; a `ValueError` in place of what is not JSON."""
        if not self._is_folder:
            for n, (line, record) in enumerate(_read_file(self.path, self.options.block_bytes)):
                if n == 0 and isinstance(record, ValueError):
                    raise SourceError(f"{self.path}: no XALT record, which is JSON: {record}")
                yield self.path, line, record
            return
        for path in sorted(self.path.rglob("run.*.json")):
            try:
                for line, record in _read_file(path, self.options.block_bytes):
                    yield path, line, record
            except SourceError as error:
                yield path, 1, ValueError(str(error))


def _batch(found: list[Observation], lines: list[int], bad: list[BadRow]) -> Batch:
    frame = to_frame(found, "program").with_columns(line=pl.Series(lines, dtype=pl.Int64))
    return Batch("program", frame, tuple(bad))


def _read_file(path: Path, size: int) -> Iterator[tuple[int, Any]]:
    """Yield the records of a file: one on each line, or one over many lines."""
    with open_file(path) as stream:
        number = 0
        blocks = line_blocks(stream, size, file=str(path))
        for block in blocks:
            for text in block.split(b"\n")[: -1 if block.endswith(b"\n") else None]:
                number += 1
                if not text.strip():
                    continue
                record = _json(text)
                if number == 1 and isinstance(record, ValueError):
                    # The record continues on the next lines: one record over the whole file.
                    yield 1, _json(_joined(block, blocks))
                    return
                yield number, record


def _joined(first: bytes, others: Iterator[bytes]) -> bytes:
    parts, size = [first], len(first)
    for part in others:
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES:
            return b""  # no JSON
    return b"".join(parts)


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return ValueError(str(error))


def read_run(record: Any, cluster: str | None = None, *, otherwise: str = "") -> Observation | None:
    """Read one record; None where it is not of a program in a job.

    Parameters
    ----------
    cluster
        The cluster's name where the site sets it: XALT's `syshost` is often not Slurm's ClusterName.
    otherwise
        The name to use where the record has none either.

    >>> texts = {"job_id": "7", "exec_path": "/opt/lammps/2023.08/bin/lmp", "run_uuid": "u"}
    >>> observation = read_run({"userT": texts, "userDT": {"start_time": 10.5, "run_time": 2.5}}, "c")
    >>> run = observation.record
    >>> run.application, run.version, run.start, observation.seen_at
    ('lmp', '2023.08', 10, 13)
    """
    texts = record.get("userT") if isinstance(record, dict) else None
    if not isinstance(texts, dict):
        return None
    job, path = _text(texts, "job_id"), _text(texts, "exec_path")
    if job in (None, "unknown") or path is None:
        return None
    run_id = _text(texts, "run_uuid")
    if run_id is None:
        raise NoRecordError("run_uuid", "missing")
    numbers = record["userDT"] if isinstance(record.get("userDT"), dict) else {}
    begun, ended, ran = (_number(numbers, name) for name in ("start_time", "end_time", "run_time"))
    if begun is None or not EARLIEST < begun < LATEST:
        raise NoRecordError("start_time", "missing" if begun is None else "an impossible time")
    # In whole seconds a run ends after its start, so that the record of its end never equals that of its
    # start.
    start = math.floor(begun)
    end = max(math.ceil(ended or begun + (ran or 0.0)), start + 1) if ended or ran else None
    if end is not None and end > LATEST:
        raise NoRecordError("end_time", "an impossible time")
    name, tasks = PurePosixPath(path).name, _number(numbers, "num_tasks")
    run = ProgramRun(
        cluster=cluster or _text(texts, "syshost") or otherwise,
        run_id=run_id,
        job_id=job,
        user=_text(texts, "user"),
        path=path,
        application=None if name in _NO_WORK else name,
        version=_version(path, name, record.get("envT")),
        libraries=_libraries(record.get("libA")),
        tasks=int(tasks) if tasks and tasks < 1 << 40 else None,
        start=start,
        end=end,
    )
    return Observation(
        seen_at=start if end is None else end, source=XaltSource.name, reconstructed=True, record=run
    )


def _text(texts: dict[str, Any], name: str) -> str | None:
    """Read a text, without half surrogate pairs, which JSON can write and UTF-8 cannot."""
    value = texts.get(name)
    return None if value in (None, "") else str(value).encode("utf-8", "replace").decode()


def _number(numbers: dict[str, Any], name: str) -> float | None:
    """Read a number that is not negative."""
    value = numbers.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e18 else None


def _version(path: str, name: str, environment: Any) -> str | None:
    """Find the version in a path such as ``/apps/gromacs/2023.1/bin/gmx``, or in a module of that name."""
    for folder in reversed(PurePosixPath(path).parts[1:-1]):
        if _VERSION.fullmatch(folder):
            return folder
    modules = _text(environment, "LOADEDMODULES") if isinstance(environment, dict) else None
    for module in (modules or "").split(":"):
        module_name, _, version = module.rpartition("/")
        if module_name.lower() == name.lower() and version:
            return version
    return None


def _libraries(found: Any) -> str | None:
    """List the base names of the libraries, without the system's own."""
    entries = found if isinstance(found, list) else []
    paths = [entry[0] for entry in entries if isinstance(entry, list) and entry]
    names = {PurePosixPath(_text({"path": path}, "path") or "").name for path in paths}
    own = sorted(name for name in names if name and "," not in name and not _SYSTEM_LIBRARIES.match(name))
    return ",".join(own[:_MOST_LIBRARIES]) or None
