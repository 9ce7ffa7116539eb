"""Erasure of a user from people's entries: the person's own go, other mentions are renamed.

An entry that names the user in its field `user` is deleted by the store. Some belong to a person in another
way: a digest or a silence by its recipient, an acknowledgement by its notice, a line of a digest by the
notice that it lists, a token's name by the token.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from forewarn.operate.access.manage import TOKEN_CREATED
from forewarn.operate.notices.recipients import Recipient
from forewarn.store.people import Entry, ErasedEntries, PeopleStore


def erase_entries(people: PeopleStore, user: str, pseudonym: str) -> ErasedEntries:
    """Erase a user from the store of people's entries. Done again, it does what is left."""
    deleted, renamed = _erase_notices(people, user)
    for entry in people.entries("silence"):
        if _is_for(entry.value.get("recipient"), user):
            deleted += people.remove("silence", entry.key)
    entries = people.erase(user, pseudonym, also=_token_names(people, user))
    return ErasedEntries(entries.deleted + deleted, entries.renamed + renamed)


def _erase_notices(people: PeopleStore, user: str) -> tuple[int, int]:
    """Delete the notices to a user or about the user's jobs; return how many entries went and were changed.

    First their lines in others' digests, which can be found by the notices only.
    """
    notices = people.entries("notice")
    own = [one for one in notices if _is_of(one.value, user)]
    listed: dict[str, set[str]] = {}
    for one in own:
        if digest := one.value.get("digest"):
            listed.setdefault(digest, set()).add(one.value["message"]["title"])
    changed = 0
    for digest in notices:
        if digest.key in listed and digest not in own:
            people.put("notice", digest.key, _without_lines(digest, listed[digest.key]), at=digest.at)
            changed += 1
    deleted = 0
    for one in own:
        deleted += people.remove("acknowledgement", one.key)
        deleted += people.remove("notice", one.key)
    return deleted, changed


def _without_lines(digest: Entry, titles: Collection[str]) -> dict[str, Any]:
    message = digest.value["message"]
    facts = [fact for fact in message["facts"] if fact[1] not in titles]
    return {**digest.value, "message": {**message, "facts": facts}}


def _is_of(notice: Mapping[str, Any], user: str) -> bool:
    return notice.get("user") == user or _is_for(notice.get("recipient"), user)


def _is_for(recipient: str | None, user: str) -> bool:
    """Check whether notices to a recipient are the user's: by name, or an operator's by address.

    >>> [_is_for(who, "ann") for who in ("user:ann", "operator:ann@x.org", "user:anna", "webhook:ann", None)]
    [True, True, False, False, False]
    """
    who = Recipient.parse(recipient or "")
    if who.type == "operator":
        return who.name.partition("@")[0] == user
    return who.type == "user" and who.name == user


def _token_names(people: PeopleStore, user: str) -> frozenset[str]:
    """Return the names of the user's service tokens, revoked ones too: audit lines name them."""
    tokens = (one.value for one in people.entries("token"))
    lines = (one.value for one in people.entries("audit"))
    names = {one["name"] for one in tokens if one.get("user") == user}
    names |= {
        one.get("subject", "")
        for one in lines
        if one.get("action") == TOKEN_CREATED and (one.get("details") or {}).get("user") == user
    }
    return frozenset(names)
