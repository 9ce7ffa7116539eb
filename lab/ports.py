"""Ports for a lab: a block of 500 that no other lab has, all on the loopback."""

from __future__ import annotations

import socket
import string
from collections.abc import Callable
from typing import TextIO

from lab.errors import LabError
from lab.locks import try_lock
from lab.places import cache_home

FIRST = 18000
BLOCK = 500


def reserve_block(wanted: int | None, obstacle: Callable[[int], str | None]) -> tuple[int, TextIO]:
    """Reserve a block; return its first port and the lock that keeps it while the lab holds the file open.

    `obstacle` says what is in the way of a block, if anything: then the next is tried, unless one was wanted.
    """
    reason = ""
    for base in range(FIRST, FIRST + BLOCK * 20, BLOCK) if wanted is None else [wanted]:
        lock = try_lock(cache_home() / "ports" / f"{base}.lock")
        if lock is None:
            reason = f"another lab that is up has the ports from {base}"
            continue
        found = obstacle(base)
        if found is None:
            return base, lock
        lock.close()
        reason = found
    raise LabError(f"{reason}: end that first, or choose other ports with --base-port")


def answers(port: int) -> bool:
    """Check whether something listens on a port of the loopback."""
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", port)) == 0


def node_prefix(base: int) -> str:
    """Return the start of the nodes' names, one for each block: na1, na2, … nb1, nb2, …."""
    return "n" + string.ascii_lowercase[(base - FIRST) // BLOCK % 26]
