from __future__ import annotations

import re
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.errors import BadRow, SourceError, UsageError
from forewarn.sources.base import INCOMPLETE, SourceOptions, open_source
from forewarn.sources.sacct import SacctSource
from forewarn.sources.sacct.fields import FIELDS, field_name
from tests.sources.contract import Sample, TextSourceContract

T = "2024-01-01T00:00:0"  # and a digit
STEPS = f"""\
JobID|JobIDRaw|Cluster|User|State|ExitCode|Submit|Eligible|Start|End|NodeList|ReqMem|ReqTRES|Timelimit|TotalCPU\
|MaxRSS|AveDiskRead|NTasks|ConsumedEnergyRaw|JobName|WorkDir|SubmitLine
7|7|lab|ann|COMPLETED|0:0|{T}0|{T}0|{T}1|{T}9|n1|200M|mem=200M,node=2|01:00:00|00:10.500|||||a|/w|sbatch a
7.batch|7.batch|lab||COMPLETED|0:0|{T}1||||||||00:10.500|3000K|1M|1|5|batch||
7.extern|7.extern|lab||COMPLETED|0:0|{T}1||||||||00:00:00|10K|0|1|0|extern||
7.0|7.0|lab||COMPLETED|0:0|{T}1||||||||00:01:00|90M|2M|4|6|srun||
8_2|9|lab|ann|CANCELLED by 1001|0:9|{T}5|{T}5|{T}6|{T}7|n2|50M||Partition_Limit|00:00|||||s|/w|sbatch "a | b
c"
8_2.batch|9.batch|lab||CANCELLED|0:15|{T}6||||||||00:02:00|5000K||||batch||
8_[3-9%2]|8|lab|ann|PENDING|0:0|{T}5|2024-02-01T00:00:00|Unknown|Unknown|None assigned|5M||UNLIMITED||||||s|/|
12+1|13|lab|bob|RUNNING|0:0|{T}6|{T}6|{T}7|Unknown|n3|50M||30:00|00:00:00|||||het|/w|
14|14|lab|bob|FAILED|1:0|yesterday|Unknown|Unknown|Unknown|n3|50M||||||||bad|/w|
15|15|lab|bob|FAILED|1:0|{T}7
16|16|lab|bob|FAILED|1:0|{T}7|Unknown|{T}9|{T}8|n3|50M||||||||early|/w|
""".encode()


class TestSacct(TextSourceContract):
    source = SacctSource

    def sample(self) -> Sample:
        return Sample(
            STEPS,
            ids=("7", "8_2", "8_[3-9%2]", "12+1"),
            lines=(2, 6, 9, 10),
            bad_lines=(11, 12, 13),
            written_at=1704067209,  # {T}9
            unended=("8_[3-9%2]", "12+1"),
            header_lines=1,
            file="sacct.psv",
        )


class TestSacctWithoutHeader(TextSourceContract):
    source = SacctSource

    def sample(self) -> Sample:
        lines = [line + b"|" for line in STEPS.split(b"\n")[1:] if line[:2] in (b"7|", b"7.", b"12")]
        return Sample(
            b"\n".join(lines) + b"\n",
            ids=("7", "12+1"),
            lines=(1, 5),
            written_at=1704067209,
            unended=("12+1",),
            options=SourceOptions(fields=tuple(STEPS.split(b"\n")[0].decode().split("|"))),
        )


def read(
    tmp_path: Path, text: str | bytes, **options: Any
) -> tuple[list[dict[str, Any]], list[BadRow], list[str]]:
    path = tmp_path / "jobs.psv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    source = SacctSource(path, SourceOptions(cluster="lab", **options))
    batches = list(source.batches())
    rows = [row for batch in batches for row in batch.frame.iter_rows(named=True)]
    return rows, [bad for batch in batches for bad in batch.bad], source.notes


def one(tmp_path: Path, **fields: str) -> dict[str, Any]:
    """Read one job with these fields in addition to id and submit time."""
    options = {"timezone": fields.pop("timezone")} if "timezone" in fields else {}
    fields = {"JobID": "1", "Submit": "2024-06-01T00:00:00"} | fields
    rows, bad, _ = read(tmp_path, "|".join(fields) + "\n" + "|".join(fields.values()) + "\n", **options)
    assert bad == []
    return rows[0]


# --- steps ---------------------------------------------------------------------------------------


def test_steps_are_folded_into_their_job(tmp_path: Path) -> None:
    rows, _, _ = read(tmp_path, STEPS)
    job = rows[0]
    assert job["max_memory"] == 90 << 20, "the largest of any step"
    assert job["io_read"] == (1 << 20) + 4 * (2 << 20), "the mean per task times the tasks, over the steps"
    assert job["cpu_time"] == pytest.approx(70.5), "the steps' sum, where the job's own line says less"
    assert job["energy"] == 11
    assert rows[1]["cpu_time"] == 120.0
    assert rows[3]["cpu_time"] is None, "0 of a running job is not known yet"


def test_a_jobs_own_cpu_time_counts_before_its_steps(tmp_path: Path) -> None:
    head = "JobID|Submit|Start|End|State|TotalCPU\n"
    job = "1|2024-01-01T00:00:00|2024-01-01T00:00:00|2024-01-01T01:00:00|COMPLETED|"
    (alone,), _, _ = read(tmp_path, head + job + "00:10:00\n")
    assert alone["cpu_time"] == 600
    (unknown,), _, _ = read(tmp_path, head + job + "00:00:00\n")
    assert unknown["cpu_time"] is None, "sacct -X shows 0 for what it did not look up"
    (none,), _, _ = read(tmp_path, head + job + "00:00:00\n1.batch|||||00:00:00\n")
    assert none["cpu_time"] == 0


def test_exact_io_totals_count_before_means_and_maxima(tmp_path: Path) -> None:
    head = "JobID|Submit|State|TRESUsageInTot|AveDiskRead|MaxDiskRead|MaxDiskWrite|NTasks\n"
    rows, _, _ = read(
        tmp_path,
        head
        + "1|2024-01-01T00:00:00|COMPLETED|||||\n"
        + "1.0||COMPLETED|cpu=00:00:01,fs/disk=8107,mem=3K|0.01M|0.01M|2M|3\n"
        + "1.1||COMPLETED|cpu=00:00:01|1M|9M||3\n"
        + "1.2||COMPLETED|||9M||\n",
    )
    assert rows[0]["io_read"] == 8107 + (3 << 20) + (9 << 20)
    assert rows[0]["io_written"] == 2 << 20


def test_a_step_without_its_job_is_a_bad_row(tmp_path: Path) -> None:
    text = "JobID|Submit|State\n3.batch||FAILED\n4|2024-01-01T00:00:00|FAILED\n5.batch||FAILED\n"
    rows, bad, _ = read(tmp_path, text)
    assert [row["job_id"] for row in rows] == ["4"]
    assert [(b.line, b.field) for b in bad] == [(2, "JobID"), (4, "JobID")]
    assert "a step without its job's row before it" in bad[0].reason


def test_a_requeued_job_is_two_jobs(tmp_path: Path) -> None:
    text = (
        "JobID|Submit|State|MaxRSS\n"
        "1|2024-01-01T00:00:00|NODE_FAIL|\n1.batch|||5K\n"
        "1|2024-01-01T05:00:00|COMPLETED|\n1.batch|||7K\n"
    )
    rows, _, _ = read(tmp_path, text)
    assert [(row["outcome"], row["max_memory"]) for row in rows] == [
        ("node_fail", 5 << 10),
        ("completed", 7 << 10),
    ]


# --- ids, times, requests ------------------------------------------------------------------------


def test_array_tasks_pending_arrays_and_het_components(tmp_path: Path) -> None:
    rows, _, _ = read(tmp_path, STEPS)
    names = ("job_id", "raw_id", "array_job_id", "array_task_id", "array_tasks", "het_job_id", "het_offset")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("7", 7, None, None, None, None, None),
        ("8_2", 9, 8, 2, None, None, None),
        ("8_[3-9%2]", 8, 8, None, "3-9%2", None, None),
        ("12+1", 13, None, None, None, 12, 1),
    ]


def test_cancelled_by(tmp_path: Path) -> None:
    rows, _, _ = read(tmp_path, STEPS)
    assert (rows[1]["state"], rows[1]["cancelled_by"]) == ("CANCELLED", "1001")
    assert (rows[1]["exit_code"], rows[1]["exit_signal"]) == (0, 9)


@pytest.mark.parametrize(
    ("printed", "code", "signal"),
    [("9:0", 137, 0), ("11:0", 139, 0), ("0:9", 0, 9), ("1:0", 1, 0), ("127:0", 127, 0), ("137:0", 137, 0)],
)
def test_128_is_put_back_where_sacct_took_it_off(
    tmp_path: Path, printed: str, code: int, signal: int
) -> None:
    """A shell reports signal 9 as 137, and sacct's text prints that as 9."""
    row = one(tmp_path, State="FAILED", ExitCode=printed, DerivedExitCode=printed)
    assert (row["exit_code"], row["exit_signal"], row["derived_exit_code"]) == (code, signal, code)


@pytest.mark.parametrize(("state", "who"), [("5", "ann"), ("0", "root"), ("77", "77")])
def test_who_cancelled_has_a_name_where_it_is_certain(tmp_path: Path, state: str, who: str) -> None:
    assert one(tmp_path, State=f"CANCELLED by {state}", User="ann", UID="5")["cancelled_by"] == who


@pytest.mark.parametrize(
    ("text", "nodes", "expected"),
    [
        ("4000Mc", "2", (4000 << 20, "cpu")),
        ("4Gn", "2", (4 << 30, "node")),
        ("0n", "2", (0, "node")),
        ("200M", "2", (100 << 20, "node")),  # since 21.08: of the whole job
        ("200M", "", (200 << 20, None)),
        ("16?", "2", (None, None)),
        ("", "2", (None, None)),
    ],
)
def test_memory_asked(tmp_path: Path, text: str, nodes: str, expected: tuple[int, str]) -> None:
    job = one(tmp_path, ReqMem=text, ReqNodes=nodes, State="FAILED")
    assert (job["memory_asked"], job["memory_per"]) == expected


@pytest.mark.parametrize(
    ("field", "text", "seconds"),
    [
        ("Timelimit", "1-02:03:04", 93784),
        ("Timelimit", "UNLIMITED", 0xFFFFFFFF),
        ("Timelimit", "Partition_Limit", None),
        ("TimelimitRaw", "90", 5400),
        ("TimelimitRaw", "UNLIMITED", 0xFFFFFFFF),
    ],
)
def test_time_limits(tmp_path: Path, field: str, text: str, seconds: int | None) -> None:
    job = one(tmp_path, **{field: text})
    assert job["time_limit"] == seconds
    assert job["defaulted"] == ("time_limit" if seconds is None else None)


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("sbatch job.sh", None),  # its options may stand in the script
        ("srun -n4 -t 5 --mem=1G ./a", "account,partition,qos,nodes_asked"),
        ("sbatch -A x --partition=p -N 2 --qos q --wrap hostname", "cpus_asked,memory_asked,time_limit"),
    ],
)
def test_what_the_submit_line_says_was_left_to_the_site(tmp_path: Path, line: str, left: str | None) -> None:
    assert one(tmp_path, SubmitLine=line)["defaulted"] == left


def test_tres(tmp_path: Path) -> None:
    job = one(
        tmp_path,
        Start="2024-06-01T01:00:00",
        State="RUNNING",
        ReqTRES="node=2,billing=9,cpu=8,mem=62.50G,gres/gpu:a100=4",
        AllocTRES="cpu=8,gres/gpu=4,gres/gpu:a100=4,mem=62.50G,node=2",
    )
    assert job["tres_asked"] == "billing=9,cpu=8,gres/gpu:a100=4,mem=64000M,node=2"
    assert (job["cpus_asked"], job["nodes_asked"], job["gpus_asked"]) == (8, 2, 4)
    assert (job["cpus_given"], job["nodes_given"], job["gpus_given"]) == (8, 2, 4)
    assert (job["memory_asked"], job["memory_per"], job["memory_given"]) == (32000 << 20, "node", 64000 << 20)


def test_times_ahead_are_left_out(tmp_path: Path) -> None:
    running = one(
        tmp_path, State="RUNNING", Start="2024-06-01T01:00:00", End="2024-06-02T00:00:00", ExitCode="0:0"
    )
    assert (running["end"], running["outcome"], running["exit_code"]) == (None, None, None)
    pending = one(tmp_path, State="PENDING", Start="2024-06-01T01:00:00", AllocCPUS="0")
    assert (pending["start"], pending["cpus_given"]) == (None, None)


def test_a_job_cancelled_while_it_waited_never_started(tmp_path: Path) -> None:
    when = "2024-06-01T01:00:00"
    job = one(tmp_path, State="CANCELLED by 5", Start=when, End=when, NodeList="None assigned", NNodes="4")
    assert (job["start"], job["nodes"], job["nodes_given"], job["outcome"]) == (None, None, None, "cancelled")
    assert job["end"] is not None


def test_missing_times_follow_from_the_elapsed(tmp_path: Path) -> None:
    without_end = one(
        tmp_path, State="FAILED", Start="2024-06-01T01:00:00", Elapsed="00:30:00", Suspended="00:10:00"
    )
    assert without_end["end"] - without_end["start"] == 2400
    without_start = one(tmp_path, State="FAILED", End="2024-06-01T01:00:00", ElapsedRaw="60")
    assert without_start["end"] - without_start["start"] == 60


def test_the_clusters_zone(tmp_path: Path) -> None:
    job = one(tmp_path, Submit="2024-07-01T12:00:00", timezone="Europe/Berlin")
    assert job["submit"] == 1719828000
    with pytest.raises(UsageError, match="no such time zone: 'Mars/Base'"):
        one(tmp_path, timezone="Mars/Base")


def test_the_hour_that_comes_twice(tmp_path: Path) -> None:
    job = one(
        tmp_path,
        timezone="Europe/Berlin",
        Submit="2024-10-27T02:40:00",
        Start="2024-10-27T02:50:00",
        End="2024-10-27T02:10:00",
        State="COMPLETED",
    )
    assert job["end"] - job["start"] == 20 * 60


def test_a_time_that_never_was_is_a_bad_row(tmp_path: Path) -> None:
    text = "JobID|Submit\n1|2024-03-31T02:30:00\n"
    _, (bad,), _ = read(tmp_path, text, timezone="Europe/Berlin")
    assert bad.field == "Submit"
    assert "no such time in Europe/Berlin" in bad.reason


def test_unix_times_of_slurm_time_format(tmp_path: Path) -> None:
    assert one(tmp_path, Submit="1719828000", timezone="Europe/Berlin")["submit"] == 1719828000


def test_an_unknown_state_is_unknown_with_one_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows, _, _ = read(
            tmp_path,
            "JobID|Submit|State\n1|2024-01-01T00:00:00|STATE_OF_TEST_SACCT\n2|2024-01-01T00:00:00|STATE_OF_TEST_SACCT\n",
        )
    assert [row["outcome"] for row in rows] == ["unknown"] * 2
    assert len(caught) == 1


# --- rows out of shape ---------------------------------------------------------------------------

HEAD = "JobID|JobName|Submit|Constraints|State|WorkDir|SubmitLine|User\n"


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        ("1|a|b|2024-01-01T00:00:00||FAILED|/w|sbatch x|u", "name", "a|b"),
        ("1|||2024-01-01T00:00:00||FAILED|/w|sbatch x|u", "name", "|"),
        ("1|a|2024-01-01T00:00:00|skl|hsw|FAILED|/w|sbatch x|u", "constraint", "skl|hsw"),
        (
            "1|a|2024-01-01T00:00:00||FAILED|/w|sbatch --wrap cat x | wc|u",
            "submit_line",
            "sbatch --wrap cat x | wc",
        ),
        ("1|a|2024-01-01T00:00:00||FAILED|/w|x|sbatch y|u", "work_dir", "/w|x"),
        (
            "1|a|2024-01-01T00:00:00||FAILED|/w|sbatch --wrap a\nb | c\n\nd|u",
            "submit_line",
            "sbatch --wrap a\nb | c\n\nd",
        ),
    ],
)
def test_a_separator_or_line_end_inside_a_value_is_repaired(
    tmp_path: Path, row: str, field: str, value: str
) -> None:
    around = "2|x|2024-01-01T00:00:00||COMPLETED|/w|sbatch x|u\n"
    rows, bad, notes = read(tmp_path, HEAD + around + row + "\n" + around)
    assert bad == []
    assert [r["job_id"] for r in rows] == ["2", "1", "2"]
    assert rows[1][field] == value
    assert rows[1]["user"] == "u"
    assert "1 rows" in notes[0]


def test_a_line_end_in_the_last_column_belongs_to_the_row_before(tmp_path: Path) -> None:
    text = f"JobID|Submit|SubmitLine\n1|{T}0|sbatch --wrap a\nb | c\nd\n2|{T}0|sbatch x\n"
    rows, bad, _ = read(tmp_path, text)
    assert bad == []
    assert [row["submit_line"] for row in rows] == ["sbatch --wrap a\nb | c\nd", "sbatch x"]
    assert [row["line"] for row in rows] == [2, 5]


def test_blank_lines_between_rows_belong_to_none(tmp_path: Path) -> None:
    text = f"JobID|Submit|SubmitLine\n\n1|{T}0|sbatch a\n\n\n2|{T}0|sbatch b\n\n"
    rows, bad, notes = read(tmp_path, text)
    assert bad == []
    assert not any("repaired" in note for note in notes)
    assert [(row["submit_line"], row["line"]) for row in rows] == [("sbatch a", 3), ("sbatch b", 6)]


def test_a_line_end_before_the_id(tmp_path: Path) -> None:
    row = "acc|{}|{}|2024-01-01T00:00:00|FAILED|sbatch x\n"
    text = (
        "Account|Comment|JobID|Submit|State|SubmitLine\n"
        + row.format("", 1)
        + row.format("two\nlines", 2)
        + row.format("", 3)
    )
    rows, bad, _ = read(tmp_path, text)
    assert bad == []
    assert [(r["job_id"], r["line"]) for r in rows] == [("1", 2), ("2", 3), ("3", 5)]


def test_an_ambiguous_row_is_a_bad_row(tmp_path: Path) -> None:
    text = f"JobID|Submit|JobName|Comment|State\n1|{T}0|a|b|c|FAILED\n2|{T}0|a|b|FAILED\n"
    rows, (bad,), _ = read(tmp_path, text)
    assert [row["job_id"] for row in rows] == ["2"]
    assert (bad.line, bad.field) == (2, "line")
    assert "6 columns instead of 5" in bad.reason


def test_messages_among_the_rows_are_bad_rows(tmp_path: Path) -> None:
    text = "JobID|Submit|SubmitLine\n1|2024-01-01T00:00:00|sbatch x\nsacct: error: slurmdbd is gone\n"
    rows, (bad,), _ = read(tmp_path, text)
    assert rows[0]["submit_line"] == "sbatch x"
    assert (bad.line, bad.reason) == (3, "a message, not a row")


def test_an_unreadable_field_is_named(tmp_path: Path) -> None:
    text = f"JobID|Submit|ReqCPUS|ReqMem\n1|{T}0|many|1G\n2|{T}0|1|lots\nx|{T}0|1|1G\n"
    _, bad, _ = read(tmp_path, text)
    assert [(b.line, b.field) for b in bad] == [(2, "ReqCPUS"), (3, "ReqMem"), (4, "JobID")]
    assert "'many'" in bad[0].reason


def test_broken_utf8_is_replaced(tmp_path: Path) -> None:
    rows, bad, _ = read(tmp_path, b"JobID|Submit|JobName|User\n1|2024-01-01T00:00:00|caf\xe9 \xc3\xa9|u\n")
    assert bad == []
    assert rows[0]["name"] == "caf\ufffd é"


# --- columns -------------------------------------------------------------------------------------


def test_fields_given_as_in_format(tmp_path: Path) -> None:
    text = "1|FAILED|2024-01-01T00:00:00|\n"
    rows, _, _ = read(tmp_path, text, fields=("jobid%-20", "State%30", "Submit"))
    assert (rows[0]["job_id"], rows[0]["outcome"]) == ("1", "failed")


def test_no_header_and_no_fields(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="--fields JobID,User"):
        read(tmp_path, "1|FAILED|2024-01-01T00:00:00\n")


def test_a_field_that_sacct_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no field 'JobIDs' \(is it JobID\?\)"):
        read(tmp_path, "1|FAILED\n", fields=("JobIDs", "State"))


def test_another_number_of_fields_than_columns(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="4 fields were named, but its rows have 3 columns"):
        read(tmp_path, "1|FAILED|2024-01-01T00:00:00\n", fields=("JobID", "State", "Submit", "User"))
    with pytest.raises(SourceError, match="2 fields were named, but its rows have 3 columns"):
        read(tmp_path, "1|2024-01-01T00:00:00|FAILED\n", fields=("JobID", "Submit"))


def test_with_parsable_every_row_ends_with_the_separator(tmp_path: Path) -> None:
    text = f"JobID|Submit|JobName|\n1|{T}0|a|\n2|{T}0|a|b\n3|{T}0|a|b|\n"
    rows, (bad,), _ = read(tmp_path, text)
    assert [(row["job_id"], row["name"]) for row in rows] == [("1", "a"), ("3", "a|b")]
    assert bad.line == 3


def test_fields_without_which_there_is_no_job(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="without the field JobID"):
        read(tmp_path, "Submit|State\n2024-01-01T00:00:00|FAILED\n")
    with pytest.raises(SourceError, match="export Submit"):
        read(tmp_path, "JobID|State\n1|FAILED\n")


def test_fields_that_are_not_there_are_noted(tmp_path: Path) -> None:
    rows, _, notes = read(tmp_path, "JobID|Start|End|Shoe\n1|2024-01-01T00:00:00|2024-01-01T00:10:00|42\n")
    assert (rows[0]["submit"], rows[0]["outcome"]) == (rows[0]["start"], "unknown")
    assert len(notes) == 3


def test_a_file_that_names_no_cluster_is_noted(tmp_path: Path) -> None:
    (tmp_path / "fox.2024.psv").write_text(f"JobID|State|Submit\n1|FAILED|{T}0\n")
    source = SacctSource(tmp_path / "fox.2024.psv")
    frames = [batch.frame for batch in source.batches()]
    assert set(pl.concat(frames)["cluster"]) == {"fox"}
    assert "--cluster" in source.notes[0]


def test_json_is_recognised(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not an answer with jobs"):
        read(tmp_path, ' {"meta": {}}')


# --- real data -----------------------------------------------------------------------------------

POZIDRIV = (
    *("JobID", "JobIDRaw", "Cluster", "Partition", "QOS", "Account", "Group", "GID", "User", "UID"),
    *("Submit", "Eligible", "Start", "End", "Elapsed", "ExitCode", "State", "NNodes", "NCPUS", "ReqCPUS"),
    *("ReqMem", "ReqTRES", "AllocTRES", "Timelimit", "NodeList", "JobName"),
)


@pytest.mark.shared_data
def test_pozidriv(shared_data: Path) -> None:
    source = open_source(f"sacct:{shared_data / 'sacct' / 'pozidriv.log.gz'}", SourceOptions(fields=POZIDRIV))
    batches = list(source.batches())
    frame = pl.concat([batch.frame for batch in batches])
    assert [bad for batch in batches for bad in batch.bad] == []
    assert frame.height == frame["line"].n_unique() == frame.select("job_id", "submit").n_unique() == 11_704
    shares = dict(frame["outcome"].value_counts(normalize=True).iter_rows())
    assert {name: round(share, 3) for name, share in shares.items()} == {
        "completed": 0.866,
        "failed": 0.086,
        "cancelled": 0.040,
        "preempted": 0.007,
        "timeout": 0.001,
    }
    assert set(frame["cluster"]) == {"pozidriv"}
    assert frame.filter(pl.col("defaulted") == "time_limit").height == 58
    never_ran = frame.filter(pl.col("start").is_null())
    assert set(never_ran["outcome"]) == {"cancelled"}


@pytest.mark.shared_data
@pytest.mark.parametrize("version", ["22.05.8", "24.11.5", "26.05.5"])
@pytest.mark.parametrize("what", ["steps", "allocations"])
def test_recorded_text(shared_data: Path, version: str, what: str) -> None:
    folder = shared_data / "slurmrestd" / "recorded" / version / "cli"
    source = SacctSource(folder / f"sacct_{what}_ALL.psv")
    batches = list(source.batches())
    frame = pl.concat([batch.frame for batch in batches])
    assert [bad for batch in batches for bad in batch.bad] == []
    assert frame.height == 18
    job = frame.row(by_predicate=pl.col("job_id") == "5", named=True)
    assert job["outcome"] == "out_of_memory"
    assert job["submit_line"].count("\n") == 5, "a submit line of six lines is one job"
    assert (job["max_memory"] is None) == (what == "allocations")
    assert frame.filter(pl.col("array_job_id") == 9)["array_task_id"].to_list() == [0, 1, 2, 3, 4, 5]


@pytest.mark.shared_data
@pytest.mark.parametrize("version", ["22.05.8", "24.11.5", "26.05.5"])
def test_every_field_of_the_recorded_versions_is_known(shared_data: Path, version: str) -> None:
    text = (shared_data / "slurmrestd" / "recorded" / version / "cli" / "sacct_helpformat.txt").read_text()
    assert [word for word in text.split() if field_name(word) not in FIELDS] == []


# --- the export that the README recommends -------------------------------------------------------

EXPORT = re.search(
    r"^sacct .* -o (\S+) > history.txt$",
    (Path(__file__).resolve().parents[2] / "README.md").read_text(),
    re.MULTILINE,
)


@pytest.mark.parametrize(
    ("name", "line", "constraint"),
    [
        *(
            (name, line, "")
            for name in ("a|b", "|", "x||y")
            for line in ("", "sbatch a.sh", "sbatch --wrap a\nb")
        ),
        *(("plain", line, "") for line in ("sbatch --wrap a | b", "sbatch --wrap a\nb | c", "srun x\n\ny")),
        *(("plain", line, "skl|hsw") for line in ("", "sbatch a.sh")),
    ],
)
def test_its_order_lets_every_free_text_be_repaired(
    tmp_path: Path, name: str, line: str, constraint: str
) -> None:
    assert EXPORT is not None
    fields = EXPORT[1].split(",")
    values = dict.fromkeys(fields, "") | {
        "JobID": "1",
        "JobIDRaw": "1",
        "Submit": T + "0",
        "State": "FAILED",
        "ExitCode": "1:0",
        "JobName": name,
        "WorkDir": "/w",
        "SubmitLine": line,
        "Constraints": constraint,
        "Timelimit": "10:00",
        "User": "ann",
    }
    row = "|".join(values.values()) + "\n"
    rows, bad, _ = read(tmp_path, "|".join(fields) + "\n" + row + row)
    assert bad == []
    assert [(r["name"], r["submit_line"], r["constraint"]) for r in rows] == [
        (name, line or None, constraint or None)
    ] * 2


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.text("ab |/", max_size=6),
            st.one_of(st.just(""), st.text("ab |/\n", max_size=12).map("sbatch --wrap {}".format)),
            st.text("ab|", max_size=4),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_row_is_repaired_rightly_or_bad_but_never_read_wrongly(texts: list[tuple[str, str, str]]) -> None:
    head = "JobID|Submit|Constraints|State|JobName|WorkDir|SubmitLine\n"
    rows = [f"{n}|{T}0|{c}|FAILED|{name}|/w|{line}\n" for n, (name, line, c) in enumerate(texts)]
    with TemporaryDirectory() as folder:
        found, bad, _ = read(Path(folder), head + "".join(rows))
    truth = {
        str(n): tuple(text.strip() or None for text in (name, line, constraint))
        for n, (name, line, constraint) in enumerate(texts)
    }
    for row in found:
        assert (row["name"], row["submit_line"], row["constraint"]) == truth.pop(row["job_id"])
    assert len(truth) <= len(bad), "each row that was not read is a bad row"


# --- values that cannot be -----------------------------------------------------------------------


def test_steps_without_any_field_of_steps(tmp_path: Path) -> None:
    rows, bad, _ = read(
        tmp_path, f"JobID|Submit|State\n1|{T}0|COMPLETED\n1.batch|{T}0|COMPLETED\n2|{T}0|FAILED\n"
    )
    assert bad == []
    assert [(row["job_id"], row["outcome"], row["line"]) for row in rows] == [
        ("1", "completed", 2),
        ("2", "failed", 4),
    ]


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("ReqMem", "99999999999P"),
        ("ReqCPUS", "99999999999999999999"),
        ("ReqCPUS", "-5"),
        ("NNodes", "some"),
        ("MaxRSS", "99999999999999999999"),
        ("MaxRSS", "9000000P"),  # fits in 64 bits only without its unit
        ("ConsumedEnergy", "99999999999999P"),
        ("Timelimit", "99999999999999-00:00:00"),
        ("TotalCPU", "1:99999999999999999999"),
        ("ExitCode", "300:0"),
        ("ExitCode", "0:128"),
        ("ReqTRES", "cpu=x"),
        ("AllocTRES", "cpu=99999999999999999999"),
        ("NodeList", "n[1-"),
        ("NodeList", "n[3-1]"),
        ("Start", "2024-13-01T00:00:00"),
    ],
)
def test_a_value_that_cannot_be_is_a_bad_row_with_its_field(tmp_path: Path, field: str, text: str) -> None:
    line = f"2|{T}0|COMPLETED|{text}"
    rows, bad, _ = read(
        tmp_path, f"JobID|Submit|State|{field}\n1|{T}0|COMPLETED|\n{line}\n3|{T}0|COMPLETED|\n"
    )
    assert [row["job_id"] for row in rows] == ["1", "3"]
    assert [(b.line, b.field, b.text) for b in bad] == [(3, field, line)]
    assert repr(text) in bad[0].reason
    assert "zone" not in bad[0].reason


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("ReqMem", "16?"),
        ("ReqTRES", "cpu=1,mem=16?"),
        ("Priority", "UNLIMITED"),
        ("NNodes", "Unknown"),
        ("TRESUsageInTot", "cpu=00:00:01,mem=1K"),
        ("NodeList", "n[01-03,7]x,m1"),
    ],
)
def test_what_slurm_says_of_no_value_is_no_bad_row(tmp_path: Path, field: str, text: str) -> None:
    assert one(tmp_path, **{field: text})["job_id"] == "1"


@pytest.mark.parametrize(
    ("start", "end", "field", "reason"),
    [
        ("2024-05-31T23:59:59", "2024-06-01T00:00:09", "start", "starts before it is submitted"),
        ("2024-06-01T00:00:09", "2024-06-01T00:00:08", "end", "ends before it starts"),
        ("2024-06-01T00:00:09", "2222-06-01T00:00:08", "end", "an impossible time"),
        ("99999999999", "Unknown", "start", "an impossible time"),
    ],
)
def test_times_that_cannot_be_are_a_bad_row_with_its_text(
    tmp_path: Path, start: str, end: str, field: str, reason: str
) -> None:
    line = f"1|2024-06-01T00:00:00|{start}|{end}|FAILED"
    rows, bad, _ = read(tmp_path, f"JobID|Submit|Start|End|State\n{line}\n")
    assert rows == []
    assert [(b.line, b.field, b.reason, b.text) for b in bad] == [(2, field, reason, line)]


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    rows, bad, _ = read(tmp_path, b"\xef\xbb\xbfJobID|Submit\r\n1|2024-01-01T00:00:00\r\n")
    assert ([row["job_id"] for row in rows], bad) == (["1"], [])


# --- how jobs ended by their steps ---------------------------------------------------------------

# As Slurm 24.11 prints them: the script's last word was 1, its step was killed for its memory.
KILLED = """\
JobID|Submit|Start|End|State|ExitCode|DerivedExitCode
{job}|2024-06-01T00:00:00|2024-06-01T00:00:00|2024-06-01T00:01:00|{state}|1:0|0:125
{job}.batch||2024-06-01T00:00:00|2024-06-01T00:01:00|FAILED|1:0|
{job}.extern||2024-06-01T00:00:00|2024-06-01T00:01:00|COMPLETED|0:0|
{job}.0||2024-06-01T00:00:10|2024-06-01T00:00:20|OUT_OF_MEMORY|0:125|
"""
LATER = "7.1||2024-06-01T00:00:30|2024-06-01T00:00:40|{state}|1:0|\n"


def test_a_step_tells_how_its_failed_job_ended(tmp_path: Path) -> None:
    (job,), _, _ = read(tmp_path, KILLED.format(job="7_3", state="FAILED"))
    assert (job["outcome"], job["state"]) == ("out_of_memory", "FAILED"), "and Slurm's own word stays"
    killed = KILLED.format(job="7", state="FAILED").replace("0:125\n7.b", "1:0\n7.b")  # the highest of two
    (job,), _, _ = read(tmp_path, killed + LATER.format(state="TIMEOUT"))
    assert job["outcome"] == "timeout"
    (job,), _, _ = read(tmp_path, killed + LATER.format(state="FAILED"))
    assert job["outcome"] == "failed", "the script went on, and failed of something else"
    without_times = "\n".join(
        "|".join(cell for place, cell in enumerate(line.split("|")) if place not in (2, 3))
        for line in KILLED.format(job="7", state="FAILED").splitlines()
    )
    (job,), _, _ = read(tmp_path, without_times)
    assert job["outcome"] == "out_of_memory"


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED by 7", "TIMEOUT", "NODE_FAIL", "RUNNING"])
def test_a_step_changes_no_other_outcome(tmp_path: Path, state: str) -> None:
    (job,), _, _ = read(tmp_path, KILLED.format(job="7", state=state))
    word = state.split()[0]
    assert job["outcome"] == (None if word == "RUNNING" else word.lower())


def test_slurms_mark_tells_it_without_steps(tmp_path: Path) -> None:
    """`sacct -X`, too: the highest exit code of the steps is 0:125 then."""
    assert (
        one(tmp_path, State="FAILED", ExitCode="1:0", DerivedExitCode="0:125")["outcome"] == "out_of_memory"
    )
    assert one(tmp_path, State="FAILED", ExitCode="0:125")["outcome"] == "out_of_memory"
    assert one(tmp_path, State="FAILED", ExitCode="125:0", DerivedExitCode="0:0")["outcome"] == "failed"
    assert one(tmp_path, State="FAILED", ExitCode="137:0", DerivedExitCode="0:9")["outcome"] == "failed"
    assert one(tmp_path, State="COMPLETED", ExitCode="0:0", DerivedExitCode="0:125")["outcome"] == "completed"


# As sacct of 22.05 prints a task of an array some seconds before slurmdbd hears of the job itself.
INCOMPLETE_ROW = (
    "7|7|lab|ann|0|root|science||Unknown|1794948875|Unknown|1794948877|1794948877||COMPLETED|0:0|0|0|16?||1|3|"
    "billing=3,cpu=3,mem=300M,node=1|nb1|allocation||"
)
INCOMPLETE_FIELDS = (
    "JobID|JobIDRaw|Cluster|User|UID|Group|Account|Partition|QOS|Submit|Eligible|Start|End|Timelimit|State|"
    "ExitCode|Priority|ReqCPUS|ReqMem|ReqTRES|NNodes|NCPUS|AllocTRES|NodeList|JobName|WorkDir|SubmitLine"
)


def test_a_row_before_the_job_s_own_record_is_no_job(tmp_path: Path) -> None:
    whole = INCOMPLETE_ROW.replace("7|7", "8|8", 1).replace("science||", "science|main|")
    step = "7.batch|7.batch" + "|" * (INCOMPLETE_FIELDS.count("|") - 1)
    text = "\n".join((INCOMPLETE_FIELDS, INCOMPLETE_ROW, step, whole, ""))
    rows, (bad,), _ = read(tmp_path, text)
    assert [row["job_id"] for row in rows] == ["8"]
    assert (bad.line, bad.reason) == (2, INCOMPLETE)


def test_a_job_may_be_named_allocation_where_its_partition_is_missing(tmp_path: Path) -> None:
    (row,), bad, _ = read(tmp_path, f"JobID|State|Submit|JobName\n7|COMPLETED|{T}0|allocation\n")
    assert (row["name"], bad) == ("allocation", [])
