"""Control groups (version 1) of the lab's jobs: they make OUT_OF_MEMORY possible, and are cleared away."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")


def can_limit_memory() -> bool:
    """Check whether the kernel can end a job that grows too large; else Slurm polls, and it is FAILED."""
    return (MOUNT / "memory" / "memory.limit_in_bytes").exists()


def busy_nodes(nodes: Iterable[str]) -> list[str]:
    """Nodes whose cgroups hold processes: those of another lab with the same names."""
    return [node for node in nodes if any(_processes(folder) for folder in _folders(node))]


def remove_cgroups(nodes: Iterable[str]) -> None:
    """Remove the empty cgroups that slurmd made for these nodes; the kernel keeps any that is in use."""
    for node in nodes:
        for top in _folders(node):
            for folder, _, _ in os.walk(top, topdown=False):
                try:
                    Path(folder).rmdir()
                except OSError:
                    break


def _folders(node: str) -> list[Path]:
    return [folder for folder in MOUNT.glob(f"*/slurm_{node}") if folder.is_dir()]


def _processes(folder: Path) -> bool:
    return any(file.read_text() for file in folder.rglob("cgroup.procs"))
