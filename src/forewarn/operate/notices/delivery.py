"""The contract of channels: how a message is handed over, and what is known when that fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from forewarn.operate.notices.notice import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message ready to be laid out: with its footer and the link that acknowledges it."""

    id: str
    rule: str
    message: Message
    acknowledge_url: str | None = None
    footer: tuple[str, ...] = ()


class NoticeChannel(Protocol):
    """A way to send letters: one connection, used by one thread."""

    def open(self) -> None:
        """Connect; `DeliveryError` if nothing can be sent now. Nothing has been handed over then."""

    def send(self, address: str, letter: Letter) -> None:
        """Hand a letter over; `DeliveryError` if it was not taken."""

    def close(self) -> None:
        """End the connection; never raises."""
