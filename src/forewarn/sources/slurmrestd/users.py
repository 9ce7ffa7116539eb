"""The users of accounting, as slurmrestd gives them."""

from __future__ import annotations

from typing import Any

from forewarn.sources.slurm.user_rights import UserRights
from forewarn.sources.slurmrestd.session import RestSession
from forewarn.sources.slurmrestd.versions import number_of


def get_users(session: RestSession) -> dict[str, UserRights]:
    """Request all users with the accounts that they coordinate, which 22.05 sends unasked."""
    asks = {"with_coords": "true"} if number_of(session.version) >= 39 else None
    return read_users(session.get_json("slurmdb", "users", asks))


def read_users(answer: Any) -> dict[str, UserRights]:
    """Read an answer with users; what is not in its form is left out.

    >>> coordinated = [{"name": "physics", "direct": 1}]
    >>> old = {"name": "ann", "administrator_level": "None", "coordinators": coordinated}
    >>> new = {"name": "ben", "administrator_level": ["Operator"], "coordinators": []}
    >>> rights = read_users({"users": [old, new]})
    >>> sorted(rights["ann"].coordinates), rights["ben"].admin_level
    (['physics'], 'Operator')
    """
    users = answer.get("users") if isinstance(answer, dict) else None
    found = {}
    for user in users if isinstance(users, list) else ():
        if isinstance(user, dict) and isinstance(user.get("name"), str):
            found[user["name"]] = UserRights(_level(user.get("administrator_level")), _accounts(user))
    return found


def _level(value: Any) -> str:
    """Read the AdminLevel: a text up to v0.0.38, a list since."""
    one = value[0] if isinstance(value, list) and value else value
    return one if one in ("Operator", "Administrator") else "None"


def _accounts(user: dict[str, Any]) -> frozenset[str]:
    listed = user.get("coordinators")
    names = (one.get("name") for one in (listed if isinstance(listed, list) else ()) if isinstance(one, dict))
    return frozenset(name for name in names if isinstance(name, str) and name)
