"""A notice: what is sent to whom about what, what became of it, and whether it was right."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

DIGEST = "digest"  # the rule of a digest, which gathers notices beyond a day's budget


class NoticeState(StrEnum):
    """What became of a notice."""

    HELD = "held"  # beyond the day's budget: waits for the digest
    DIGESTED = "digested"  # part of a digest
    WAITING = "waiting"  # to be sent
    SENDING = "sending"  # being handed over
    SENT = "sent"
    UNCERTAIN = "uncertain"  # handed over, and the server's answer was lost: not sent again
    DROPPED = "dropped"  # no longer of use before it could be sent
    FAILED = "failed"  # the server refuses it, or was away for too long


# States in which the recipient has or may have it.
DELIVERED = frozenset({NoticeState.SENT, NoticeState.UNCERTAIN})
OPEN = frozenset({NoticeState.HELD, NoticeState.WAITING, NoticeState.SENDING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The content of a notice, in English: channels only lay it out."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()  # a short name and a sentence
    advice: tuple[str, ...] = ()
    command: str | None = None  # ready to type

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a message as `asdict` writes it."""
        return cls(
            title=value["title"],
            facts=tuple((name, text) for name, text in value["facts"]),
            advice=tuple(value["advice"]),
            command=value["command"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One message to one recipient about one subject."""

    id: str
    rule: str
    recipient: str  # `str(Recipient)`
    cluster: str
    subject: str  # job id without its task, or nodes
    at: int  # when it was written
    message: Message
    hours: float | None = None  # node hours at risk, or lost
    user: str | None = None  # owner of the job
    job_id: str | None = None  # the job that the message describes, and by which it is judged
    jobs: int = 1  # of the array or bulk
    bulk: str | None = None  # hash of what is equal in a bulk
    submit: int | None = None  # of the last job of the bulk
    request: Mapping[str, Any] = field(default_factory=dict)  # what the job requested then
    digest: str | None = None  # id of the digest that it is part of
    state: NoticeState = NoticeState.WAITING
    tries: int = 0
    next_try: int = 0
    problem: str | None = None  # why it was not sent
    sent_at: int | None = None
    token_hash: str | None = None  # of the token in its links
    came_true: bool | None = None  # None: not known, or the job was changed
    changed: bool = False  # the recipient changed or cancelled the job, or took the node out of service
    judged_at: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what is stored."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what is stored, by this or another version."""
        known = {one.name for one in fields(cls)}
        values = {name: own for name, own in value.items() if name in known}
        return cls(
            **values | {"message": Message.from_json(value["message"]), "state": NoticeState(value["state"])}
        )

    def to_public_json(self, acknowledged_at: int | None) -> dict[str, Any]:
        """Return what its recipient may see: no hash of a token, no retries."""
        hidden = ("token_hash", "tries", "next_try", "request", "bulk", "submit")
        shown = {name: value for name, value in self.to_json().items() if name not in hidden}
        return shown | {"acknowledged_at": acknowledged_at}


def notice_id(rule: str, recipient: str, cluster: str, subject: str) -> str:
    """Return the id of a notice: the same subject gets the same id, so that it is sent at most once."""
    text = "\0".join((rule, recipient, cluster, subject))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def hash_token(token: str) -> str:
    """Hash a token of a link: who reads the store cannot acknowledge."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
