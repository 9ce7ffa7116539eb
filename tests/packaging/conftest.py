"""A Debian tree with what the files of packaging/ are checked by; each test has a copy of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.errors import LabMissingError
from lab.needs import check_machine
from lab.trees import ensure_plain_tree
from tests.lab.required import skip_unless_required

ROOT = Path(__file__).resolve().parents[2]
ENTER = Path(__file__).parent / "enter_copy.sh"
PACKAGES = ("systemd", "python3-venv", "mandoc", "nginx-light", "apache2-bin")

InTree = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def debian() -> Path:
    """Debian trixie with systemd, a proxy and mandoc: built once on a machine, in half a minute."""
    try:
        check_machine()
        return ensure_plain_tree("trixie", PACKAGES, print)
    except LabMissingError as error:
        skip_unless_required(error)


@pytest.fixture
def in_tree(debian: Path) -> InTree:
    """Run a shell script as root in a copy of the tree, which ends with it; the repository is at /mnt."""

    def run(script: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        enter = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"]
        done = subprocess.run(
            [*enter, "--", "bash", str(ENTER), str(debian), str(ROOT), "sh", "-e", "-c", script],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    return run
