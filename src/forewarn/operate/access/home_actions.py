"""Actions on a home by commands, and their lines in the audit log of that home."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from forewarn.errors import ForewarnError
from forewarn.operate.access.audit import write_audit_line
from forewarn.operate.access.identity import Identity, Role
from forewarn.store.people import PeopleStore


def home_owner() -> Identity:
    """Return whoever runs the command: who may write to the files of a home may do all with it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in some containers
        user = "unknown"
    return Identity(user=user, role=Role.ADMIN, method="command")


@contextmanager
def audited_action(
    people: PeopleStore, action: str, subject: str, *, by: Identity | None = None
) -> Iterator[dict[str, Any]]:
    """Write a line about what is done inside, also if it fails; give a place for its details."""
    details: dict[str, Any] = {}
    by = by or home_owner()
    try:
        yield details
    except Exception as error:
        result = f"refused: {error}" if isinstance(error, ForewarnError) else "failed"
        write_audit_line(people, by, action, subject, result=result, details=details)
        raise
    write_audit_line(people, by, action, subject, details=details)
