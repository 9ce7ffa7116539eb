"""Tests of the contract itself: a source that keeps estimated or planned times must fail it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest

from forewarn.sources.base import Batch, Source, open_file
from forewarn.sources.slurm.unit_columns import outcome
from tests.sources.contract import Sample, TextSourceContract

# Written at 300: job 1 has ended, job 2 runs and may go on until 900, job 3 is pending and may start at 500.
JOBS = b"""\
1 100 100 150 250 COMPLETED
2 110 110 200 900 RUNNING
3 120 500 500 800 PENDING
"""
TIMES = ("submit", "eligible", "start", "end")


class TinySource(Source):
    """Lines of id, submit, eligible, start, end and state; times that have not come are dropped."""

    name: ClassVar[str] = "tiny"
    keeps: ClassVar[str] = ""  # a time that it wrongly keeps
    ends_all: ClassVar[bool] = False  # whether it wrongly gives every job an outcome

    def batches(self) -> Iterator[Batch]:
        is_pending, has_ended = pl.col("state") == "PENDING", pl.col("outcome").is_not_null()
        has_come = {"eligible": ~is_pending, "start": ~is_pending, "end": has_ended}
        with open_file(self.path) as stream:
            for before, block in self.text_blocks(stream):
                rows = [(*line.decode().split(), n) for n, line in enumerate(block.splitlines(), before + 1)]
                frame = pl.DataFrame(rows, schema=["job_id", *TIMES, "state", "line"], orient="row")
                frame = frame.cast(dict.fromkeys(TIMES, pl.Int64)).with_columns(
                    cluster=pl.lit("c"),
                    outcome=pl.lit("failed") if self.ends_all else outcome(pl.col("state")),
                )
                yield self.job_batch(
                    frame.with_columns(
                        pl.when(test).then(pl.col(name)).alias(name)
                        for name, test in has_come.items()
                        if name != self.keeps
                    )
                )


class TinyContract(TextSourceContract):
    source = TinySource

    def sample(self) -> Sample:
        return Sample(JOBS, ids=("1", "2", "3"), lines=(1, 2, 3), written_at=300, unended=("2", "3"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "sample.log"
    path.write_bytes(JOBS)
    return path


def test_a_source_that_drops_what_has_not_come_passes(path: Path) -> None:
    contract = TinyContract()
    contract.test_no_time_is_later_than_the_file(path)
    contract.test_only_jobs_that_ended_have_an_outcome_and_an_end(path)


@pytest.mark.parametrize("time", ["eligible", "start", "end"])
def test_a_source_that_keeps_a_planned_time_fails(
    path: Path, monkeypatch: pytest.MonkeyPatch, time: str
) -> None:
    monkeypatch.setattr(TinySource, "keeps", time)
    with pytest.raises(AssertionError, match=time):
        TinyContract().test_no_time_is_later_than_the_file(path)


def test_a_source_that_gives_a_running_job_an_end_fails(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TinySource, "keeps", "end")
    with pytest.raises(AssertionError):
        TinyContract().test_only_jobs_that_ended_have_an_outcome_and_an_end(path)


def test_a_source_that_gives_a_running_job_an_outcome_fails(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TinySource, "ends_all", True)
    with pytest.raises(AssertionError):
        TinyContract().test_only_jobs_that_ended_have_an_outcome_and_an_end(path)
