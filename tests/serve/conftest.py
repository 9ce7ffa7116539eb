"""The command line as its user meets it: `forewarn(...)` runs it on a home of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forewarn.serve.cli.main import main


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Forewarn = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def forewarn(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Forewarn:
    """Run the command in this process, errors and exit codes as `main` makes them."""
    for name in (
        "FOREWARN_CONFIG",
        "FOREWARN_DEBUG",
        "FOREWARN_POLICY",
        "FOREWARN_CLUSTER",
        "FOREWARN_TIMEZONE",
        "FOREWARN_TRACKING",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FOREWARN_HOME", str(home))

    def run(*args: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["forewarn", *map(str, args)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        sys.stdout.flush()
        captured = capfd.readouterr()
        return Result(int(ended.value.code or 0), captured.out, captured.err)

    return run


def swf_line(number: int, *, submit: int = 0, run_time: int = 60, status: int = 1, user: int = 1) -> str:
    return f"{number} {submit} 5 {run_time} 4 -1 -1 4 3600 -1 {status} {user} 1 1 1 1 -1 -1"


def write_swf(path: Path, *lines: str) -> Path:
    header = "; UnixStartTime: 1000000000\n; TimeZoneString: Europe/Zurich\n"
    path.write_text(header + "".join(line + "\n" for line in lines))
    return path


SACCT_HEADER = (
    "JobID|User|Account|Partition|JobName|Submit|Start|End|State|ExitCode|Timelimit|NCPUS|ReqMem|MaxRSS"
)


def sacct_line(
    job_id: str,
    *,
    user: str = "alice",
    partition: str = "batch",
    submit: str = "2024-01-10T08:00:00",
    start: str = "2024-01-10T08:10:00",
    end: str = "2024-01-10T09:10:00",
    state: str = "COMPLETED",
    code: str = "0:0",
) -> str:
    return f"{job_id}|{user}|physics|{partition}|run|{submit}|{start}|{end}|{state}|{code}|02:00:00|4|4Gn|"


def write_sacct(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in (SACCT_HEADER, *lines)))
    return path
