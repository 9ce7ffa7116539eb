"""The long proofs in short form, so that they still run when they are needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from forewarn.features.kernel.layout import selected

pytestmark = pytest.mark.slow

BENCH = Path(__file__).resolve().parents[1] / "bench"


def test_node_health_in_small() -> None:
    command = [
        sys.executable,
        str(BENCH / "health.py"),
        "--clusters",
        "1",
        "--only",
        "sick, 60 % fail, silent",
    ]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    cells = [cell.strip() for cell in output[-1].split("|")]
    assert cells[1:3] == ["small, sick, 60 % fail, silent", "1"]
    found, _, sick, *_ = cells[4].split()
    assert 0.6 * int(sick) <= int(found) > 0


@pytest.mark.shared_data
def test_a_log_that_cannot_be_learnt_from_says_why(shared_data: Path) -> None:
    """The others: tests/learn/test_never_below_rule.py."""
    command = [sys.executable, str(BENCH / "never_below_rule.py"), str(shared_data), "--log", "pozidriv"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    rows = [[cell.strip() for cell in line.split("|")] for line in output[-2:]]
    assert [cells[1:3] for cells in rows] == [["pozidriv", "submit"], ["pozidriv", "start"]]
    assert all(
        "no model: pozidriv: 1 of 141 jobs of the block `calibrate` failed" in cells[3] for cells in rows
    )


def test_advice_in_small() -> None:
    command = [sys.executable, str(BENCH / "advice.py"), "--scenarios", "small", "--jobs", "6000"]
    output = subprocess.run([*command, "--sample", "80"], check=True, capture_output=True, text=True).stdout
    cells = [cell.strip() for cell in output.splitlines()[-1].split("|")]
    assert cells[1] == "small, 11"
    share, harmed = float(cells[6].strip("*%")), float(cells[11].strip("%"))
    assert share > 25, "of what could have been averted"
    assert harmed <= 1


def test_retry_verdicts_in_small() -> None:
    command = [sys.executable, str(BENCH / "retry.py"), "--scenarios", "small", "--jobs", "6000"]
    output = subprocess.run([*command, "--sample", "10"], check=True, capture_output=True, text=True).stdout
    rows = [
        [cell.strip() for cell in line.split("|")]
        for line in output.splitlines()
        if line.startswith("| small")
    ]
    figures = {
        cells[2].split(",")[0]: [float(cell.replace(",", "")) for cell in cells[3:8]] for cells in rows
    }
    failures, retries, completed, each, _ = figures["verdict"]
    assert failures >= 10
    assert completed > figures["always"][2], "memory and time are raised where they lacked"
    assert each < figures["doubling by cause"][3], "and a broken script is not tried again"
    assert completed <= figures["oracle"][2]
    assert retries < figures["always"][1]


def test_usage_is_served_as_it_is_judged_in_small() -> None:
    command = [sys.executable, str(BENCH / "usage_served.py"), "--scenario", "small", "--jobs", "4000"]
    output = subprocess.run([*command, "--moments", "6"], check=True, capture_output=True, text=True).stdout
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in output.splitlines()[2:]]
    for name in ("cpu efficiency", "io rate"):
        judged, served, _ = (float(row[3]) for row in rows if row[0] == name)
        assert served == pytest.approx(judged, abs=0.05), "the same R², but for ten minutes of history"


def test_ten_million_jobs_in_small(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH / "ten_million.py"), "--jobs", "3000", "--folder", str(tmp_path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    steps = {line[:16].strip(): line[17:] for line in output}
    assert list(steps) == [
        *("simulate", "ingest", "ingest again", "count", "scan", "features submit", "features start"),
    ]
    assert "3,000 jobs" in steps["count"]
    assert " 0 new" in steps["ingest again"]
    assert "3,000 rows, all columns" in steps["scan"]
    assert f"3,000 rows × {len(selected('submit', 'generic'))}," in steps["features submit"]


def test_the_service_under_load_in_small() -> None:
    """That it runs, whatever the times: nothing fails under load, and the streams stay open."""
    command = [sys.executable, "-m", "bench.service", "--jobs", "3000", "--trials", "1"]
    more = {"cwd": BENCH.parent, "check": True, "capture_output": True, "text": True}
    compared = subprocess.run([*command, "--seconds", "0.5", "--rounds", "1"], **more).stdout  # type: ignore[call-overload]
    rows = [
        [cell.strip() for cell in line.split("|")] for line in compared.splitlines() if "in brief" in line
    ]
    assert [cells[1] for cells in rows] == ["1", "8", "64"]
    assert "A batch of 1,000: " in compared
    soaked = subprocess.run([*command, "--soak", "0.1"], **more).stdout  # type: ignore[call-overload]
    assert " 0 errors, 4 streams" in soaked, soaked
