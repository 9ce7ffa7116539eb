"""Mentions of a user's name in texts, and their replacement by a pseudonym."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Mapping
from typing import Any

# Fields that name things: a partition may be called as a user is.
NOT_PEOPLE = frozenset(
    {"action", "cluster", "model", "partition", "phase", "node", "rule", "state", "outcome"}
)


def new_pseudonym() -> str:
    """Return a random name that nobody can lead back to a person."""
    return f"erased-{secrets.token_hex(6)}"


def mention_pattern(name: str) -> re.Pattern[str]:
    """Return what finds a name as a word of its own, be it in a path or an address.

    >>> mention_pattern("ann").findall("ann.smith and anna met ann in /home/ann, ann@x.org")
    ['ann', 'ann', 'ann']
    """
    return re.compile(rf"(?<![\w-])(?<!\w\.){re.escape(name)}(?![\w-]|\.\w)")


def with_pseudonym(value: Any, mention: re.Pattern[str], pseudonym: str) -> Any:
    """Replace mentions in a JSON value, in its texts and the names of its fields, but not in `NOT_PEOPLE`.

    >>> with_pseudonym({"by": "ann", "to": ["ann@x.org", 3]}, mention_pattern("ann"), "erased-1")
    {'by': 'erased-1', 'to': ['erased-1@x.org', 3]}
    """
    if isinstance(value, str):
        return mention.sub(pseudonym, value)
    if isinstance(value, dict):
        return {
            mention.sub(pseudonym, key): (
                one if key in NOT_PEOPLE else with_pseudonym(one, mention, pseudonym)
            )
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [with_pseudonym(one, mention, pseudonym) for one in value]
    return value


def without_user(value: Mapping[str, Any], user: str, pseudonym: str, also: Collection[str] = ()) -> Any:
    """Replace a user in an entry's value; in the user's own ones as a part of names, and without the address.

    >>> line = {"user": "ann", "address": "10.0.0.7", "subject": "ann_fit2 for joanna", "action": "submit"}
    >>> without_user(line, "ann", "erased-1")
    {'user': 'erased-1', 'address': None, 'subject': 'erased-1_fit2 for joanna', 'action': 'submit'}
    >>> without_user({"user": "ben", "subject": "laptop"}, "ann", "erased-1", also={"laptop"})
    {'user': 'ben', 'subject': 'erased-1'}
    """
    texts = {name: pseudonym if isinstance(one, str) and one in also else one for name, one in value.items()}
    is_own = user in (value.get("user"), value.get("by"))
    if is_own and "address" in texts:
        texts["address"] = None
    return with_pseudonym(texts, _part_pattern(user) if is_own else mention_pattern(user), pseudonym)


def _part_pattern(name: str) -> re.Pattern[str]:
    """Return what finds a name between any two characters that are no letters."""
    return re.compile(rf"(?<![^\W\d_]){re.escape(name)}(?![^\W\d_])")
