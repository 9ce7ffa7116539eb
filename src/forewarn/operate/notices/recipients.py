"""Who gets notices: users by mail, operators by mail and by webhook."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self

from forewarn.config import NoticesConfig

RecipientType = Literal["user", "operator", "webhook"]
_LOCAL_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}")


@dataclass(frozen=True, slots=True)
class Recipient:
    """A user, an operator's mail address, or a webhook by its name.

    >>> str(Recipient("user", "ann")), Recipient.parse("webhook:ops").name
    ('user:ann', 'ops')
    """

    type: RecipientType
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the written form."""
        recipient_type, _, name = text.partition(":")
        return cls(recipient_type, name)  # type: ignore[arg-type]

    @property
    def operates(self) -> bool:
        """Whether it stands for those who run the cluster."""
        return self.type != "user"


def mail_address(config: NoticesConfig, recipient: Recipient) -> str | None:
    """Return the mail address of a recipient; None for one that has none.

    A user name that is no plain local part has none: it must not add recipients or headers.
    """
    if recipient.type == "operator":
        return recipient.name
    if recipient.type == "webhook" or config.user_address is None:
        return None
    return (
        config.user_address.replace("{user}", recipient.name)
        if _LOCAL_PART.fullmatch(recipient.name)
        else None
    )


def owner_recipients(config: NoticesConfig, user: str | None) -> Iterator[Recipient]:
    """Yield the owner of a job, if mail reaches users here."""
    if user is None or config.smtp is None or config.sender is None or config.to_users == "none":
        return
    recipient = Recipient("user", user)
    if mail_address(config, recipient) is not None:
        yield recipient


def operator_recipients(config: NoticesConfig, rule: str) -> Iterator[Recipient]:
    """Yield the operators' addresses and the webhooks that take notices of a rule."""
    if config.smtp is not None and config.sender is not None:
        yield from (Recipient("operator", address) for address in config.operators)
    yield from (Recipient("webhook", hook.name) for hook in config.webhooks if rule in hook.rules)
