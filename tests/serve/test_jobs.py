"""`forewarn jobs`: the filters, the forms of output, and what they say of missing values."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from forewarn.errors import StoreError, UsageError
from forewarn.job.columns import JOB_SCHEMA
from tests.serve.conftest import Forewarn, sacct_line, swf_line, write_sacct, write_swf

ROWS = [
    sacct_line("10", user="alice", submit="2024-01-10T08:00:00"),
    sacct_line("11_1", user="bob", partition="gpu", submit="2024-01-10T09:00:00", state="FAILED", code="1:0"),
    sacct_line("11_2", user="bob", partition="gpu", submit="2024-01-10T09:00:00", state="TIMEOUT"),
    sacct_line("12", user="carol", submit="2024-01-11T00:30:00", state="OUT_OF_MEMORY", code="0:125"),
    sacct_line(
        "13",
        user="alice",
        submit="2024-01-12T08:00:00",
        start="2024-01-12T08:10:00",
        end="2024-01-12T08:20:00",
        state="CANCELLED by 1001",
    ),
    sacct_line(
        "14", user="alice", submit="2024-01-13T08:00:00", start="Unknown", end="Unknown", state="PENDING"
    ),
]


@pytest.fixture
def filled(forewarn: Forewarn, tmp_path: Path) -> Forewarn:
    path = write_sacct(
        tmp_path / "alps.txt",
        *(
            row.replace("2024-01-10T09:10", "2024-01-14T09:10").replace(
                "2024-01-10T08:10", "2024-01-11T08:10"
            )
            for row in ROWS
        ),
    )
    result = forewarn("ingest", "--timezone", "Europe/Zurich", f"sacct:{path}")
    assert result.code == 0, result.err
    return forewarn


@pytest.mark.parametrize(
    ("flags", "ids"),
    [
        ("", "10 11_1 11_2 12 13 14"),
        ("-u alice", "10 13 14"),
        ("-u alice,bob -u carol", "10 11_1 11_2 12 13 14"),
        ("-A physics", "10 11_1 11_2 12 13 14"),
        ("-A chemistry", ""),
        ("-p gpu", "11_1 11_2"),
        ("-s failed", "11_1"),
        ("-s F,TO", "11_1 11_2"),
        ("-s OUT_OF_MEMORY", "12"),
        ("-s oom,cancelled", "12 13"),
        ("-s pending", "14"),
        ("-s PD,completed", "10 14"),
        ("-j 11", "11_1 11_2"),
        ("-j 11_2", "11_2"),
        ("-j 10,11_[1-2]", "10 11_1 11_2"),
        ("-j 12.batch", "12"),
        ("-j 99", ""),
        ("-M alps", "10 11_1 11_2 12 13 14"),
        ("-M other", ""),
        ("-S 2024-01-11", "12 13 14"),
        ("-E 2024-01-11", "10 11_1 11_2"),
        # 23:30 in UTC is 00:30 in the cluster's zone: the day is the cluster's.
        ("-S 2024-01-10T23:30:00+00:00 -E 2024-01-12", "12"),
        ("-S 1704929400 -E 1704929401", "12"),
        ("-S now-1days", ""),
        ("-n 2", "13 14"),
        ("-n 1 -u bob", "11_2"),
        ("-u alice -s completed -p batch", "10"),
    ],
)
def test_filters(filled: Forewarn, flags: str, ids: str) -> None:
    result = filled("jobs", "--json", *flags.split())
    assert result.code == 0
    assert [job["job_id"] for job in result.lines] == ids.split()
    if "-n" not in flags:
        assert filled("jobs", "--count", *flags.split()).out == f"{len(ids.split())}\n"
        parsable = filled("jobs", "-P", "-o", "jobid", "-n", 0, *flags.split())
        assert parsable.out.splitlines() == ["jobid", *ids.split()]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("-s exploded", "no state 'exploded'"),
        ("-S whenever", "not a time: 'whenever'"),
        ("-S now-3fortnights", "not a time"),
        ("-j abc", "not a job id: 'abc'"),
        ("-j 1_[3-", "not a job id"),
        ("-o jobid,usr", "did you mean user?"),
        ("-o ,", "--format: the list is empty; --helpformat lists the fields"),
        ("--by usr", "did you mean user?"),
        ("--by user,partition", "one field at a time"),
        ("--history 99", "no job 99"),
        ("-n -1", "-1"),
    ],
)
def test_wrong_calls(filled: Forewarn, flags: str, message: str) -> None:
    result = filled("jobs", *flags.split())
    assert result.code == UsageError.exit_code
    assert result.out == ""
    assert result.err.startswith("forewarn: error: ")
    assert message in result.err


def test_missing_is_never_zero(filled: Forewarn) -> None:
    fields = "jobid,start,end,elapsed,wait,maxrss,exitcode,nodelist"
    table = filled("jobs", "-j", 14, "-o", fields).out.splitlines()[-1].split()
    assert table == ["14", *["n/a"] * 7]
    assert filled("jobs", "-j", 14, "-P", "-o", fields).out.splitlines()[-1] == "14|||||||"
    (job,) = filled("jobs", "-j", 14, "--json").lines
    assert set(job) == {*JOB_SCHEMA, "known_at"}
    assert job["start"] is job["end"] is job["known_at"] is job["outcome"] is None


def test_values_for_people_and_as_sacct_writes_them(filled: Forewarn) -> None:
    fields = "jobid,submit,elapsed,timelimit,reqmem,outcome,exitcode"
    people = "12 2024-01-11 00:30:00 3-01:00:00 2:00:00 4 GiB out_of_memory 0:125"
    assert " ".join(filled("jobs", "-j", 12, "-o", fields).out.splitlines()[-1].split()) == people
    programs = "12|2024-01-11T00:30:00|3-01:00:00|02:00:00|4G|out_of_memory|0:125"
    assert filled("jobs", "-j", 12, "-P", "-o", fields).out.splitlines()[-1] == programs


def test_a_separator_in_a_value_is_escaped(forewarn: Forewarn, tmp_path: Path) -> None:
    path = tmp_path / "odd.txt"
    path.write_text("JobID|Submit|State|JobName\n5|2024-01-10T08:00:00|COMPLETED|a\\b|c\n")
    assert forewarn("ingest", f"sacct:{path}").code == 0
    (job,) = forewarn("jobs", "--json").lines
    last = forewarn("jobs", "-P", "-o", "jobid,jobname").out.splitlines()[-1]
    assert last == "5|" + job["name"].replace("\\", "\\\\").replace("|", "\\|")


def test_the_default_table_leaves_out_what_nobody_has(forewarn: Forewarn, tmp_path: Path) -> None:
    forewarn("ingest", f"swf:{write_swf(tmp_path / 'log.swf', swf_line(1))}")
    heading = forewarn("jobs").out.splitlines()[0].split()
    assert "jobname" not in heading
    assert {"jobid", "user", "elapsed", "outcome"} <= set(heading)


def test_several_clusters_are_distinguished_and_keep_their_time_zones(
    filled: Forewarn, tmp_path: Path
) -> None:
    path = write_sacct(tmp_path / "pacific.txt", sacct_line("10"))
    filled("ingest", "--timezone", "America/Los_Angeles", f"sacct:{path}")
    rows = [
        line.split("|") for line in filled("jobs", "-P", "-j", 10, "-o", "cluster,submit").out.splitlines()
    ]
    assert rows[1:] == [["alps", "2024-01-10T08:00:00"], ["pacific", "2024-01-10T08:00:00"]]
    assert filled("jobs").out.startswith("cluster")
    assert not filled("jobs", "-M", "alps").out.startswith("cluster")
    result = filled("jobs", "--count", "-S", "2024-01-10")
    assert "2024-01-10 is taken as UTC" in result.err


def test_summary(filled: Forewarn) -> None:
    result = filled("jobs", "--summary")
    assert "6 jobs, 5 of them ended" in result.out
    assert "failed 20.0%" in result.out
    assert filled("jobs", "--summary", "--json").json["outcomes"]["timeout"] == 1


def test_failures_by_a_field(filled: Forewarn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Policy `wasted`: the cancelled job and the pending one are not judged."""
    rows = {row["user"]: row for row in filled("jobs", "--by", "user", "--json").lines}
    assert rows["alice"] == {"user": "alice", "jobs": 3, "judged": 1, "failed": 0}
    assert rows["bob"] == {"user": "bob", "jobs": 2, "judged": 2, "failed": 2}
    table = filled("jobs", "--by", "user")
    assert table.out.splitlines()[1].split() == ["alice", "3", "0", "0.0%"]
    assert "policy wasted" in table.err
    monkeypatch.setenv("FOREWARN_POLICY", "papers")
    rows = {row["user"]: row for row in filled("jobs", "--by", "user", "--json").lines}
    assert (rows["alice"]["judged"], rows["alice"]["failed"]) == (2, 1)


@pytest.mark.parametrize(
    ("by", "groups"),
    [("day", "2024-01-10 2024-01-11 2024-01-12 2024-01-13"), ("week", "2024-W02"), ("month", "2024-01")],
)
def test_failures_by_time(by: str, groups: str, filled: Forewarn) -> None:
    assert [row[by] for row in filled("jobs", "--by", by, "--json").lines] == groups.split()


def test_a_group_without_a_judged_job_has_no_share(filled: Forewarn) -> None:
    assert filled("jobs", "--by", "user", "-s", "pending").out.splitlines()[1].split() == [
        "alice",
        "1",
        "0",
        "n/a",
    ]


def test_the_newest_come_last_and_are_found_however_old(forewarn: Forewarn, tmp_path: Path) -> None:
    """Windows back in time miss nothing, from tomorrow to 1970."""
    now = int(time.time())
    ages = [-86400, 10, 90_000, 86400 * 30, 86400 * 400, 86400 * 5000, now]
    lines = [swf_line(n + 1, submit=now - age) for n, age in reversed(list(enumerate(ages)))]
    path = tmp_path / "log.swf"
    path.write_text("\n".join(lines) + "\n")
    assert forewarn("ingest", f"swf:{path}").code == 0
    for limit in range(1, len(ages) + 2):
        found = [int(job["job_id"]) for job in forewarn("jobs", "--json", "-n", limit).lines]
        assert found == list(range(min(limit, len(ages)), 0, -1))
    assert [int(j["job_id"]) for j in forewarn("jobs", "--json", "-n", 2, "-E", now - 86400).lines] == [4, 3]
    assert [int(j["job_id"]) for j in forewarn("jobs", "--json", "-n", 9, "-S", now - 100_000).lines] == [
        3,
        2,
        1,
    ]


def test_history_shows_what_changed(filled: Forewarn, tmp_path: Path) -> None:
    later = sacct_line(
        "14", submit="2024-01-13T08:00:00", start="2024-01-13T09:00:00", end="2024-01-13T10:00:00"
    )
    filled(
        "ingest",
        "--timezone",
        "Europe/Zurich",
        "-M",
        "alps",
        f"sacct:{write_sacct(tmp_path / 'b.txt', later)}",
    )
    first, second = filled("jobs", "--history", 14, "--json").lines
    assert first["changed"]["state"] == "PENDING"
    assert second["changed"]["state"] == "COMPLETED"
    assert "user" not in second["changed"]
    assert "outcome=completed" in filled("jobs", "--history", 14).out


def test_fields_are_listed(forewarn: Forewarn) -> None:
    listed = forewarn("jobs", "--helpformat").out.split()
    assert set(JOB_SCHEMA) < set(listed)
    assert {"jobid", "elapsed", "maxrss"} < set(listed)


def test_without_a_store_it_says_how_to_make_one(forewarn: Forewarn, home: Path) -> None:
    result = forewarn("jobs")
    assert result.code == StoreError.exit_code
    assert "forewarn ingest" in result.err
    assert not home.exists()


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (200, "jobid user partition jobname ncpus submit elapsed timelimit outcome exitcode"),
        (80, "jobid user jobname submit elapsed outcome"),
        (60, "jobid user elapsed outcome"),
        (10, "jobid outcome"),
    ],
)
def test_a_narrow_terminal_shows_fewer_columns_and_whole_ids(
    columns: int, shown: str, forewarn: Forewarn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = sacct_line("1234567_89", user="alexandra", state="OUT_OF_MEMORY", code="0:125")
    path = write_sacct(tmp_path / "alps.txt", line.replace("|run|", "|a_name_of_many_words_and_numbers|"))
    assert forewarn("ingest", f"sacct:{path}").code == 0
    for name, value in {
        "FORCE_COLOR": "1",
        "NO_COLOR": "1",
        "TERM": "xterm",
        "COLUMNS": str(columns),
    }.items():
        monkeypatch.setenv(name, value)
    result = forewarn("jobs")
    heading, job = (re.sub(r"\x1b\[[0-9;]*m", "", text) for text in result.out.splitlines())
    assert heading.split() == shown.split()
    assert "1234567_89" in job
    assert "out_of_memory" in job
    assert len(job) <= max(columns, len("1234567_89  out_of_memory"))
    assert ("no room for" in result.err) == (columns < 200)


def test_the_newest_days(filled: Forewarn) -> None:
    result = filled("jobs", "--by", "day", "-n", 2)
    assert [line.split()[0] for line in result.out.splitlines()] == ["day", "2024-01-12", "2024-01-13"]
    assert "the newest 2 of 4" in result.err
