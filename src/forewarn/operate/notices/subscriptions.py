"""Subscriptions: which rules a user wants mail of. Without one, the site's setting `to_users` decides."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from forewarn.config.notices import RULES, NoticesConfig
from forewarn.errors import UsageError
from forewarn.store.people import PeopleStore

USER_RULES = tuple(rule for rule in RULES if rule != "node")  # nodes are the operators' business


@dataclass(frozen=True, slots=True)
class Subscription:
    """The rules that a user gets mail of, and whether the user chose them."""

    user: str
    rules: tuple[str, ...]
    chosen: bool

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {"user": self.user, "rules": list(self.rules), "chosen": self.chosen}


def read_subscription(people: PeopleStore, config: NoticesConfig, user: str) -> Subscription:
    """Return what a user gets: as chosen, or by the site's setting."""
    entry = people.get("subscription", user)
    if entry is None:
        return Subscription(user, USER_RULES if config.to_users == "all" else (), chosen=False)
    rules = entry.value.get("rules", ())
    return Subscription(user, tuple(rule for rule in USER_RULES if rule in rules), chosen=True)


def save_subscription(
    people: PeopleStore, config: NoticesConfig, user: str, rules: Collection[str], *, at: int
) -> Subscription:
    """Set the rules that a user gets mail of; none of them is opting out."""
    unknown = sorted(set(rules) - set(USER_RULES))
    if unknown:
        raise UsageError(f"rules: no such rule {unknown[0]!r}; choose from {', '.join(USER_RULES)}")
    people.put("subscription", user, {"user": user, "rules": sorted(rules)}, at=at)
    return read_subscription(people, config, user)
