"""`forewarn retry` as its user meets it: words, JSON, options for sbatch, and exit codes for a shell."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from forewarn.assess.json_schema import retry_schema
from tests.serve.conftest import SACCT_HEADER, Forewarn, sacct_line, write_sacct
from tests.serve.test_explain_cli import no_slurm  # noqa: F401 - a fixture


@pytest.fixture
def ingested(forewarn: Forewarn, no_slurm: None, tmp_path: Path) -> Forewarn:  # noqa: F811
    times = {"submit": "2024-01-11T08:00:00", "start": "2024-01-11T08:10:00"}
    path = write_sacct(
        tmp_path / "history.txt",
        sacct_line("1"),
        sacct_line("2", state="TIMEOUT", end="2024-01-10T10:10:00"),
        sacct_line("3", state="OUT_OF_MEMORY", code="0:125"),
        sacct_line("4", state="FAILED", code="127:0", end="2024-01-10T08:10:02"),
        sacct_line("5", state="PENDING", start="Unknown", end="Unknown"),
        sacct_line("6", state="PREEMPTED"),
        sacct_line("7", state="FAILED", code="1:0", user="bob", **times, end="2024-01-11T09:00:00"),
        sacct_line("8", state="FAILED", code="1:0", user="bob", submit="2024-01-11T10:00:00",
                   start="2024-01-11T10:01:00", end="2024-01-11T11:00:00"),
    )  # fmt: skip
    result = forewarn("ingest", f"sacct:{path}", "--cluster", "alps")
    assert result.code == 0, result.err
    return forewarn


@pytest.mark.parametrize(
    ("job_id", "verdict", "code", "options"),
    [
        ("1", "do_not_retry", 1, ""),
        ("2", "more_time", 0, "--time=04:00:00"),
        ("3", "more_memory", 0, "--mem=8G"),
        ("4", "do_not_retry", 1, ""),
        ("5", "cannot_say", 3, ""),
        ("6", "retry", 0, ""),
        ("8", "do_not_retry", 1, ""),  # the second time with the same exit code
    ],
)
def test_each_verdict(ingested: Forewarn, job_id: str, verdict: str, code: int, options: str) -> None:
    result = ingested("retry", job_id, "--json")
    assert result.code == code, result.err
    jsonschema.validate(result.json, retry_schema())
    assert result.json["verdict"] == verdict
    assert " ".join(result.json["options"]) == options
    only = ingested("retry", job_id, "--options")
    assert (only.code, only.out) == (code, options + "\n")


def test_for_people(ingested: Forewarn) -> None:
    result = ingested("retry", "3")
    assert result.code == 0
    assert result.out.startswith("Job 3: Retry it with more memory: --mem=8G (")
    assert "it had 4 GiB per node" in result.out
    assert "node hours of the retry" in result.out
    again = ingested("retry", "8")
    assert again.code == 1
    assert "failed 2 times in a row with the same exit code" in again.out


def test_errors_are_no_verdict(ingested: Forewarn, tmp_path: Path) -> None:
    for arguments, words in (
        (("99",), "no job 99"),
        (("abc",), "abc"),
        (("3", "--json", "--options"), "exclude each other"),
        (("3", "--log", str(tmp_path / "missing")), "missing"),
        ((), "JOBID"),
    ):
        result = ingested("retry", *arguments)
        assert result.code == 3, arguments
        assert result.out == ""
        assert words in result.err
        assert "Traceback" not in result.err


def test_a_log_shows_an_error_that_stays(ingested: Forewarn, tmp_path: Path) -> None:
    log = tmp_path / "out.txt"
    log.write_text(
        "bash: line 3: \x1b[31mmodule: No such module 'x'\nModuleNotFoundError: No module named 'a'\n"
    )
    result = ingested("retry", "7", "--log", log)
    assert result.code == 1
    assert "until that is corrected" in result.out
    assert "\x1b" not in result.out + result.err


def test_names_in_records_add_no_options(forewarn: Forewarn, no_slurm: None, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "odd.txt"
    line = sacct_line("9", state="NODE_FAIL", code="0:0") + "|n1 --wrap=id"
    path.write_text(f"{SACCT_HEADER}|NodeList\n{line}\n")
    assert forewarn("ingest", f"sacct:{path}", "--cluster", "alps").code == 0
    result = forewarn("retry", "9", "--options")
    assert (result.code, result.out) == (0, "\n")


def test_help_teaches(forewarn: Forewarn) -> None:
    result = forewarn("retry", "--help")
    assert result.code == 0
    for words in ("Exit codes: 0", "--options", "sbatch $options"):
        assert words in result.out


@pytest.mark.slow
def test_in_a_shell(ingested: Forewarn, home: Path) -> None:
    """The line of --help: sbatch is called only if there is a point in it."""
    executable = Path(sys.executable).parent / "forewarn"
    script = (
        f'options=$({executable} retry --home {home} "$1" --options 2>/dev/null) && echo sbatch $options x'
    )
    outputs = [
        subprocess.run(
            ["/bin/bash", "-c", script, "-", job_id], capture_output=True, text=True, check=False
        ).stdout
        for job_id in ("3", "4", "5", "6")
    ]
    assert outputs == ["sbatch --mem=8G x\n", "", "", "sbatch x\n"]


@pytest.mark.slow
def test_a_simulated_cluster_has_every_verdict(forewarn: Forewarn, no_slurm: None) -> None:  # noqa: F811
    assert forewarn("simulate", "--scenario", "small", "--jobs", "3000", "--seed", "3", "--ingest").code == 0
    expected = {
        "OOM": {"more_memory", "do_not_retry"},
        "timeout": {"more_time", "do_not_retry"},
        "node_fail": {"another_node", "retry", "do_not_retry"},
        "completed": {"do_not_retry"},
        "failed": {"retry", "another_node", "do_not_retry"},
    }
    begin = time.monotonic()
    for state, verdicts in expected.items():
        for row in forewarn("jobs", "-s", state, "-n", "4", "--json").lines:
            found = forewarn("retry", row["job_id"], "--json").json
            assert found["verdict"] in verdicts
            if found["probability"] is not None:
                assert 0 <= found["probability"] <= 1
            if found["verdict"] == "more_memory":
                asked = found["evidence"][0]["values"]
                assert asked["new"] > max(asked["had"], asked["used"] or 0)
    assert time.monotonic() - begin < 120
