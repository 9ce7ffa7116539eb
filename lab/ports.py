"""Ports for a lab: a block of 500 that no other lab has, all on the loopback."""

from __future__ import annotations

import socket
import string
from collections.abc import Iterable
from typing import TextIO

from lab.errors import LabError
from lab.locks import try_lock
from lab.places import cache_home

FIRST = 18000
BLOCK = 500


def reserve_block(wanted: int | None) -> tuple[int, TextIO]:
    """The first port of a block, and the lock that keeps it for as long as the lab holds the file open."""
    candidates = [wanted] if wanted is not None else range(FIRST, FIRST + BLOCK * 20, BLOCK)
    for base in candidates:
        lock = try_lock(cache_home() / "ports" / f"{base}.lock")
        if lock is not None:
            return base, lock
    if wanted is not None:
        raise LabError(f"another lab that is up has the ports from {wanted}: choose others with --base-port")
    raise LabError("all blocks of ports are taken by labs that are up: end one with `python -m lab down`")


def check_free(ports: Iterable[int]) -> None:
    """Raise LabError if something else listens on one of the ports."""
    for port in ports:
        if answers(port):
            raise LabError(f"port {port} is taken by another program: choose others with --base-port")


def answers(port: int) -> bool:
    """Whether something listens on a port of the loopback."""
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", port)) == 0


def node_prefix(base: int) -> str:
    """A letter for the names of the nodes, one for each block: a1, a2, … b1, b2, …."""
    return string.ascii_lowercase[(base - FIRST) // BLOCK % 26]
