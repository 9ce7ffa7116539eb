"""`forewarn profiles` as its user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarn.errors import NotEnoughError, UsageError
from forewarn.sources.simulator import simulate
from tests.serve.conftest import Forewarn, swf_line, write_swf

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("profiles") / "jobs.parquet"
    simulate("small", 1_500, 2, path, "parquet")
    return path


def test_for_people(log: Path, forewarn: Forewarn) -> None:
    result = forewarn("profiles", f"parquet:{log}", "--population", "papers", "-k", 3)
    assert result.code == 0
    assert "3 profiles of 1,500 jobs" in result.out
    for words in (
        "elbow",
        "lowest BIC",
        "chosen",
        "Mean ± standard deviation",
        "CPUs",
        "memory",
        "run time",
    ):
        assert words in result.out
    headings = [line.split()[2:] for line in result.out.splitlines() if line.startswith("#")]
    assert ["short", "medium", "long"] in headings
    assert ["new", "infrequent", "frequent"] in headings
    assert ["balanced", "compute", "memory"] in headings
    assert "nan" not in result.out.lower()


def test_for_programs(log: Path, forewarn: Forewarn) -> None:
    result = forewarn("profiles", f"parquet:{log}", "--json").json
    assert result["policy"] == "wasted"
    number = result["number"]
    assert number["chosen"] == number["elbow"] == len(result["profiles"])
    assert [point["k"] for point in number["curves"]] == [*range(1, 9)]
    squares = [point["wcss"] for point in number["curves"]]
    assert squares == sorted(squares, reverse=True)
    assert sum(each["jobs"] for each in result["profiles"]) == result["jobs"]
    for each in result["profiles"]:
        assert each["words"]
        for mix in ("outcomes", "duration", "activity", "type"):
            assert sum(each[mix].values()) == pytest.approx(1)


def test_the_older_name_of_population(log: Path, forewarn: Forewarn) -> None:
    """`--policy` was the name of `--population`: it is still accepted, and the help does not show it."""
    new, old = (
        forewarn("profiles", f"parquet:{log}", name, "papers", "-k", 2, "--json")
        for name in ("--population", "--policy")
    )
    assert new.json == old.json
    assert new.json["policy"] == "papers"
    for command in ("profiles", "train", "bench", "compare"):
        text = forewarn(command, "--help").out
        assert "--population NAME" in text
        assert "--policy" not in text
    wrong = forewarn("profiles", f"parquet:{log}", "--policy", "theirs")
    assert wrong.code == UsageError.exit_code
    assert "Invalid value for '--population': 'theirs' is not one of" in wrong.err


def test_the_store_s_cluster(log: Path, forewarn: Forewarn) -> None:
    forewarn("ingest", f"parquet:{log}", "--cluster", "here")
    name = forewarn("profiles", "--json").json["cluster"]
    assert forewarn("profiles", "-M", name, "--json").json["cluster"] == name
    missing = forewarn("profiles", "-M", "elsewhere")
    assert missing.code == UsageError.exit_code
    assert "elsewhere" in missing.err


def test_a_log_without_memory_says_so(tmp_path: Path, forewarn: Forewarn) -> None:
    lines = [
        swf_line(n, submit=n * 50, run_time=20 + n % 7 * 400, status=n % 2, user=n % 5) for n in range(1, 80)
    ]
    result = forewarn("profiles", f"swf:{write_swf(tmp_path / 'log.swf', *lines)}")
    assert result.code == 0
    assert "memory (no job has it), wait (the same for all jobs)" in result.out
    assert "Type" not in result.out


def test_bad_input(tmp_path: Path, forewarn: Forewarn) -> None:
    few = f"swf:{write_swf(tmp_path / 'few.swf', *(swf_line(n, submit=n) for n in range(1, 11)))}"
    shown = forewarn("profiles", few)
    assert shown.code == 0
    assert "1 profile of 10 jobs" in shown.out
    result = forewarn("profiles", few, "-k", 3)
    assert result.code == NotEnoughError.exit_code
    assert "3 profiles requested" in result.err
    cancelled = write_swf(tmp_path / "none.swf", *(swf_line(n, submit=n, status=5) for n in range(1, 30)))
    nothing = forewarn("profiles", f"swf:{cancelled}", "--population", "wasted")
    assert nothing.code == NotEnoughError.exit_code
    assert "choose another --population" in nothing.err
    assert forewarn("profiles", few, "-k", 9).code == UsageError.exit_code
    assert forewarn("profiles", "--status", "swf").code == UsageError.exit_code
