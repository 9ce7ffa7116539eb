from __future__ import annotations

import io
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from forewarn.errors import BadRow, SourceError
from forewarn.job.columns import SCHEMAS
from forewarn.sources.base import SourceOptions
from forewarn.sources.parquet import ZONE, ParquetSource
from tests.sources.contract import BinarySourceContract, Sample

JOBS = pl.DataFrame(
    {
        "job_id": ["1", "2", None, "4_1"],
        "submit": [100, 110, 120, 130],
        "start": [105, 200, 130, None],
        "end": [205, 150, 140, None],
        "state": ["COMPLETED", "FAILED", "FAILED", "PENDING"],
        "outcome": ["completed", "failed", "failed", None],
        "user": ["alice", "bob", "bob", "alice"],
        "comment": ["not", "a", "column", "of ours"],
    }
)


def incompressible(rows: int) -> pl.Series:
    """Return random texts, so that the size of a file grows with its rows: Parquet compresses repetition."""
    random = Random(1)
    return pl.Series([random.randbytes(100).hex() for _ in range(rows)])


def parquet(frame: pl.DataFrame, **options: Any) -> bytes:
    out = io.BytesIO()
    frame.write_parquet(out, **options)
    return out.getvalue()


class TestParquet(BinarySourceContract):
    source = ParquetSource

    def sample(self) -> Sample:
        return Sample(
            self.many(1),
            ids=("1", "4_1"),
            lines=(1, 4),
            bad_lines=(2, 3),
            written_at=205,
            unended=("4_1",),
            file="jobs.parquet",
        )

    def many(self, copies: int) -> bytes:
        whole = pl.concat([JOBS] * copies)
        return parquet(whole.with_columns(name=incompressible(whole.height)), row_group_size=5000)


def read(tmp_path: Path, frame: pl.DataFrame, **options: Any) -> tuple[pl.DataFrame, list[BadRow]]:
    path = tmp_path / "jobs.parquet"
    path.write_bytes(parquet(frame))
    batches = list(ParquetSource(path, SourceOptions(**options)).batches())
    return pl.concat([b.frame for b in batches]), [row for b in batches for row in b.bad]


def test_without_a_time_of_sight_rows_are_reconstructed(tmp_path: Path) -> None:
    frame, _ = read(tmp_path, JOBS)
    assert frame["seen_at"].to_list() == [205, 130]
    assert frame["reconstructed"].to_list() == [True, True]
    assert frame["source"].to_list() == ["parquet", "parquet"]
    assert frame["cluster"].to_list() == ["jobs", "jobs"]


def test_observations_come_back_as_they_were(tmp_path: Path) -> None:
    whole = JOBS[:1].with_columns(
        cluster=pl.lit("lab"), seen_at=300, source=pl.lit("simulator"), reconstructed=False, cpu_time=1
    )
    frame, bad = read(tmp_path, whole)
    assert bad == []
    again, _ = read(tmp_path, frame.drop("line"))
    assert_frame_equal(frame, again)
    row = frame.row(0, named=True)
    assert (row["cluster"], row["seen_at"], row["source"], row["reconstructed"]) == (
        "lab",
        300,
        "simulator",
        False,
    )
    assert row["cpu_time"] == 1.0


def test_every_column_of_the_schema_is_kept(tmp_path: Path) -> None:
    values: dict[pl.DataType, Any] = {pl.String(): "x", pl.Int64(): 5, pl.Float64(): 0.5, pl.Boolean(): True}
    given = {name: [values[dtype]] for name, dtype in SCHEMAS["job"].items()} | {"outcome": ["failed"]}
    frame, bad = read(tmp_path, pl.DataFrame(given, schema=SCHEMAS["job"]))
    assert bad == []
    assert frame.drop("line").to_dict(as_series=False) == given


def test_smaller_types_and_columns_of_nothing_fit(tmp_path: Path) -> None:
    frame, bad = read(
        tmp_path,
        pl.DataFrame(
            {"job_id": ["1"], "submit": pl.Series([5], dtype=pl.UInt32), "user": [None]}
        ).with_columns(partition=pl.Series(["main"], dtype=pl.Categorical)),
    )
    assert bad == []
    assert frame.select("submit", "user", "partition").row(0) == (5, None, "main")


@pytest.mark.parametrize(
    ("frame", "column"),
    [
        (JOBS.drop("submit"), "submit"),
        (JOBS.drop("job_id"), "job_id"),
        (JOBS.with_columns(end=pl.col("end").cast(pl.String)), "end"),
        (JOBS.with_columns(end=pl.from_epoch("end")), "end"),
        (JOBS.with_columns(job_id=pl.lit(7)), "job_id"),
        (JOBS.with_columns(exit_code=pl.lit(0.5)), "exit_code"),
    ],
)
def test_a_wrong_or_missing_column_is_named(tmp_path: Path, frame: pl.DataFrame, column: str) -> None:
    with pytest.raises(SourceError, match=rf"jobs\.parquet: .*column '{column}'"):
        read(tmp_path, frame)


def test_values_that_cannot_be_are_bad_rows(tmp_path: Path) -> None:
    frame, bad = read(
        tmp_path,
        pl.DataFrame(
            {
                "job_id": ["1", "2", "3"],
                "submit": [1, 2, 3],
                "outcome": ["failed", "lost", None],
                "seen_at": [9, 9, None],
            }
        ),
    )
    assert frame["job_id"].to_list() == ["1"]
    assert [(row.line, row.field) for row in bad] == [(2, "outcome"), (3, "seen_at")]


def test_a_table_of_no_jobs(tmp_path: Path) -> None:
    frame, bad = read(tmp_path, JOBS.head(0))
    assert frame.is_empty()
    assert bad == []


def test_a_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "jobs.parquet"
    path.write_text("job_id,submit\n1,2\n")
    with pytest.raises(SourceError, match="not a Parquet file"):
        list(ParquetSource(path).batches())


@pytest.mark.parametrize(
    ("in_file", "option", "zone"),
    [
        (None, None, "UTC"),
        ("Asia/Tokyo", None, "Asia/Tokyo"),
        ("Asia/Tokyo", "Europe/Paris", "Europe/Paris"),
        ("Mars/Base", None, "UTC"),
    ],
)
def test_the_zone_stands_in_the_metadata(
    tmp_path: Path, in_file: str | None, option: str | None, zone: str
) -> None:
    path = tmp_path / "jobs.parquet"
    JOBS.write_parquet(path, metadata={ZONE: in_file} if in_file else None)
    source = ParquetSource(path, SourceOptions(timezone=option))
    list(source.batches())
    assert source.timezone == zone
    assert len(source.notes) == (in_file == "Mars/Base")
