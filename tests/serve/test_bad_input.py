"""Bad input, as its user meets it: one clear line, the right exit code, the store as it was."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from forewarn.errors import BadRowError, NoGoodRowError, SourceError, StoreError, UsageError
from tests.serve.conftest import Forewarn, sacct_line, swf_line, write_sacct, write_swf

GOOD = [swf_line(n, submit=n * 60, status=n % 2) for n in range(1, 4)]


def cut_gzip(folder: Path) -> str:
    path = folder / "cut.swf.gz"
    whole = gzip.compress("".join(swf_line(n, submit=n) + "\n" for n in range(5000)).encode())
    path.write_bytes(whole[: len(whole) // 2])
    return f"swf:{path}"


def binary_junk(folder: Path) -> str:
    path = folder / "junk.swf"
    path.write_bytes(bytes(range(256)) * 50)
    return f"swf:{path}"


def empty_file(folder: Path) -> str:
    (folder / "empty.swf").touch()
    return f"swf:{folder / 'empty.swf'}"


def missing_file(folder: Path) -> str:
    return f"swf:{folder / 'nowhere.swf'}"


def a_folder(folder: Path) -> str:
    return f"swf:{folder}"


def wrong_column_count(folder: Path) -> str:
    return f"swf:{write_swf(folder / 'short.swf', swf_line(7), '8 1 2 3')}"


def not_a_number(folder: Path) -> str:
    return f"swf:{write_swf(folder / 'word.swf', swf_line(7), swf_line(8).replace(' 3600 ', ' soon '))}"


def end_before_start(folder: Path) -> str:
    rows = [sacct_line("7"), sacct_line("8", end="2024-01-10T08:05:00")]
    return f"sacct:{write_sacct(folder / 'times.txt', *rows)}"


def conflicting_duplicate(folder: Path) -> str:
    rows = [sacct_line("7"), sacct_line("8"), sacct_line("7", code="1:0")]
    return f"sacct:{write_sacct(folder / 'twice.txt', *rows)}"


def wrong_column_count_in_sacct(folder: Path) -> str:
    return f"sacct:{write_sacct(folder / 'columns.txt', sacct_line('7'), '8|alice|physics')}"


# What each must say: where (file, line, field) and what is wrong.
CASES: list[tuple[Callable[[Path], str], int, list[str]]] = [
    (cut_gzip, SourceError.exit_code, ["cut.swf.gz", "cut short"]),
    (binary_junk, SourceError.exit_code, ["junk.swf", "binary"]),
    (empty_file, SourceError.exit_code, ["empty.swf", "empty"]),
    (missing_file, SourceError.exit_code, ["nowhere.swf", "no such file"]),
    (a_folder, SourceError.exit_code, ["directory"]),
    (wrong_column_count, BadRowError.exit_code, ["short.swf:4:", "4 columns instead of 18"]),
    (not_a_number, BadRowError.exit_code, ["word.swf:4:", "time_asked", "'soon'"]),
    (end_before_start, BadRowError.exit_code, ["times.txt:3:", "end:", "before it starts"]),
    (
        conflicting_duplicate,
        BadRowError.exit_code,
        ["twice.txt:4:", "job_id", "contradicts another row of this file"],
    ),
    (wrong_column_count_in_sacct, BadRowError.exit_code, ["columns.txt:3:", "3", "14"]),
]


@pytest.mark.parametrize(("make", "code", "messages"), CASES, ids=[case[0].__name__ for case in CASES])
def test_refused(
    make: Callable[[Path], str], code: int, messages: list[str], forewarn: Forewarn, tmp_path: Path
) -> None:
    assert forewarn("ingest", f"swf:{write_swf(tmp_path / 'good.swf', *GOOD)}").code == 0
    before = forewarn("jobs", "--limit", 0, "--json").out
    result = forewarn("ingest", make(tmp_path))
    assert result.code == code
    assert result.out == ""
    assert result.err.startswith("forewarn: error: ")
    for part in messages:
        assert part in result.err
    assert forewarn("jobs", "--limit", 0, "--json").out == before


@pytest.mark.parametrize(
    ("make", "good"),
    [
        (wrong_column_count, 1),
        (not_a_number, 1),
        (end_before_start, 1),
        (conflicting_duplicate, 2),
        (wrong_column_count_in_sacct, 1),
    ],
)
def test_skipped_with_their_reason(
    make: Callable[[Path], str], good: int, forewarn: Forewarn, tmp_path: Path, home: Path
) -> None:
    source = make(tmp_path)
    result = forewarn("ingest", "--skip-bad", "--json", source)
    assert result.code == 0
    (report,) = result.json["files"]
    assert (report["rows"], report["new"], report["bad"]) == (good + 1, good, 1)
    rejects = Path(report["rejects"])
    assert rejects.parent == home / "rejects"
    (row,) = map(json.loads, rejects.read_text().splitlines())
    assert row["file"] == source.partition(":")[2]
    assert row["line"] >= 3
    assert row["field"]
    assert row["reason"]
    assert forewarn("jobs", "--count").out == f"{good}\n"
    # A second run keeps the first one's rejects.
    again = forewarn("ingest", "--skip-bad", "--json", source).json["files"][0]
    assert (again["new"], again["same"], again["bad"]) == (0, good, 1)
    assert Path(again["rejects"]) != rejects
    assert rejects.exists()


def test_rejects_go_to_the_file_of_the_option(forewarn: Forewarn, tmp_path: Path) -> None:
    result = forewarn("ingest", "--rejects", tmp_path / "mine.jsonl", wrong_column_count(tmp_path))
    assert result.code == 0
    assert "1 new, 0 already stored, 1 bad" in result.out
    assert len((tmp_path / "mine.jsonl").read_text().splitlines()) == 1
    two = forewarn(
        "ingest", "--rejects", tmp_path / "mine.jsonl", not_a_number(tmp_path), not_a_number(tmp_path)
    )
    assert two.code == UsageError.exit_code


@pytest.mark.slow
def test_no_rejects_are_left_of_a_write_that_failed(forewarn: Forewarn, tmp_path: Path, home: Path) -> None:
    """A bad row, then, megabytes later, the end of a broken archive."""
    lines = [swf_line(1), "2 3 4", *(swf_line(n, submit=n) for n in range(3, 250_000))]
    whole = gzip.compress("\n".join(lines).encode(), 1)
    (tmp_path / "cut.swf.gz").write_bytes(whole[:-100])
    result = forewarn("ingest", "--skip-bad", f"swf:{tmp_path / 'cut.swf.gz'}")
    assert result.code == SourceError.exit_code
    assert not list((home / "rejects").glob("*"))
    assert forewarn("jobs", "--count").out == "0\n"


def test_an_identical_duplicate_is_the_same_observation(forewarn: Forewarn, tmp_path: Path) -> None:
    path = write_sacct(tmp_path / "twice.txt", sacct_line("7"), sacct_line("8"), sacct_line("7"))
    (report,) = forewarn("ingest", "--json", f"sacct:{path}").json["files"]
    assert (report["new"], report["same"], report["bad"]) == (2, 1, 0)


def test_files_before_a_bad_one_stay(forewarn: Forewarn, tmp_path: Path) -> None:
    good = write_swf(tmp_path / "good.swf", *GOOD)
    result = forewarn("ingest", "--json", f"swf:{good}", wrong_column_count(tmp_path))
    assert result.code == BadRowError.exit_code
    assert [report["new"] for report in result.json["files"]] == [3]
    assert forewarn("jobs", "--count").out == "3\n"


@pytest.mark.parametrize("spec", ["history.txt", "xml:history.txt", "swf:", "sacct"])
def test_not_a_source(spec: str, forewarn: Forewarn, home: Path) -> None:
    result = forewarn("ingest", spec)
    assert result.code == UsageError.exit_code
    assert repr(spec) in result.err
    assert "sacct:FILE" in result.err
    assert not home.exists(), "a call that is wrong in itself leaves nothing behind"


def run(script: str, *prefix: str) -> subprocess.CompletedProcess[str]:
    """A shell script in which `forewarn` is this one."""
    command = shutil.which("forewarn", path=str(Path(sys.executable).parent))
    function = f'forewarn() {{ "{command}" "$@"; }}\n'
    return subprocess.run(
        [*prefix, "sh", "-c", function + script], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_state_of_the_future_is_one_warning_and_no_crash(tmp_path: Path) -> None:
    rows = [sacct_line("7"), sacct_line("8", state="TELEPORTED"), sacct_line("9", state="TELEPORTED")]
    path = write_sacct(tmp_path / "future.txt", *rows)
    result = run(
        f"forewarn ingest --home {tmp_path}/home sacct:{path} && forewarn jobs --home {tmp_path}/home --json"
    )
    assert result.returncode == 0
    assert result.stderr.count("TELEPORTED") == 1
    outcomes = [json.loads(line)["outcome"] for line in result.stdout.splitlines() if line.startswith("{")]
    assert outcomes == ["completed", "unknown", "unknown"]


@pytest.mark.slow
@pytest.mark.parametrize("there", [True, False], ids=["its store", "its folder"])
def test_no_permission_to_write(there: bool, tmp_path: Path) -> None:
    """Root may write anywhere, so root gives that right up first."""
    prefix: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root without setpriv (util-linux) cannot give up its right to write anywhere")
        prefix = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    path = write_swf(tmp_path / "good.swf", *GOOD)
    home = tmp_path / "locked" / "home"
    home.parent.mkdir()
    if there:
        assert run(f"forewarn ingest --home {home} swf:{path}").returncode == 0
        (home / "forewarn.db").chmod(0o444)
        home.chmod(0o555)
    home.parent.chmod(0o555)
    try:
        more = write_swf(tmp_path / "more.swf", swf_line(99))
        result = run(f"forewarn ingest --home {home} swf:{more}", *prefix)
        assert result.returncode == StoreError.exit_code
        assert result.stderr.startswith("forewarn: error: ")
        assert str(home) in result.stderr
        assert "permission" in result.stderr
        assert len(result.stderr.splitlines()) <= 2
    finally:
        home.parent.chmod(0o755)
        if there:
            home.chmod(0o755)
            (home / "forewarn.db").chmod(0o644)
    if there:
        assert run(f"forewarn jobs --home {home} --count").stdout == "3\n"


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path) -> None:
    """On a file system of 1.5 MB, made in a namespace of its own and gone with it."""
    prefix = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=1536k tmpfs {disk}"
    if shutil.which("unshare") is None or run(mount, *prefix).returncode != 0:
        pytest.skip("no right to mount a small file system here")
    small = write_swf(tmp_path / "small.swf", *GOOD)
    lines = (
        swf_line(n, submit=n * n % 10**8, run_time=n * 7919 % 86400, user=n % 997)
        for n in range(100, 120_000)
    )
    large = write_swf(tmp_path / "large.swf", *lines)
    result = run(
        f"""{mount}
        forewarn ingest --home {disk}/home swf:{small} >&2 || exit 99
        forewarn ingest --home {disk}/home swf:{large}
        echo "code $?"
        forewarn jobs --home {disk}/home --count
        """,
        *prefix,
    )
    assert result.stdout == f"code {StoreError.exit_code}\n3\n"
    assert "forewarn: error: " in result.stderr
    assert f"{disk}/home" in result.stderr
    assert "full" in result.stderr
    assert "Traceback" not in result.stderr


def test_nothing_but_bad_rows(forewarn: Forewarn, tmp_path: Path, home: Path) -> None:
    path = write_swf(tmp_path / "all.swf", "1 2 3", "4 5 6")
    result = forewarn("ingest", "--skip-bad", f"swf:{path}")
    assert result.code == NoGoodRowError.exit_code
    assert f"{path}: all 2 rows are bad" in result.err
    assert len((home / "rejects" / "all-1.jsonl").read_text().splitlines()) == 2


def test_rejects_make_no_folder_elsewhere(forewarn: Forewarn, tmp_path: Path) -> None:
    path = write_swf(tmp_path / "a.swf", *GOOD, "1 2 3")
    result = forewarn("ingest", "--rejects", tmp_path / "no" / "x.jsonl", f"swf:{path}")
    assert result.code == UsageError.exit_code
    assert f"folder {tmp_path / 'no'} does not exist" in result.err
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("flag", [("--fields", "JobID"), ("--status", "swf")])
def test_a_flag_that_no_source_reads(flag: tuple[str, str], forewarn: Forewarn, tmp_path: Path) -> None:
    wrong = {"--fields": "swf", "--status": "sacct"}[flag[0]]
    result = forewarn("ingest", *flag, f"{wrong}:{tmp_path / 'x'}")
    assert result.code == UsageError.exit_code
    assert f"{flag[0]}: applies to" in result.err


def test_observations_are_not_called_jobs(forewarn: Forewarn, tmp_path: Path) -> None:
    path = tmp_path / "seen.parquet"
    columns = {"job_id": ["1", "1", "2"], "submit": [5, 5, 6], "seen_at": [5, 9, 9], "cluster": ["c"] * 3}
    pl.DataFrame(columns).write_parquet(path)
    assert "3 observations of 2 jobs in" in forewarn("ingest", f"parquet:{path}").out
    assert "3 observations of jobs, 0 new jobs in" in forewarn("ingest", f"parquet:{path}").out
    assert ": 1 job in" in forewarn("ingest", f"swf:{write_swf(tmp_path / 'a.swf', GOOD[0])}").out
