"""The users of accounting, as `sacctmgr` lists them."""

from __future__ import annotations

from forewarn.sources.commands.runner import Runner
from forewarn.sources.slurm.user_rights import UserRights

_LIST = ("sacctmgr", "--noheader", "--parsable2", "show", "user", "withcoord")
_LIST_FORMAT = "format=user,adminlevel,coordinators"


def list_users(runner: Runner) -> dict[str, UserRights]:
    """Ask for all users with the accounts that they coordinate."""
    return read_users_list(runner.text(*_LIST, _LIST_FORMAT))


def read_users_list(text: str) -> dict[str, UserRights]:
    """Read what `sacctmgr` printed.

    >>> read_users_list("ann|Operator|physics,chemistry\\nben|None|\\n")["ann"].admin_level
    'Operator'
    """
    found = {}
    for line in text.splitlines():
        name, level, accounts = [*line.split("|"), "", ""][:3]
        if name:
            level = level if level in ("Operator", "Administrator") else "None"
            found[name] = UserRights(level, frozenset(filter(None, accounts.split(","))))
    return found
