"""One call of the service: what to send, and how to read the answer. Both clients send the same calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Answer = TypeVar("Answer")
Json = Any  # what json.loads returns


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCall(Generic[Answer]):
    """A request and the reader of its answer."""

    method: str
    path: str
    read: Callable[[Json], Answer]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Json = None
    changes: bool = False  # whether it changes something each time it is sent, so that it is sent once only
    accepts: frozenset[int] = frozenset()  # other statuses whose answers are no errors

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """The query as text: several values of a name one by one, without what is None."""
        return tuple(
            (name, _text(one))
            for name, value in self.query.items()
            for one in (value if isinstance(value, list | tuple) else (value,))
            if one is not None
        )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
