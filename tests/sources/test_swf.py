from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from forewarn.errors import SourceError, UsageError
from forewarn.sources.base import SourceOptions
from forewarn.sources.swf import SwfSource
from tests.sources.contract import Sample, TextSourceContract

LOG = b"""; Version: 2.2
; UnixStartTime: 1000000
; TimeZoneString: US/Pacific
; Queue: 3 express
; Partition: 1 batch
;
1 0 10 3600 8 3500.5 1024 16 7200 2048 1 7 2 5 3 1 -1 -1
2 60 -1 -1 -1 -1 -1 4 600 -1 5 7 2 -1 3 1 -1 -1
3 70 0 0 0 -1 -1 4 600 -1 0 8 2 6 9 2 -1 -1

4 80 5 60 2 55 -1
5 90 5 60 2 x -1 2 60 -1 1 7 2 5 3 1 -1 -1
6 -1 -1 -1 -1 -1 -1 -1 -1 -1 0 7 2 5 3 1 -1 -1
"""


class TestSwf(TextSourceContract):
    source = SwfSource

    def sample(self) -> Sample:
        return Sample(
            LOG,
            ids=("1", "2", "3", "6"),
            lines=(7, 8, 9, 13),
            bad_lines=(11, 12),
            written_at=1_003_610,  # the end of job 1; the format has no jobs that have not ended
            header_lines=6,
            file="s.swf",
        )


def read(tmp_path: Path, text: bytes, **options: str) -> tuple[pl.DataFrame, SwfSource]:
    path = tmp_path / "log.swf"
    path.write_bytes(text)
    source = SwfSource(path, SourceOptions(**options))  # type: ignore[arg-type]
    return pl.concat([batch.frame for batch in source.batches()]), source


def test_what_a_line_means(tmp_path: Path) -> None:
    frame, source = read(tmp_path, LOG)
    job = frame.row(0, named=True)
    expected = {
        "cluster": "log",
        "submit": 1_000_000,
        "start": 1_000_010,
        "end": 1_003_610,
        "seen_at": 1_003_610,
        "user": "7",
        "group": "2",
        "application": "5",
        "qos": "express",
        "partition": "batch",
        "cpus_asked": 16,
        "cpus_given": 8,
        "time_limit": 7200,
        "memory_asked": 2048 * 1024,
        "memory_per": "cpu",
        "max_memory": 1024 * 1024,
        "cpu_time": 3500.5 * 8,
        "state": "1",
        "outcome": "completed",
    }
    assert {name: job[name] for name in expected} == expected
    assert source.timezone == "US/Pacific"


def test_a_job_that_never_ran_has_no_start(tmp_path: Path) -> None:
    frame, _ = read(tmp_path, LOG)
    assert frame["start"].to_list()[1:3] == [None, None]
    assert frame["cpus_given"].to_list()[1:3] == [None, None]
    assert frame["outcome"].to_list()[1:3] == ["cancelled", "failed"]


def test_a_row_without_any_time_has_no_outcome(tmp_path: Path) -> None:
    frame, source = read(tmp_path, LOG)
    assert frame.row(3, named=True)["submit"] == 1_000_070, "the submit before it (line 12 is a bad row)"
    assert frame.row(3, named=True)["outcome"] == "unknown"
    assert "1 rows have no submit time" in source.notes[0]


def test_a_bad_row_names_its_field(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_bytes(LOG)
    (batch,) = SwfSource(path).batches()
    short, word = batch.bad
    assert (short.line, short.field, short.reason) == (11, "line", "7 columns instead of 18")
    assert (word.line, word.field, word.reason) == (12, "cpu_time", "not a number: 'x'")


BEGAN = b"; UnixStartTime: 1000000\n"


def row(number: int, status: int) -> bytes:
    return b"%d %d 0 60 1 60 -1 1 60 -1 %d 1 1 1 1 1 -1 -1\n" % (number, number, status)


def test_labels_that_look_inverted_are_noted_and_can_be_read_otherwise(tmp_path: Path) -> None:
    log = BEGAN + b"".join(row(n, status) for n, status in enumerate([0, 0, 0, 1, 265]))
    frame, source = read(tmp_path, log)
    assert "--status exit-code" in source.notes[0]
    frame, source = read(tmp_path, log, status="exit-code")
    assert frame["outcome"].to_list() == ["completed"] * 3 + ["failed"] * 2
    assert source.notes == []
    frame, _ = read(tmp_path, log, status="0=completed,1=timeout")
    assert frame["outcome"].to_list() == ["completed"] * 3 + ["timeout", "unknown"]
    with pytest.raises(UsageError, match="not swf, exit-code or a list"):
        read(tmp_path, log, status="zero is fine")


@pytest.mark.parametrize(
    ("line", "zone"), [(b"; TimeZone: -18000\n", "Etc/GMT+5"), (b"; TimeZone: 0\n", "UTC"), (b"", "UTC")]
)
def test_the_zone_of_the_header(tmp_path: Path, line: bytes, zone: str) -> None:
    _, source = read(tmp_path, line + row(1, 1))
    assert source.timezone == zone


def test_a_log_of_comments_only(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="contains no job, only comments"):
        read(tmp_path, b"; Version: 2\n; Note: nothing\n")


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("log", "rows", "shares"),
    [
        ("CTC-SP2-1996-3.1-cln", 77_222, {"failed": 0.216}),
        ("SDSC-BLUE-2000-4.2-cln", 243_306, {"cancelled": 0.196, "failed": 0.0}),
        ("SDSC-SP2-1998-4.2-cln", 59_715, {"cancelled": 0.278}),
        ("LANL-CM5-1994-4.1-cln", 122_060, {"failed": 0.167}),
        ("LLNL-Thunder-2007-1.1-cln", 121_039, {"failed": 0.073, "cancelled": 0.066}),
        ("Sandia-Ross-2001-1.1-cln", 57_882, {"failed": 0.742, "completed": 0.196}),
    ],
)
def test_real_logs(shared_data: Path, log: str, rows: int, shares: dict[str, float]) -> None:
    source = SwfSource(shared_data / "swf" / f"{log}.swf.gz")
    found: Counter[str] = Counter()
    for batch in source.batches():
        assert batch.bad == ()
        found.update(dict(batch.frame["outcome"].value_counts().iter_rows()))
    assert found.total() == rows
    for outcome, share in shares.items():
        assert found[outcome] / rows == pytest.approx(share, abs=0.0006), outcome
    assert any("inverted" in note for note in source.notes) == ("Ross" in log)


@pytest.mark.shared_data
def test_a_real_log_cut_short_in_the_middle(shared_data: Path, tmp_path: Path) -> None:
    whole = (shared_data / "swf" / "CTC-SP2-1996-3.1-cln.swf.gz").read_bytes()
    (tmp_path / "cut.swf.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"cut.swf.gz: the gzip data is broken or cut short"):
        list(SwfSource(tmp_path / "cut.swf.gz", SourceOptions(block_bytes=1 << 20)).batches())
    assert gzip.decompress(whole).startswith(b";")


@pytest.mark.parametrize(
    ("place", "value", "field"),
    [
        (1, "99999999999999999999", "submit"),
        (1, "9999999999", "submit"),  # a number, but after the year 2200
        (3, "nan", "run_time"),
        (3, "inf", "run_time"),
        (3, "1e30", "run_time"),
        (3, "-7", "run_time"),
        (4, "-0.5", "cpus_given"),
        (11, "-2", "user"),
    ],
)
def test_a_number_that_cannot_be_is_a_bad_row(tmp_path: Path, place: int, value: str, field: str) -> None:
    parts = row(1, 1).decode().split()
    parts[place] = value
    path = tmp_path / "log.swf"
    path.write_bytes(BEGAN + row(0, 1) + " ".join(parts).encode() + b"\n")
    (batch,) = SwfSource(path).batches()
    assert batch.frame["job_id"].to_list() == ["0"]
    (bad,) = batch.bad
    assert (bad.line, bad.field, bad.text) == (3, field, " ".join(parts))


def test_a_negative_status_is_kept_since_exit_codes_can_be(tmp_path: Path) -> None:
    frame, _ = read(tmp_path, BEGAN + row(1, -4) + row(2, -1), status="exit-code")
    assert frame["state"].to_list() == ["-4", None]
    assert frame["outcome"].to_list() == ["failed", "unknown"]


@pytest.mark.parametrize("header", [b"", b"; UnixStartTime: abc\n", b"; UnixStartTime: \xc2\xb2\n"])
def test_a_log_that_does_not_say_when_it_began_is_noted(tmp_path: Path, header: bytes) -> None:
    frame, source = read(tmp_path, header + row(5, 1))
    assert frame["submit"].to_list() == [5]
    (note,) = source.notes
    assert "count from 1970" in note


def test_an_unknown_zone_is_noted_unless_the_option_names_one(tmp_path: Path) -> None:
    log = BEGAN + b"; TimeZoneString: Mars/Base\n" + row(1, 1)
    _, source = read(tmp_path, log)
    assert "'Mars/Base' is unknown" in source.notes[0]
    assert source.timezone == "UTC"
    assert read(tmp_path, log, timezone="Europe/Berlin")[1].notes == []


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    frame, source = read(tmp_path, b"\xef\xbb\xbf" + BEGAN + row(1, 1))
    assert frame["submit"].to_list() == [1_000_001]
    assert source.notes == []
