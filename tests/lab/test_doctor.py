"""`forewarn doctor` beside real daemons finds each of the usual mistakes.

Not tested here: clocks that differ. All daemons of a lab read one kernel's clock. What a wrong one does is a
token from the future, which is tested, and a controller with another time:
`tests/operate/test_doctor.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.cluster import Lab
from lab.jobs import submit, wait_ended, wait_until
from lab.tokens import sign_token
from tests.lab.conftest import one_version
from tests.lab.site import Site

Found = dict[str, tuple[str, str]]  # check: level, words; the worst of each


@pytest.fixture
def site(lab: Lab, tmp_path: Path) -> Site:
    return Site(lab, tmp_path / "home")


def examined(site: Site, *before: str, **settings: str) -> Found:
    """Return the worst finding of each check; an empty setting is not set."""
    environment = {name: value for name, value in (site.environment | settings).items() if value}
    command = [sys.executable, "-c", "from forewarn.serve.cli.main import main; main()", "doctor", "--json"]
    done = subprocess.run([*before, *command], env=environment, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    assert done.returncode == ["fine", "warning", "problem", "unknown"].index(answer["verdict"])
    order = ["fine", "warning", "unknown", "problem"]
    worst = sorted(answer["findings"], key=lambda one: order.index(one["level"]))
    return {one["check"]: (one["level"], one["said"]) for one in worst}


def test_all_is_fine(site: Site) -> None:
    wait_ended(site.lab, [submit(site.lab, "alice", script="true")])
    found = examined(site, SLURM_JWT=site.lab.token("root", 7200))
    assert {level for level, _ in found.values()} == {"fine"}, found
    assert {"address", "token", "api", "controller", "clock", "slurmdbd", "accounting", "store"} <= set(found)


def test_tokens_of_wrong_times(site: Site) -> None:
    key, now = site.lab.jwt_key.read_bytes(), int(time.time())
    old = examined(site, SLURM_JWT=sign_token(key, "root", issued=now - 600, expires=now - 300))
    assert old["token"][0] == "problem"
    assert "expired 5" in old["token"][1]
    ahead = examined(site, SLURM_JWT=sign_token(key, "root", issued=now + 900, expires=now + 9000))
    assert ahead["token"][0] == "warning", "Slurm takes it"
    assert "in the future by the local clock" in ahead["token"][1]
    foreign = examined(site, SLURM_JWT=sign_token(bytes(32), "root", issued=now, expires=now + 7200))
    assert foreign["controller"][0] == "problem"
    assert "token" in foreign["controller"][1]


@one_version
def test_addresses_that_are_wrong(site: Site) -> None:
    assert "nothing listens" in examined(site, FOREWARN_SLURMRESTD="http://127.0.0.1:9")["address"][1]
    lost = examined(site, FOREWARN_SLURMRESTD=f"unix:{site.lab.state}/none.sock")
    assert "no such socket" in lost["address"][1]
    other = examined(site, FOREWARN_SLURMRESTD=f"http://127.0.0.1:{site.lab.settings.database_port}")
    assert other["address"][0] == "problem"


@pytest.mark.parametrize(("daemon", "check"), [("slurmdbd", "accounting"), ("slurmctld", "controller")])
def test_a_daemon_is_away(daemon: str, check: str, site: Site) -> None:
    assert site.environment, "with a token, which slurmctld makes"
    site.lab.daemons.kill(daemon)
    try:
        found = examined(site)
    finally:
        site.lab.daemons.start(daemon)
    assert found[check][0] == "problem"
    assert daemon in found[check][1]


def test_no_token_where_the_socket_tells_who_asks(site: Site) -> None:
    """`rest_auth/local`: of root and of its own user slurmrestd wants no token."""
    with local_slurmrestd(site.lab) as socket:
        found = examined(site, *beside(site.lab), FOREWARN_SLURMRESTD=f"unix:{socket}", SLURM_JWT="")
        assert {check for check, (level, _) in found.items() if level != "fine"} <= {"accounting"}, found
        assert "by the socket" in found["token"][1]


@contextmanager
def local_slurmrestd(lab: Lab) -> Iterator[Path]:
    """A second slurmrestd, on a socket of its own, without JWT."""
    place = lab.state / "run/slurmrestd/local.sock"
    command = "setsid slurmrestd -a rest_auth/local unix:/run/slurmrestd/local.sock"
    started = lab.run("slurmrest", "bash", "-c", f"{command} </dev/null >/dev/null 2>&1 & echo $!")
    try:
        wait_until(place.exists, 20, "it listens", every=0.1)
        yield place
    finally:
        lab.run("root", "bash", "-c", f"kill -KILL {int(started)}")
        place.unlink(missing_ok=True)


def beside(lab: Lab) -> tuple[str, ...]:
    """Run a command where the lab's daemons see its process, which is how they know who asks."""
    return ("nsenter", "--target", str(lab.inside.holder), "--pid")
