"""packaging/systemd, sysusers.d and tmpfiles.d by systemd's own tools, in a Debian tree."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

from forewarn.serve.cli.main import COMMANDS
from tests.packaging.conftest import ROOT, InTree

UNITS = sorted((ROOT / "packaging/systemd").iterdir())
# The first may have to build the tree.
pytestmark = pytest.mark.timeout(600)
SERVICES = [unit for unit in UNITS if unit.suffix == ".service"]
# What the units name: the command, its user and the folders, as docs/install-debian.md makes them.
INSTALL = """
cp /mnt/packaging/systemd/* /etc/systemd/system/
cp /mnt/packaging/sysusers.d/forewarn.conf /usr/lib/sysusers.d/
cp /mnt/packaging/tmpfiles.d/forewarn.conf /usr/lib/tmpfiles.d/
mkdir -p /opt/forewarn/bin && cp /bin/true /opt/forewarn/bin/forewarn
systemd-sysusers forewarn.conf 2>/dev/null
systemd-tmpfiles --create forewarn.conf
"""


@pytest.mark.slow
def test_systemd_accepts_the_units(in_tree: InTree) -> None:
    names = " ".join(unit.name for unit in UNITS)
    done = in_tree(f"{INSTALL} systemd-analyze verify --man=no --recursive-errors=no {names}")
    assert (done.stdout + done.stderr).strip() == "", (
        "verify warns of unknown keys and values, and exits with 0"
    )


@pytest.mark.slow
def test_a_wrong_unit_is_found(in_tree: InTree) -> None:
    broken = "sed -i s/ProtectHome=yes/ProtectHme=yes/ /etc/systemd/system/forewarn.service"
    done = in_tree(f"{INSTALL} {broken}; systemd-analyze verify --man=no forewarn.service", check=False)
    assert "ProtectHme" in done.stdout + done.stderr


@pytest.mark.slow
def test_the_service_is_confined(in_tree: InTree) -> None:
    done = in_tree(f"{INSTALL} systemd-analyze security --offline=true --no-pager forewarn.service")
    (exposure,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert float(exposure) <= 2.5, done.stdout


@pytest.mark.slow
def test_user_and_folders(in_tree: InTree) -> None:
    done = in_tree(f"{INSTALL} stat -c '%n %U %G %a' /etc/forewarn /var/backups/forewarn; id -un forewarn")
    assert done.stdout.splitlines() == [
        "/etc/forewarn root forewarn 750",
        "/var/backups/forewarn forewarn forewarn 700",
        "forewarn",
    ]


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_units_run_commands_that_there_are(unit: Path) -> None:
    text = unit.read_text()
    started = re.findall(r"^ExecStart=/opt/forewarn/bin/forewarn (\w+)", text, re.MULTILINE)
    assert set(started) <= set(COMMANDS)
    assert started or unit.name == "forewarn-token.service"
    pages = re.findall(r"man:forewarn-(\w+)\(1\)", text)
    assert set(pages) <= set(COMMANDS)


def test_every_timer_starts_a_service() -> None:
    timers = {unit.stem for unit in UNITS if unit.suffix == ".timer"}
    assert timers == {"forewarn-backup", "forewarn-train", "forewarn-token"}
    assert timers <= {unit.stem for unit in SERVICES}


def test_jit_is_allowed_and_the_cache_has_a_place() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / "packaging/systemd/forewarn.service")
    service = unit["Service"]
    assert "MemoryDenyWriteExecute" not in service, "Numba compiles while it runs"
    assert (service["Type"], service["CacheDirectory"]) == ("notify", "forewarn")
