"""The nodes of a lab: when they are ready, and how one fails and comes back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lab.errors import LabError

if TYPE_CHECKING:
    from lab.cluster import Lab

USABLE = {"idle", "mixed", "allocated", "completing"}


def node_states(lab: Lab) -> dict[str, str]:
    """Return the state of each node as in sinfo: `idle`, `down`, `idle*` if it does not answer."""
    lines = lab.run("root", "sinfo", "-h", "-N", "-p", "main", "-o", "%N %T").splitlines()
    return dict(line.split() for line in lines)


def wait_for_nodes(lab: Lab, *, timeout: float = 60) -> None:
    """Wait until every node can take jobs."""
    deadline = time.monotonic() + timeout
    while True:
        result = lab.try_run("root", "sinfo", "-h", "-N", "-p", "main", "-o", "%N %T")
        states = dict(line.split() for line in result.stdout.splitlines()) if result.returncode == 0 else {}
        if states and set(states.values()) <= USABLE:
            return
        if time.monotonic() > deadline:
            logs = lab.state / "var/log/slurm"
            raise LabError(f"not all nodes came up: {states or result.stderr.strip()}; see {logs}")
        time.sleep(0.2)


def fail_node(lab: Lab, node: str) -> None:
    """Let a node die: its slurmd is killed, and slurmctld told what it finds out after SlurmdTimeout."""
    lab.daemons.kill(f"slurmd.{node}")
    lab.run("root", "scontrol", "update", f"nodename={node}", "state=down", "reason=lab: the node failed")


def revive_node(lab: Lab, node: str) -> None:
    """Bring a node back that has failed: with ReturnToService=2 it serves once its slurmd is there."""
    lab.daemons.start(f"slurmd.{node}")
