"""The folder of one lab: the parts of its Debian that are its own, at the same paths as inside.

A file `/var/log/slurm/slurmctld.log` of the lab is `STATE/var/log/slurm/slurmctld.log` on the host.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path

from lab.errors import LabError

KEPT = ("etc", "home", "var/lib/munge", "var/lib/mysql", "var/lib/slurm", "var/log", "var/spool")
"""Begin as copies of the tree's, and are kept when the lab goes down."""

OWN = (*KEPT, "run")
"""Everything of the lab that is writable, beside /tmp."""

RUNTIME = {"munge": "munge", "mysqld": "mysql", "slurm": "slurm", "slurmrestd": "slurmrest", "lab": "root"}
"""Folders of /run, new at each start, and who writes there."""

LONGEST = 75
"""The path of a unix socket may have 107 characters, and slurmrestd's is below this folder."""

HERE = Path(__file__).parent
TOOLS = ("sacct", "sacctmgr", "sbatch", "scancel", "scontrol", "sdiag", "sinfo", "sprio", "squeue", "srun")


def create_state(state: Path, tree: Path) -> None:
    """Make what is not there yet of a lab's folder: its own parts of the tree, its keys, its commands."""
    if len(str(state)) > LONGEST:
        raise LabError(f"{state} is too long a path for the sockets below it ({LONGEST} characters at most)")
    for folder in KEPT:
        target = state / folder
        if not target.exists():
            part = target.with_name(target.name + ".part")  # a start that was killed left half a copy
            shutil.rmtree(part, ignore_errors=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", "--sparse=always", str(tree / folder), str(part)], check=True)
            part.rename(target)
    # Local times inside are those of the machine: sacct prints them.
    localtime = Path("/etc/localtime")
    if localtime.exists():
        (state / "etc/localtime").unlink(missing_ok=True)
        (state / "etc/localtime").write_bytes(localtime.read_bytes())
    (state / "var/log/mysql").mkdir(exist_ok=True)
    give(state, state / "var/log/mysql", "mysql", 0o755)
    _create_keys(state)
    _create_commands(state)


def create_runtime(state: Path) -> None:
    """Make /run anew: nothing of an earlier start, killed perhaps, is taken for this one's."""
    shutil.rmtree(state / "run", ignore_errors=True)
    for folder, owner in RUNTIME.items():
        (state / "run" / folder).mkdir(parents=True)
        give(state, state / "run" / folder, owner, 0o755)


def give(state: Path, path: Path, owner: str, mode: int) -> None:
    """Hand a file to a user of the lab; the host need not know the name."""
    uid, gid = _ids(state, owner)
    os.chown(path, uid, gid)
    path.chmod(mode)


def write_private(state: Path, path: Path, content: bytes, owner: str) -> None:
    """Write a file that only its owner may read, at no moment open to others."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    give(state, path, owner, 0o600)


def _create_keys(state: Path) -> None:
    if (state / "keys").exists():
        return
    write_private(state, state / "etc/munge/munge.key", secrets.token_bytes(1024), "munge")
    write_private(state, state / "var/lib/slurm/jwt_hs256.key", secrets.token_bytes(32), "slurm")
    write_private(state, state / "database.password", secrets.token_hex(16).encode(), "root")
    (state / "keys").touch()


def _create_commands(state: Path) -> None:
    folder = state / "bin"
    folder.mkdir(exist_ok=True)
    commands = {"enter": (HERE / "enter.sh").read_text()}
    for tool in TOOLS:
        commands[tool] = (
            f'#!/bin/bash\nexec "${{BASH_SOURCE[0]%/*}}/enter" "${{LAB_USER:-root}}" {tool} "$@"\n'
        )
    for name, text in commands.items():
        new = folder / f".{name}"
        new.write_text(text)
        new.chmod(0o755)
        new.rename(folder / name)


def _ids(state: Path, user: str) -> tuple[int, int]:
    for line in (state / "etc/passwd").read_text().splitlines():
        name, _, uid, gid, *_ = line.split(":")
        if name == user:
            return int(uid), int(gid)
    raise LabError(f"there is no user {user} in {state / 'etc/passwd'}")
