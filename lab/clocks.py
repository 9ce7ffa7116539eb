"""What time it is in each part of a lab: tests of wrong clocks begin by knowing the right ones."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.cluster import Lab


def clock_offsets(lab: Lab) -> dict[str, float]:
    """Return the seconds by which each clock is ahead; all read one kernel's, so about none."""
    return {
        "lab": int(lab.run("root", "date", "+%s")) - time.time(),
        "mariadb": int(lab.sql("SELECT UNIX_TIMESTAMP();")) - time.time(),
        "slurmctld": _controller_time(lab) - time.time(),
    }


def _controller_time(lab: Lab) -> int:
    """Return slurmctld's own time, which `scontrol show config` prints in local time."""
    first = lab.run("root", "scontrol", "show", "config").splitlines()[0]
    text = first.removeprefix("Configuration data as of ").strip()
    return int(lab.run("root", "date", "-d", text, "+%s"))
