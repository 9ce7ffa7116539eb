"""`forewarn ingest xalt:…`: what earlier jobs of a name ran becomes history of the next ones."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tests.serve.conftest import Forewarn
from tests.sources.test_xalt import BEGIN, record, write_records

HEADER = "JobID|JobIDRaw|Cluster|User|Submit|Start|End|State|ReqCPUS|JobName"


def test_programs_of_earlier_jobs_are_history(forewarn: Forewarn, tmp_path: Path) -> None:
    """Ann's and Bob's jobs have other names: only their program is the same."""
    jobs = [
        f"{n}|{n}|lab|{user}|{(at := BEGIN + n * 1000)}|{at + 10}|{at + 500}|FAILED|1|{name}"
        for n, (user, name) in enumerate(
            [("ann", "fold"), ("bob", "dock"), ("ann", "fold"), ("bob", "dock")], 1
        )
    ]
    (tmp_path / "h.txt").write_text("\n".join([HEADER, *jobs]) + "\n")
    folder = write_records(
        tmp_path / "xalt",
        *(
            record(str(n), "/apps/gromacs/2023.1/bin/gmx", 400.0, f"u{n}", start=BEGIN + n * 1000 + 20)
            for n in range(1, 5)
        ),
        record("1", "/bin/bash", 480.0, "shell", start=BEGIN + 1015),
    )
    assert forewarn("ingest", f"sacct:{tmp_path / 'h.txt'}").code == 0

    def ended() -> list[float | None]:
        assert forewarn("features", "-o", tmp_path / "f.parquet").code == 0
        return pl.read_parquet(tmp_path / "f.parquet").sort("submit")["script_ended"].to_list()

    assert not any(ended())
    first = forewarn("ingest", "-M", "lab", f"xalt:{folder}", "--json").json["files"][0]
    assert (first["new"], first["bad"], first["clusters"]) == (5, 0, ["lab"])
    # The first two have no predecessors; the third counts nobody yet whose program was known at submit.
    with_programs = ended()
    assert [value or 0 for value in with_programs] == [0, 0, 0, 1]
    again = forewarn("ingest", "-M", "lab", f"xalt:{folder}", "--json").json["files"][0]
    assert (again["new"], again["same"]) == (0, 5)
    assert ended() == with_programs


def test_a_cluster_name_that_slurm_does_not_know_is_reported(forewarn: Forewarn, tmp_path: Path) -> None:
    folder = write_records(tmp_path / "xalt", record("1", "/opt/lmp", 5.0))
    (folder / "run.odd.json").write_text("{")
    assert "run.odd.json" in forewarn("ingest", f"xalt:{folder}").err
    result = forewarn("ingest", "--skip-bad", f"xalt:{folder}")
    assert result.code == 0
    assert "stampede2: the store has no jobs of this cluster" in result.err
