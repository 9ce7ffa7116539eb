"""Commands for who may read a home and not write to it: another user of its group, a read-only mount."""

from __future__ import annotations

import dataclasses
import grp
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from forewarn.config import Config
from forewarn.errors import RegistryError
from forewarn.features.slurm_field_differences import reading_of, with_slurm_treatments
from forewarn.features.state_store import clear
from forewarn.learn.registry.registry import Registry
from forewarn.store.base import ClusterFacts
from forewarn.store.embedded import FILE
from forewarn.store.opening import open_store
from tests.learn.bundles import tiny_bundle
from tests.serve.conftest import Forewarn, Result
from tests.serve.test_live_cli import ANSWERS, TIMES
from tests.sources.fake_slurmrestd import jwt, serving
from tests.sources.test_slurmrestd import slurm_job, slurmdb_job
from tests.sources.test_slurmrestd_client import jobs, script

NOBODY = 65534
NOW = int(time.time())
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else, or mount: CI is"),
    pytest.mark.slow,
]

# Python itself may lie where nobody else can read: the commands are run once as the owner, on another home,
# and all that they import is loaded when they are run again as nobody.
READER = """
import io, json, os, sys
from contextlib import redirect_stderr, redirect_stdout
from forewarn.serve.cli.main import main

commands, warm, home, own = json.loads(sys.argv[1])

def run(args):
    sys.argv = ["forewarn", *args]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            main()
        except SystemExit as ended:
            return [int(ended.code or 0), out.getvalue(), err.getvalue()]

os.environ["FOREWARN_HOME"] = warm
for args in commands:
    run(args)
os.environ |= {"FOREWARN_HOME": home, "HOME": own, "XDG_CACHE_HOME": own}
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
print(json.dumps([run(args) for args in commands]))
"""


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Slurm of 250 ended jobs, every fifth of them failed, one that runs and one that waits."""
    ended = [
        slurmdb_job(
            job_id=1000 + n,
            time=dict(TIMES, submission=NOW - 900 + n, eligible=NOW - 900 + n),
            state={"current": ["FAILED" if n % 5 == 0 else "COMPLETED"], "reason": "None"},
        )
        for n in range(250)
    ]
    runs = slurm_job(submit_time=NOW - 30, start_time=NOW - 20)
    waits = slurm_job(job_id=9, job_state=["PENDING"], submit_time=NOW - 30, start_time=0, nodes="")
    live = {
        "jobs": jobs(runs, waits, last_update=NOW),
        "job_8": jobs(runs, last_update=NOW),
        "job_9": jobs(waits, last_update=NOW),
    }
    with serving(script(42, **ANSWERS | {"jobs_db": jobs(*ended)} | live)) as fake:
        monkeypatch.setenv("FOREWARN_SLURMRESTD", fake.address)
        monkeypatch.setenv("SLURM_JWT", jwt(issued=NOW - 10, expires=NOW + 3600))
        yield


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter, as pytest's own is not."""
    with TemporaryDirectory() as above:
        Path(above).chmod(0o755)
        yield Path(above)


@pytest.fixture
def home(open_folder: Path, registry_template: Path) -> Path:
    """In place of the fixture of that name: a home with an empty registry in it."""
    home = open_folder / "home"
    (home / "models").mkdir(parents=True)
    shutil.copy(registry_template, home / "models")
    return home


def fill(forewarn: Forewarn, home: Path) -> None:
    bundle = tiny_bundle()
    reading = reading_of(with_slurm_treatments(ClusterFacts()))  # as the collector sets it
    bundle = dataclasses.replace(
        bundle, facts=dataclasses.replace(bundle.facts, cluster="lab", reading=reading)
    )
    bundle.save(home.parent / "bundle")
    assert Registry(home).record(home.parent / "bundle")
    shutil.rmtree(home.parent / "bundle")
    collected = forewarn("collect", "--once", "--since", "now-1hour")
    assert collected.code == 0, collected.err


def forget_state(home: Path) -> None:
    """As where no collector runs: the history was read, and no state made of it."""
    with open_store(Config(home=home)) as store, store.writing() as writer:
        clear(writer, "lab")


def commands(folder: Path) -> list[list[str]]:
    batch = folder / "job.sbatch"
    batch.write_text("#!/bin/bash\n#SBATCH --time=10\nhostname\n")
    batch.chmod(0o644)
    return [
        ["predict", "8", "9", "--json"],
        ["runtime", "8", "9", "--json"],
        ["advise", "9", "--json"],
        ["explain", "8", "--json"],
        ["check", "--no-test-only", "--json", str(batch)],
        ["health", "--json"],
        ["jobs", "--limit", "3", "--json"],
        ["models", "list", "--json"],
    ]


def answer_and_risks(name: str, out: str) -> tuple[Any, list[float | None]]:
    """Return the part of an answer that does not depend on the user, and the risks, which vary with time."""
    if name in ("jobs", "models"):
        return out, []
    value = json.loads(out)
    if name == "health":
        return value["judged"], []
    if name == "explain":
        return value["cause"], [value.get("risk")]
    values = value if isinstance(value, list) else [value]
    keys = ("job_id", "phase", "verdict", "state", "run_time")
    risks = [v["failure"] and v["failure"]["probability"] for v in values if "failure" in v]
    return [{key: v.get(key) for key in keys} for v in values], risks


def assert_same(args: Sequence[str], code: int, out: str, owner: Result) -> None:
    """Check that a reader gets the same answer as the owner."""
    assert code == owner.code, args
    (answer, risks), (expected, expected_risks) = (
        answer_and_risks(args[0], out),
        answer_and_risks(args[0], owner.out),
    )
    assert answer == expected, args
    assert risks == pytest.approx(expected_risks, abs=2e-3), args


def as_nobody(calls: Sequence[Sequence[str]], home: Path) -> list[tuple[int, str, str]]:
    own, warm = home.parent / "own", home.parent / "warm"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    shutil.copytree(home, warm)
    arguments = json.dumps([calls, str(warm), str(home), str(own)])
    done = subprocess.run(
        [sys.executable, "-c", READER, arguments], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


@pytest.mark.usefixtures("slurm")
@pytest.mark.parametrize("is_collected", [True, False], ids=["a collector ran just now", "none ran"])
def test_a_member_of_the_group(is_collected: bool, forewarn: Forewarn, home: Path, open_folder: Path) -> None:
    fill(forewarn, home)
    assert forewarn("config", "share", grp.getgrgid(NOBODY).gr_name).code == 0
    if not is_collected:
        forget_state(home)
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    calls = [*commands(open_folder), ["models", "promote", "lab.submit.generic", "1"]]
    *answers, promoted = as_nobody(calls, home)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
    assert promoted[0] == RegistryError.exit_code
    assert "no permission to change the registry" in promoted[2]
    for args, (code, out, err) in zip(calls, answers, strict=False):
        assert "permission" not in err, args
        assert_same(args, code, out, forewarn(*args))
    (risk, _) = json.loads(answers[0][1])
    assert risk["failure"], "a risk is stated"


@pytest.fixture
def read_only(open_folder: Path, home: Path) -> Iterator[Path]:
    """A folder at which the home is mounted read-only."""
    mounted = open_folder / "seen"
    mounted.mkdir()
    home.mkdir(exist_ok=True)
    if subprocess.run(["mount", "--bind", home, mounted], check=False).returncode:
        pytest.skip("no right to mount here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", mounted], check=True)
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", mounted], check=True)


@pytest.mark.usefixtures("slurm")
def test_a_read_only_file_system(
    forewarn: Forewarn, home: Path, read_only: Path, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(forewarn, home)
    forget_state(home)
    assert not (home / f"{FILE}-wal").exists(), "SQLite finds no log, and can make none"
    with pytest.raises(OSError, match="Read-only"):
        (read_only / "file").touch()
    calls = commands(open_folder)
    monkeypatch.setenv("FOREWARN_HOME", str(read_only))
    answers = [forewarn(*args) for args in calls]
    monkeypatch.setenv("FOREWARN_HOME", str(home))
    for args, answer in zip(calls, answers, strict=True):
        assert_same(args, answer.code, answer.out, forewarn(*args))
