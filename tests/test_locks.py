"""What every lock file of Forewarn keeps to, and why they are kernel locks on files that we open."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from forewarn.errors import ForewarnError, LearningError, RegistryError
from forewarn.learn.registry import tracking
from forewarn.learn.search.trials import Journal
from forewarn.sharing import private_files
from forewarn.store.claims import claim


def claimed(home: Path) -> AbstractContextManager[object]:
    found = claim(home, "state alps")
    if found is None:
        raise BlockingIOError
    return found


def registry_locked(home: Path) -> AbstractContextManager[object]:
    return tracking.exclusive_lock(home / "registry.lock")


def journal_open(home: Path) -> AbstractContextManager[object]:
    return Journal.open(home / "trials.jsonl", {})


LOCKS = {
    "claim": (claimed, "claims/state%20alps.lock"),
    "registry": (registry_locked, "registry.lock"),
    "journal": (journal_open, "trials.jsonl"),
}
TAKEN = (BlockingIOError, LearningError, RegistryError)
lock_and_file = pytest.mark.parametrize(("lock", "file"), LOCKS.values(), ids=LOCKS)
Lock = Callable[[Path], AbstractContextManager[object]]


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "LOCK_SECONDS", 0.2)


def taken(lock: Lock, home: Path) -> bool:
    try:
        with lock(home):
            return False
    except TAKEN:
        return True


@lock_and_file
def test_a_planted_link_is_not_followed(lock: Lock, file: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).symlink_to(victim)
    with pytest.raises((ForewarnError, OSError), match="symbolic links"), lock(tmp_path):
        pass
    assert victim.read_text() == "kept"


@lock_and_file
def test_a_lock_file_is_its_owners_alone(lock: Lock, file: str, tmp_path: Path) -> None:
    with private_files(), lock(tmp_path):
        assert stat.S_IMODE((tmp_path / file).stat().st_mode) == 0o600


@lock_and_file
def test_a_second_holder_in_one_process_is_refused(lock: Lock, file: str, tmp_path: Path) -> None:
    with lock(tmp_path):
        assert taken(lock, tmp_path)
    assert not taken(lock, tmp_path)


@pytest.mark.parametrize("name", LOCKS)
def test_the_kernel_frees_the_lock_of_a_killed_process(name: str, tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib; from tests.test_locks import LOCKS\n"
        "with LOCKS[sys.argv[1]][0](pathlib.Path(sys.argv[2])):\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, name, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        lock, _ = LOCKS[name]
        assert taken(lock, tmp_path)
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait(60)
        assert not taken(lock, tmp_path)
