from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from forewarn.errors import BadRow, SourceError
from forewarn.sources.base import SourceOptions
from forewarn.sources.nrel import NrelSource
from tests.sources.contract import BinarySourceContract, Sample, TextSourceContract
from tests.sources.test_parquet import incompressible, parquet

HEADER = (
    "job_id,user,account,partition,qos,wallclock_req,nodes_req,processors_req,gpus_req,mem_req,"
    "submit_time,start_time,end_time,run_time,state,name,work_dir,submit_line"
)
DONE = "7,u1,a1,p1,normal,3600.0,3,54,0,552000.0,2019-01-01 08:00:00,2019-01-01 08:00:10,2019-01-01 08:10:00"
CSV = f"""{HEADER}
{DONE},590.0,COMPLETED,n1,w1,s1
8,u1,a1,p1,normal,3600.0,1
9,u1,a1,p1,normal,long,1,36,0,0.0,2019-01-01 08:00:05,,,,PENDING,n1,w1,s1
10,u2,a1,p1,high,60.0,1,36,2,0.0,2019-01-01 08:00:06,2019-01-01 08:00:10,never,,TIMEOUT,n1,w1,s1

11,"u2",a1,p1,high,60.0,1,36,2,NaN,2019-01-01 08:00:07,NaT,,,CANCELLED by 1234,"n,1",w1,s1
12,u3,a,p,high,9e4,1,36,0,0.0,2019-01-01 08:00:08,2019-01-01 08:00:20,2019-01-02 08:00:20,,RUNNING,n,w,s
"""


class TestCsv(TextSourceContract):
    source = NrelSource

    def sample(self) -> Sample:
        return Sample(
            CSV.encode(),
            ids=("7", "11", "12"),
            lines=(2, 7, 8),
            bad_lines=(3, 4, 5),
            written_at=1546330200,  # 2019-01-01 08:10:00
            unended=("12",),
            header_lines=1,
            file="eagle.csv",
        )


class TestJson(TextSourceContract):
    source = NrelSource

    def sample(self) -> Sample:
        return Sample(
            self.many(1),
            ids=("7", "8"),
            lines=(1, 4),
            bad_lines=(2, 3),
            written_at=1546333000,
            unended=("7", "8"),
            file="eagle.json",
        )

    def many(self, copies: int) -> bytes:
        job = {"job_id": 7, "user": "u", "mem_req": 0.0, "submit_time": 1546332955000, "state": "RUNNING"}
        rows = [
            job | {"more": "x" * 1000},
            5,
            job | {"submit_time": "soon"},
            job | {"job_id": 8, "submit_time": 1546332956000, "end_time": 1546336556000},
        ]
        return json.dumps(rows * copies).encode()


class TestTable(BinarySourceContract):
    source = NrelSource

    def sample(self) -> Sample:
        return Sample(
            self.many(1),
            ids=("7", "8"),
            lines=(1, 2),
            written_at=1546333000,
            unended=("8",),
            file="eagle.parquet",
        )

    def many(self, copies: int) -> bytes:
        frame = pl.DataFrame(
            {
                "job_id": [7, 8],
                "submit_time": pl.from_epoch(pl.Series([1546332955, 1546332956])),
                "end_time": pl.from_epoch(pl.Series([1546332990, 1546336556])),
                "state": ["COMPLETED", "RUNNING"],
            }
        )
        whole = pl.concat([frame] * copies)
        return parquet(whole.with_columns(name=incompressible(whole.height)), row_group_size=5000)


def read(path: Path, **options: Any) -> tuple[pl.DataFrame, list[BadRow], list[str]]:
    source = NrelSource(path, SourceOptions(**options))
    batches = list(source.batches())
    return pl.concat([b.frame for b in batches]), [row for b in batches for row in b.bad], source.notes


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "eagle.csv"
    path.write_text(CSV)
    return path


def test_what_a_row_means(csv: Path) -> None:
    frame, bad, notes = read(csv)
    job = frame.row(0, named=True)
    expected = {
        "job_id": "7",
        "time_limit": 3600,
        "nodes_asked": 3,
        "cpus_asked": 54,
        "gpus_asked": 0,
        "memory_asked": 184_000 << 20,
        "memory_per": "node",
        "submit": 1546329600,
        "start": 1546329610,
        "end": 1546330200,
        "outcome": "completed",
    }
    assert {name: job[name] for name in expected} == expected
    cancelled = frame.row(1, named=True)
    assert (cancelled["state"], cancelled["cancelled_by"], cancelled["name"]) == ("CANCELLED", "1234", "n,1")
    assert (cancelled["start"], cancelled["memory_asked"], cancelled["memory_per"]) == (None, None, None)
    assert [(row.field, row.reason) for row in bad] == [
        ("line", "7 columns instead of 18"),
        ("wallclock_req", "not a number: 'long'"),
        ("end_time", "not a time: 'never'"),
    ]
    assert notes == []


def test_a_zone_moves_every_form_alike(tmp_path: Path, csv: Path) -> None:
    saved = tmp_path / "eagle.json"
    row = {"job_id": 7, "submit_time": 1546329600000, "state": "RUNNING"}
    saved.write_text(json.dumps([row]))
    for path in (csv, saved):
        assert read(path)[0]["submit"][0] == 1546329600
        assert read(path, timezone="America/Denver")[0]["submit"][0] == 1546329600 + 7 * 3600


def test_tasks_of_an_array_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "eagle.csv"
    other = DONE.replace("7,", "8,", 1)
    later = DONE.replace("08:00:00", "08:00:09")
    rows = [DONE, other, DONE, DONE, later, DONE]
    path.write_text("\n".join([HEADER, *(f"{row},590.0,COMPLETED,n,w,s" for row in rows)]))
    for size in (1, 2, 100):
        frame, bad, notes = read(path, batch_rows=size, block_bytes=size * 50)
        assert bad == []
        # The last one is not in the run of its submit time: to the store it contradicts the first.
        assert frame["job_id"].to_list() == ["7", "8", "7_1", "7_2", "7", "7"]
        assert frame["array_task_id"].to_list() == [None, None, 1, 2, None, None]
        assert "2 rows share job id" in notes[0]


def test_other_columns_may_be_there_and_ours_may_not(tmp_path: Path) -> None:
    path = tmp_path / "eagle.csv"
    path.write_text(",job_id,state,submit_time,energy\n0,5,RUNNING,2019-01-01T08:00:00.500,7\n")
    frame, bad, _ = read(path)
    assert bad == []
    assert frame.select("job_id", "submit", "outcome", "user").row(0) == ("5", 1546329600, None, None)


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv", "job_id,state\n1,RUNNING\n"), ("a.json", '[{"job_id": 1, "state": "RUNNING"}]')],
)
def test_a_table_of_something_else(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(SourceError, match="no column 'submit_time'"):
        list(NrelSource(path).batches())


@pytest.mark.shared_data
def test_the_published_sample_is_the_same_in_every_form(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "nrel"
    as_csv, bad, notes = read(folder / "sample_eagle_data.csv")
    assert (as_csv.height, bad) == (1000, [])
    assert "451 rows share job id" in notes[0]
    assert as_csv["job_id"].n_unique() == 1000
    assert dict(as_csv["outcome"].value_counts().iter_rows()) == {"completed": 985, "timeout": 15}
    raw = pl.read_csv(folder / "sample_eagle_data.csv")
    assert (as_csv["end"] - as_csv["start"]).to_list() == raw["run_time"].to_list()

    as_json, _, _ = read(folder / "sample_eagle_data.json")
    table = tmp_path / "sample_eagle_data.parquet"
    pl.read_csv(folder / "sample_eagle_data.csv", try_parse_dates=True).write_parquet(table)
    assert_frame_equal(as_csv.drop("line"), as_json.drop("line"))
    assert_frame_equal(as_json, read(table)[0])


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("job_id", "99999999999999999999"),
        ("nodes_req", "1e30"),
        ("nodes_req", "inf"),
        ("nodes_req", "-3"),
        ("mem_req", "1e15"),
        ("submit_time", "99999999999999999"),
        ("submit_time", "2019-13-01 08:00:00"),
    ],
)
def test_a_value_that_cannot_be_is_a_bad_row(tmp_path: Path, form: str, field: str, value: str) -> None:
    row = {
        "job_id": "7",
        "submit_time": "2019-01-01 08:00:00",
        "state": "FAILED",
        "nodes_req": "1",
        "mem_req": "5",
    }
    rows = [row, row | {"job_id": "8", field: value}]
    path = tmp_path / f"eagle.{form}"
    lines = "\n".join(",".join(r.values()) for r in rows)
    path.write_text(json.dumps(rows) if form == "json" else ",".join(row) + "\n" + lines + "\n")
    frame, bad, _ = read(path)
    assert frame["job_id"].to_list() == ["7"]
    assert [b.field for b in bad] == [field]
