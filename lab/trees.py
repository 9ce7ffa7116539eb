"""Debian trees with Slurm in them: built once by mmdebstrap, never changed afterwards, shared by all labs."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from lab.errors import LabError, LabMissingError
from lab.locks import locked
from lab.needs import check_builder
from lab.places import cache_home
from lab.users import USERS
from lab.versions import SlurmVersion

# Nothing depends on the jwt and mysql plugins: without their names they would not come.
PACKAGES = (
    *("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "slurm-client"),
    *("slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin", "slurm-wlm-mysql-plugin"),
    *("munge", "mariadb-server", "mariadb-client", "lua-socket", "curl", "procps", "python3", "libc6-dev"),
    "python3-venv",  # tests/release installs the wheel under the Python of each tree
)
FINISH = Path(__file__).parent / "finish_tree.sh"
PEOPLE = tuple(f"{user.name}:{user.uid}" for user in USERS)
_FINISHING = (f'--customize-hook=bash {shlex.quote(str(FINISH))} "$1" {" ".join(PEOPLE)}',)
# The Release file of a frozen mirror has run out; the signatures are checked all the same.
APT_OPTIONS = ('Acquire::Check-Valid-Until "false"', 'APT::Install-Recommends "false"')


def ensure_tree(version: SlurmVersion, say: Callable[[str], None]) -> Path:
    """Return the tree of a version, built first if it does not exist (about a minute)."""
    packages = (*PACKAGES, version.compiler)
    tree = cache_home() / f"{version.suite}-{_fingerprint(packages)}"
    what = f"a Debian {version.suite} with Slurm {version.name}"
    return _ensure(tree, version.suite, packages, _FINISHING, what, say)


def ensure_plain_tree(suite: str, packages: tuple[str, ...], say: Callable[[str], None]) -> Path:
    """Return a Debian tree with some packages and nothing else, built first if it does not exist."""
    recipe = "\n".join((*packages, *APT_OPTIONS))
    tree = cache_home() / f"{suite}-plain-{hashlib.sha256(recipe.encode()).hexdigest()[:10]}"
    return _ensure(tree, suite, packages, (), f"a Debian {suite} with {', '.join(packages)}", say)


def _ensure(
    tree: Path,
    suite: str,
    packages: tuple[str, ...],
    options: tuple[str, ...],
    what: str,
    say: Callable[[str], None],
) -> Path:
    if tree.is_dir():
        return tree
    check_builder()
    with locked(cache_home() / f"{tree.name}.lock") as lock:
        if tree.is_dir():  # built by another while we waited
            return tree
        say(f"building {what} in {tree} (once; 1-2 minutes)")
        part = tree.with_name(tree.name + ".part")
        remove_tree(part)
        _build(suite, part, packages, options, lock.fileno())
        part.rename(tree)  # only a whole tree ever has the name
    return tree


def remove_tree(tree: Path) -> None:
    """Remove what an earlier build left, and never anything that is mounted below it."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    below = [line.split()[1] for line in mounts if line.split()[1].startswith(f"{tree}/")]
    if below:
        raise LabError(f"{tree} has something mounted at {below[0]}: unmount it, then try again")
    if tree.exists():
        shutil.rmtree(tree)


def _build(suite: str, tree: Path, packages: tuple[str, ...], options: tuple[str, ...], lock: int) -> None:
    log = tree.with_suffix(".log")
    command = [
        # Ends with this process, in namespaces of its own: a killed build leaves no process and no mount.
        *("setpriv", "--pdeathsig", "KILL"),
        *("unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child", "--"),
        *("mmdebstrap", "--variant=minbase", "--mode=root", f"--include={','.join(packages)}"),
        *(f"--aptopt={option}" for option in APT_OPTIONS),
        *("--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*"),
        *("--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=force-unsafe-io"),
        *options,
        *(suite, str(tree), find_mirror()),
    ]
    with log.open("w") as output:
        result = subprocess.run(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            pass_fds=(lock,),
            check=False,
        )
    if result.returncode:
        errors = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("E: ")]
        reason = errors[0] if errors else "no reason given"
        raise LabMissingError(f"mmdebstrap could not build a Debian {suite}: {reason} (all of it: {log})")


def find_mirror() -> str:
    """Find the Debian mirror of this machine's own apt, or $FOREWARN_LAB_MIRROR."""
    chosen = os.environ.get("FOREWARN_LAB_MIRROR")
    if chosen:
        return chosen
    result = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    )
    uris = [uri.rstrip("/") for uri in result.stdout.split()]
    debian = [uri for uri in uris if uri.endswith("/debian")]
    if not debian:
        raise LabMissingError(
            "no Debian mirror among apt's sources: put one (https://…/debian) into FOREWARN_LAB_MIRROR"
        )
    return debian[0]


def _fingerprint(packages: tuple[str, ...]) -> str:
    """Return an id that changes with the recipe, so an old tree is never taken for a new one."""
    recipe = "\n".join((*packages, *APT_OPTIONS, *PEOPLE, FINISH.read_text()))
    return hashlib.sha256(recipe.encode()).hexdigest()[:10]
