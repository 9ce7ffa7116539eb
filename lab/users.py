"""The people and services of the lab's Debian, made when the tree is built."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LabUser:
    """One account of the tree; the host does not know it."""

    name: str
    uid: int


PEOPLE = tuple(LabUser(name, 2001 + i) for i, name in enumerate(("alice", "bob", "carol", "dave", "erin")))
"""Those who submit jobs; each has an association with both accounts."""

REST_USER = LabUser("slurmrest", 2101)
"""slurmrestd must run neither as root nor as SlurmUser."""

USERS = (*PEOPLE, REST_USER)
ACCOUNTS = ("science", "teaching")
