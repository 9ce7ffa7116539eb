"""The contract of sources (`forewarn.sources.base`) as tests that each source inherits.

A source's test class inherits `TextSourceContract` (or `BinarySourceContract`), names its `source` and
returns a `sample`; where a larger file is not the sample's body repeated after its first lines, it also
overrides `many`:

    class TestSwf(TextSourceContract):
        source = SwfSource

        def sample(self) -> Sample:
            data = b"; a comment\\n1 0 10 ..."
            return Sample(data, ids=("1",), lines=(2,), written_at=1_003_610, header_lines=1)

The sample should hold a bad row too, if its format can hold one, and a pending or running job with an
estimated or planned time after `written_at`: that a source drops such times is checked by the sample's own
dates, not by what the source makes of them. `test_contract.py` shows that sources which keep them fail.
"""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from forewarn.errors import BadRow, SourceError
from forewarn.job.columns import KEYS, SCHEMAS
from forewarn.job.outcomes import Outcome
from forewarn.sources.base import Source, SourceOptions

# The times of each kind of record that are in the past when it is observed.
_TIMES = {
    "job": ("submit", "eligible", "start", "end"),
    "node": ("reason_at", "boot", "slurmd_start", "last_busy"),
    "program": ("start", "end"),
}


@contextmanager
def nobody() -> Iterator[None]:
    """Run as another user: root may read everything."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


@dataclass(frozen=True)
class Sample:
    """A small whole file, and the records that must be read from it."""

    data: bytes
    ids: tuple[str, ...]  # `job_id` (of a node or partition: `name`) of each record, in order
    lines: tuple[int, ...]  # the line (in JSON: the number of the record) that each of them came from
    _: KW_ONLY
    written_at: int  # Unix seconds by which everything in the file had happened
    unended: tuple[str, ...] = ()  # `ids` of the jobs that had not ended by then
    bad_lines: tuple[int, ...] = ()
    kind: str = "job"
    options: SourceOptions = field(default_factory=SourceOptions)
    header_lines: int = 0  # lines at the top that a larger file has only once
    file: str = "sample.log"


class SourceContract:
    """The tests that hold for every source."""

    source: ClassVar[type[Source]]

    def sample(self) -> Sample:
        raise NotImplementedError("give a sample")

    def many(self, copies: int) -> bytes:
        """Return a file that holds the sample's records `copies` times."""
        sample = self.sample()
        lines = sample.data.splitlines(keepends=True)
        head, body = lines[: sample.header_lines], lines[sample.header_lines :]
        body[-1] = body[-1].rstrip(b"\n") + b"\n"
        return b"".join(head) + b"".join(body) * copies

    # --- tools ---------------------------------------------------------------------------------

    def open_source(self, path: Path, **options: Any) -> Source:
        return self.source(path, replace(self.sample().options, **options))

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        sample = self.sample()
        path = tmp_path / sample.file
        path.write_bytes(sample.data)
        return path

    def everything(self, path: Path, **options: Any) -> tuple[pl.DataFrame, list[BadRow]]:
        """Read all records of the sample's kind and all bad rows."""
        batches = list(self.open_source(path, **options).batches())
        frames = [b.frame for b in batches if b.kind == self.sample().kind]
        assert frames, "no batch at all"
        return pl.concat(frames), [row for b in batches for row in b.bad]

    def refused(self, path: Path) -> str:
        """Return the message of the `SourceError` that reading `path` raises."""
        with pytest.raises(SourceError) as caught:
            for _ in self.open_source(path).batches():
                pass
        assert str(path) in str(caught.value), "the message names the file"
        return str(caught.value)

    # --- what comes out ------------------------------------------------------------------------

    def test_every_batch_has_exactly_the_schema(self, path: Path) -> None:
        for batch in self.open_source(path).batches():
            expected = SCHEMAS[batch.kind] | {"line": pl.Int64()}
            assert dict(batch.frame.schema) == expected
            assert list(batch.frame.columns) == list(expected)

    def test_records_come_in_the_order_of_the_file_with_their_lines(self, path: Path) -> None:
        sample = self.sample()
        frame, bad = self.everything(path)
        name = "job_id" if sample.kind in ("job", "program") else "name"
        assert tuple(frame[name]) == sample.ids
        assert tuple(frame["line"]) == sample.lines
        assert tuple(row.line for row in bad) == sample.bad_lines

    def test_bad_rows_say_where_and_why(self, path: Path) -> None:
        _, bad = self.everything(path)
        for row in bad:
            assert row.file == str(path)
            assert row.field
            assert row.reason

    def test_keys_and_provenance_are_never_missing(self, path: Path) -> None:
        frame, _ = self.everything(path)
        needed = [*KEYS[self.sample().kind], "seen_at", "source", "reconstructed", "line"]
        assert frame.select(needed).null_count().row(0) == (0,) * len(needed)
        assert set(frame["source"]) == {self.source.name}

    def test_no_time_is_later_than_the_file(self, path: Path) -> None:
        """Estimates and plans are dropped: a pending job has no start, a running one no end."""
        sample = self.sample()
        frame, _ = self.everything(path)
        for name in _TIMES[sample.kind]:
            assert frame.filter(pl.col(name) > sample.written_at).is_empty(), name
        if sample.kind == "job":
            assert frame.filter(pl.col("seen_at") > sample.written_at).is_empty(), "seen_at"
            assert frame.filter(pl.max_horizontal("submit", "start", "end") > pl.col("seen_at")).is_empty()

    def test_only_jobs_that_ended_have_an_outcome_and_an_end(self, path: Path) -> None:
        sample = self.sample()
        if sample.kind != "job":
            assert sample.unended == ()
            return
        frame, _ = self.everything(path)
        unended = frame.filter(pl.col("outcome").is_null())
        assert tuple(unended["job_id"]) == sample.unended
        assert unended["end"].null_count() == unended.height
        assert set(frame["outcome"].drop_nulls()) <= {str(outcome) for outcome in Outcome}

    def test_missing_is_null_and_never_empty_or_negative(self, path: Path) -> None:
        frame, _ = self.everything(path)
        for name, dtype in frame.schema.items():
            wrong = pl.col(name) == "" if dtype == pl.String else pl.col(name) < 0
            if dtype != pl.Boolean:
                assert frame.filter(wrong).is_empty(), name

    def test_the_cluster_is_the_option_or_the_name_of_the_file(self, path: Path) -> None:
        assert self.source(path).cluster == path.name.split(".")[0]
        assert self.source(path, SourceOptions(cluster="lab")).cluster == "lab"

    def test_notes_are_sentences_that_name_the_file(self, path: Path) -> None:
        source = self.open_source(path)
        assert source.notes == []
        list(source.batches())
        assert all(path.name in note for note in source.notes)

    # --- the same whatever the way -------------------------------------------------------------

    def test_reading_twice_gives_the_same(self, path: Path) -> None:
        first, first_bad = self.everything(path)
        second, second_bad = self.everything(path)
        assert_frame_equal(first, second)
        assert first_bad == second_bad

    @pytest.mark.parametrize("size", [1, 7, 100, 1000])
    def test_the_size_of_blocks_and_batches_changes_nothing(self, tmp_path: Path, size: int) -> None:
        path = tmp_path / self.sample().file
        path.write_bytes(self.many(3))
        whole, whole_bad = self.everything(path)
        cut, cut_bad = self.everything(path, block_bytes=size, batch_rows=size)
        assert_frame_equal(whole, cut)
        assert whole_bad == cut_bad

    # --- files that cannot be read -------------------------------------------------------------

    def test_a_missing_file(self, tmp_path: Path) -> None:
        assert "no such file" in self.refused(tmp_path / "nowhere.log")

    def test_an_empty_file(self, path: Path) -> None:
        path.write_bytes(b"")
        assert "empty" in self.refused(path)

    def test_a_directory(self, tmp_path: Path) -> None:
        assert "directory" in self.refused(tmp_path)

    def test_a_file_that_may_not_be_read(self, path: Path) -> None:
        path.chmod(0)
        with nobody():
            assert "permission" in self.refused(path)

    def test_a_file_of_blank_lines(self, path: Path) -> None:
        path.write_bytes(b"\n  \n\n")
        self.refused(path)

    def test_binary_junk(self, path: Path) -> None:
        path.write_bytes(bytes(range(256)) * 40)
        self.refused(path)

    def test_a_packed_file_with_nothing_in_it(self, path: Path) -> None:
        path.write_bytes(gzip.compress(b""))
        self.refused(path)

    # --- constant memory -----------------------------------------------------------------------

    @pytest.mark.slow
    def test_memory_does_not_grow_with_the_file(self, tmp_path: Path) -> None:
        """Resident memory (tracemalloc does not see what Polars holds), at a quarter and at the end."""
        one = len(self.many(2)) - len(self.many(1))
        path = tmp_path / self.sample().file
        path.write_bytes(self.many(16_000_000 // one))
        held: list[tuple[int, int]] = []
        rows = 0
        for batch in self.open_source(path, block_bytes=400_000, batch_rows=2_000).batches():
            rows += batch.frame.height
            held.append((rows, _resident()))
        early = max(memory for at, memory in held if at <= rows // 4)
        late = max(memory for _, memory in held)
        # What is kept of three quarters of 16 MB would be 12 MB as text and more as columns.
        assert late - early < 8_000_000


def _resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class BinarySourceContract(SourceContract):
    """The tests for formats that are compressed and are read from their end."""

    def test_a_file_that_was_cut_short(self, path: Path) -> None:
        whole = self.many(100)
        path.write_bytes(whole[: len(whole) // 2])
        self.refused(path)


class TextSourceContract(SourceContract):
    """The tests for formats of lines or JSON, which can be gzipped and read from a pipe."""

    def test_a_last_line_without_its_end_is_read(self, path: Path) -> None:
        whole, _ = self.everything(path)
        path.write_bytes(self.sample().data.rstrip(b"\n"))
        assert_frame_equal(whole, self.everything(path)[0])

    def test_gzipped_or_plain_is_the_same(self, path: Path) -> None:
        plain, bad = self.everything(path)
        path.write_bytes(gzip.compress(self.sample().data))
        packed, packed_bad = self.everything(path)
        assert_frame_equal(plain, packed)
        assert bad == packed_bad

    def test_a_packed_file_that_was_cut_short(self, path: Path) -> None:
        whole = gzip.compress(self.many(100))
        path.write_bytes(whole[: len(whole) // 2])
        self.refused(path)

    def test_batches_come_before_the_end_has_been_written(self, tmp_path: Path) -> None:
        """Read a pipe whose writer waits for the first batch: a source that first reads all of it hangs."""
        copies = 1 + 400_000 // len(self.many(1))
        data = self.many(copies)
        pipe = tmp_path / self.sample().file
        os.mkfifo(pipe)
        first_batch = threading.Event()
        in_time: list[bool] = []

        def write() -> None:
            with pipe.open("wb") as out:
                out.write(data[: len(data) * 3 // 4])
                out.flush()
                in_time.append(first_batch.wait(20))
                out.write(data[len(data) * 3 // 4 :])

        writer = threading.Thread(target=write)
        writer.start()
        rows = 0
        for batch in self.open_source(pipe, block_bytes=20_000, batch_rows=50).batches():
            rows += batch.frame.height
            if rows:
                first_batch.set()
        writer.join()
        assert in_time == [True]
        assert rows == len(self.sample().ids) * copies
