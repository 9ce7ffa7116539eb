"""docs/serving-site.md, followed literally: from nothing to a user who asks the service, on a real Slurm.

Parts 1 and 6 are not: they need a package index and systemd. `beside.sh` stands for the first; the units of
the second are checked in tests/packaging.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.cluster import Lab
from lab.synthetic import load_jobs
from tests.lab.conftest import one_version
from tests.operate.notices.servers import free_port

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/serving-site.md"
BESIDE = Path(__file__).parent / "beside.sh"
JOBS, DAYS = 3_000, 25


@dataclass(frozen=True)
class Machine:
    """A machine with the lab's Slurm commands, on which somebody installs Forewarn."""

    holder: int  # a process in its namespaces

    def run(self, user: str, block: str) -> str:
        """Run a box of the page as a user; what it printed."""
        home = "/root" if user == "root" else f"/home/{user}"
        settings = [
            f"HOME={home}",
            f"USER={user}",
            "LANG=C.UTF-8",
            "PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
        ]
        enter = ["nsenter", "--target", str(self.holder), "--mount", "--uts", "--pid", "--root", "--"]
        as_user = ["setpriv", "--reuid", user, "--regid", user, "--init-groups", "--"]
        command = [
            *enter,
            "env",
            "-i",
            "-C",
            home,
            *settings,
            *as_user,
            "bash",
            "-e",
            "-o",
            "pipefail",
            "-c",
            block,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def machine(lab: Lab) -> Iterator[Machine]:
    """A machine that ends with the test, and all that runs on it."""
    enter = ["setpriv", "--pdeathsig", "KILL", "nsenter", "--target", str(lab.inside.holder)]
    enter += ["--mount", "--uts", "--pid", "--", "unshare", "--mount", "--"]
    command = [*enter, "bash", str(BESIDE), lab.settings.tree, sys.base_prefix, str(ROOT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as outer:
        assert outer.stdout is not None
        assert outer.stdout.readline() == "ready\n"
        inner = int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[0])
        built = Machine(inner)
        yield built
        with suppress(AssertionError, subprocess.TimeoutExpired):
            built.run("root", "test ! -e /run/forewarn.pid || kill -KILL $(cat /run/forewarn.pid)")
        built_end = ["nsenter", "--target", str(inner), "--pid", "--mount", "--root", "--"]
        subprocess.run([*built_end, "rm", "-rf", "/run/forewarn", "/run/forewarn.pid"], check=False)
        outer.terminate()
        subprocess.run(["kill", "-KILL", str(inner)], check=False)


def boxes(page: str) -> list[tuple[str, str]]:
    """The user and the commands of each box that can be followed here, in their order."""
    found = []
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        user = "alice" if "As a user" in part.splitlines()[0] else "root"
        found += [(user, box) for box in re.findall(r"^```sh\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)]
    return found


@one_version
@pytest.mark.slow
def test_the_page_can_be_followed(lab: Lab, machine: Machine) -> None:
    load_jobs(lab, JOBS, DAYS)
    begun = time.monotonic()
    steps = boxes(PAGE.read_text())
    assert len(steps) == 10
    port, outputs = free_port(), []
    for number, (user, block) in enumerate(steps):
        outputs.append(machine.run(user, block.replace("127.0.0.1:8765", f"127.0.0.1:{port}")))
        if number == 0:  # the lab has no network of its own, and another service may run on this machine
            machine.run("root", f"echo FOREWARN_SERVE_LISTEN=127.0.0.1:{port} >> /etc/forewarn/forewarn.env")
    assert time.monotonic() - begun < 15 * 60

    assert "slurm_token_file" in outputs[1]
    assert "problem" not in outputs[3]
    assert "submit.generic" in outputs[4], "random outcomes: a model, though not one that may serve"
    assert json.loads(outputs[5])["ready"]
    assert f"http://127.0.0.1:{port}: models: " in outputs[6], "details are for known callers"
    assert "/run/forewarn/api.sock: models: no model serves yet" in outputs[6]
    assert "problem" not in outputs[6]
    assert {job["user"] for job in json.loads(outputs[7])["jobs"]} == {"alice"}, "one's own"
    assert json.loads(outputs[8])["user"] == "alice"
    assert "risk" in outputs[9] or "evidence" in outputs[9]
