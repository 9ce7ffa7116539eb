"""XALT's records, in the form that its documentation describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forewarn.errors import SourceError
from forewarn.job.columns import to_frame
from forewarn.job.record import Job, Observation
from forewarn.sources.xalt import applications, read_run, read_runs, with_applications


def record(job: str, path: str, run_time: float = 0.0, uuid: str = "u", tasks: float = 1.0) -> dict[str, Any]:
    """As docs/source/120_xalt_json.rst of XALT shows it, without what nobody reads here."""
    return {
        "cmdlineA": [path],
        "envT": {"LOADEDMODULES": "gcc/12"},
        "hash_id": "f1f2",
        "libA": [["/lib64/libc.so.6", "0"]],
        "ptA": [],
        "userDT": {"start_time": 1.5e9, "end_time": 0.0, "run_time": run_time, "num_tasks": tasks},
        "userT": {
            "exec_path": path,
            "exec_type": "binary",
            "job_id": job,
            "run_uuid": uuid,
            "scheduler": "SLURM",
            "syshost": "stampede2",
            "user": "ann",
        },
        "xaltLinkT": {},
    }


def test_start_and_end_are_one_run(tmp_path: Path) -> None:
    folder = tmp_path / "2024"
    folder.mkdir()
    (folder / "run.s.d.ann.aaa.u.json").write_text(json.dumps(record("7", "/opt/lammps/lmp")))
    (folder / "run.s.d.ann.zzz.u.json").write_text(json.dumps(record("7", "/opt/lammps/lmp", 60.0)))
    (folder / "link.s.d.ann.u.json").write_text('{"linkA": []}')
    (run,) = read_runs(tmp_path)
    assert (run.job_id, run.application, run.run_time, run.cluster) == ("7", "lmp", 60.0, "stampede2")


def test_the_program_that_took_longest_is_the_application() -> None:
    records = [
        record("7", "/bin/bash", 900.0, "a"),
        record("7", "/opt/prepare", 30.0, "b"),
        record("7", "/opt/solve", 20.0, "c", tasks=8.0),
        record("8", "/usr/bin/python3", 0.0, "d"),
    ]
    assert applications(run for r in records if (run := read_run(r))) == {"7": "solve", "8": "python3"}


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        {},
        {"userT": None},
        {"userT": {"job_id": "unknown", "exec_path": "/x"}},
        {"userT": {"job_id": 7}},
    ],
)
def test_no_program_of_a_job(odd: Any) -> None:
    assert read_run(odd) is None


def test_what_is_no_json_is_told(tmp_path: Path) -> None:
    (tmp_path / "run.s.json").write_text("{")
    with pytest.raises(SourceError, match=r"run\.s\.json: no XALT record"):
        list(read_runs(tmp_path))


def test_jobs_get_what_they_ran() -> None:
    jobs = [
        Job(cluster="c", job_id="7", submit=0),
        Job(cluster="c", job_id="9_1", submit=0, raw_id=10),
        Job(cluster="c", job_id="11", submit=0, application="known"),
        Job(cluster="c", job_id="12", submit=0),
    ]
    frame = to_frame(Observation(seen_at=0, source="s", reconstructed=True, record=job) for job in jobs)
    told = with_applications(frame, {"7": "lmp", "10": "vasp", "11": "other"})
    assert told["application"].to_list() == ["lmp", "vasp", "known", None]
