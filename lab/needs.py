"""What this machine must have for a lab: installed if that can be, else named in one message."""

from __future__ import annotations

import os
import shutil
import subprocess

from lab.errors import LabMissingError

COMMANDS = {"unshare": "util-linux", "nsenter": "util-linux", "setpriv": "util-linux", "mount": "mount"}
INSTALLABLE = {"mmdebstrap": "mmdebstrap"}


def check_machine() -> None:
    """Raise LabMissingError, naming everything that is missing, unless a lab can be started here."""
    missing = [f"the command {name} (apt install {pkg})" for name, pkg in COMMANDS.items() if not found(name)]
    if os.geteuid() != 0:
        missing.insert(0, "root (the daemons run in namespaces of their own, as several users: sudo)")
    if missing:
        raise LabMissingError("a lab needs " + "; ".join(missing))


def check_builder() -> None:
    """Raise LabMissingError unless trees can be built here; installs mmdebstrap if it is not there."""
    for command, package in INSTALLABLE.items():
        if found(command):
            continue
        if not found("apt-get"):
            raise LabMissingError(f"a lab needs {command}, and there is no apt-get to install it with")
        # A fresh image often has no package lists yet: fetch them only if the first try fails.
        if install(package) is not None:
            _apt("update")
            reason = install(package)
            if reason is not None:
                raise LabMissingError(
                    f"a lab needs {command}, and `apt-get install {package}` fails: {reason}"
                )


def found(command: str) -> bool:
    """Check whether a command is on the PATH, or where root's PATH would have it."""
    return shutil.which(command, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is not None


def install(package: str) -> str | None:
    """Install one package of Debian; None, or why it failed."""
    result = _apt("install", "--yes", "--no-install-recommends", package)
    if result.returncode == 0:
        return None
    return (result.stderr.strip().splitlines() or [f"exit code {result.returncode}"])[-1]


def _apt(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Another apt may be at work on the machine: wait for it rather than fail.
    command = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
