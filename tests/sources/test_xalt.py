"""Tests of XALT's records, in the format of its documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forewarn.config import Config
from forewarn.errors import BadRowError
from forewarn.job.record import ProgramRun
from forewarn.operate.ingest_file import ingest
from forewarn.sources.base import SourceOptions
from forewarn.sources.xalt import XaltSource, read_run
from forewarn.store.base import Store
from forewarn.store.opening import open_store
from tests.sources.contract import Sample, TextSourceContract

BEGIN = 1_700_000_000


def record(
    job: str,
    path: str,
    run_time: float = 0.0,
    uuid: str = "u",
    *,
    start: float = BEGIN + 0.25,
    tasks: float = 1.0,
    user: str = "ann",
    modules: str = "gcc/12",
) -> dict[str, Any]:
    """Return a record as in docs/source/120_xalt_json.rst of XALT, with the members that are read."""
    times = {"start_time": start, "end_time": start + run_time if run_time else 0.0, "run_time": run_time}
    return {
        "cmdlineA": [path],
        "envT": {"LOADEDMODULES": modules},
        "hash_id": "f1f2",
        "libA": [
            ["/lib64/libc.so.6", "0"],
            ["/lib64/ld-2.27.so", "0"],
            ["/opt/mpich/lib/libmpi.so.12.1", "0"],
        ],
        "ptA": [],
        "userDT": times | {"num_tasks": tasks},
        "userT": {
            "exec_path": path,
            "exec_type": "binary",
            "job_id": job,
            "run_uuid": uuid,
            "scheduler": "SLURM",
            "syshost": "stampede2",
            "user": user,
        },
        "xaltLinkT": {},
    }


def write_records(folder: Path, *records: dict[str, Any]) -> Path:
    """Write one file for each record, as XALT does."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(records):
        which = "zzz" if one["userDT"]["run_time"] else "aaa"
        (folder / f"run.s.d.ann.{which}.{number:05}.json").write_text(json.dumps(one, indent=1))
    return folder


class TestXalt(TextSourceContract):
    source = XaltSource

    def sample(self) -> Sample:
        broken = record("9", "/opt/x", 5.0)
        del broken["userDT"]["start_time"]
        lines = [record("7", "/opt/lmp"), record("8", "/bin/bash", 60.0, "v"), broken]
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        return Sample(
            data,
            ids=("7", "8"),
            lines=(1, 2),
            bad_lines=(3,),
            written_at=BEGIN + 61,
            kind="program",
            file="runs.jsonl",
        )

    def test_a_directory(self, tmp_path: Path) -> None:
        """It may be one, with records in it."""
        assert "no XALT record" in self.refused(tmp_path)


def test_what_is_read_of_a_record() -> None:
    seen = read_run(record("7", "/apps/gromacs/2023.1/bin/gmx", 60.5, tasks=8.0))
    assert seen is not None
    assert seen.record == ProgramRun(
        cluster="stampede2",
        run_id="u",
        job_id="7",
        user="ann",
        path="/apps/gromacs/2023.1/bin/gmx",
        application="gmx",
        version="2023.1",
        libraries="libmpi.so.12.1",
        tasks=8,
        start=BEGIN,
        end=BEGIN + 61,
    )
    assert (seen.seen_at, seen.source, seen.reconstructed) == (BEGIN + 61, "xalt", True)


def test_a_version_that_only_a_module_names() -> None:
    seen = read_run(record("7", "/apps/bin/vasp", modules="gcc/12:vasp/6.4"))
    assert isinstance(seen.record, ProgramRun)  # type: ignore[union-attr]
    assert seen.record.version == "6.4"  # type: ignore[union-attr]


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


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(Config(home=tmp_path / "home"))


def runs(store: Store) -> list[tuple[Any, ...]]:
    columns = ["cluster", "job_id", "application", "start", "end"]
    return [row for frame in store.scan("program", columns=columns) for row in frame.iter_rows()]


def test_start_and_end_are_one_run(store: Store, tmp_path: Path) -> None:
    short = record("7", "/opt/lammps/lmp", 0.01)
    folder = write_records(tmp_path / "2024" / "05", record("7", "/opt/lammps/lmp"), short)
    (folder / "link.s.d.ann.u.json").write_text('{"linkA": []}')
    report = ingest(store, XaltSource(tmp_path / "2024"))
    assert (report.new, report.bad, dict(report.kinds)) == (2, 0, {"program": 2})
    assert runs(store) == [("stampede2", "7", "lmp", BEGIN, BEGIN + 1)]
    again = ingest(store, XaltSource(tmp_path / "2024"))
    assert (again.new, again.same, store.count("program")) == (0, 2, 1)


def test_the_site_names_the_cluster(store: Store, tmp_path: Path) -> None:
    folder = write_records(tmp_path / "x", record("7", "/opt/lmp", 5.0))
    report = ingest(store, XaltSource(folder, SourceOptions(cluster="sp2")))
    assert [run[0] for run in runs(store)] == ["sp2"]
    assert any("the store has no jobs of this cluster" in note for note in report.notes)
    assert "sp2" not in store.clusters(), "programs alone make no cluster"


def test_a_file_that_is_no_record_is_reported_by_its_name(store: Store, tmp_path: Path) -> None:
    folder = write_records(tmp_path / "x", record("7", "/opt/lmp", 5.0), record("unknown", "/bin/ls", 5.0))
    (folder / "run.s.broken.json").write_text("{")
    (folder / "run.s.empty.json").write_text("")
    with pytest.raises(BadRowError, match=r"run\.s\.broken\.json.*not JSON"):
        ingest(store, XaltSource(folder))
    assert runs(store) == []
    report = ingest(store, XaltSource(folder), rejects=lambda: tmp_path / "rejects")
    assert (report.new, report.bad) == (1, 2)
    assert any("1 records of programs outside any job" in note for note in report.notes)
