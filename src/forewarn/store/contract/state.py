"""The online state: small rows by key, within a space (entities, weights, jobs in flight) of a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence


class StateReader(ABC):
    """Reads online state: for whoever assesses, at any time, from any thread."""

    @abstractmethod
    def get_state(self, cluster: str, space: str, keys: Sequence[int]) -> dict[int, bytes]:
        """The online state of these keys, those that have one."""

    @abstractmethod
    def all_state(self, cluster: str, space: str) -> Iterator[tuple[int, bytes]]:
        """All online state of a space, of one moment, in order of key: for a process that starts."""


class StateWriter(ABC):
    """Changes online state: for the one process that holds the claim to a cluster's (`Store.claim`).

    Each call puts or drops values by key, whatever they were: what is done twice is as done once, so a store
    may write changes down first, publish them, and carry them out after that.
    """

    @abstractmethod
    def put_state(self, cluster: str, space: str, rows: Iterable[tuple[int, bytes]]) -> None:
        """Set online state by key within a space. A key is a signed number of 64 bits."""

    @abstractmethod
    def drop_state(self, cluster: str, space: str, keys: Iterable[int] | None = None) -> None:
        """Forget online state: of some keys, or of the whole space."""
