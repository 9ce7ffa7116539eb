"""The online state: small rows by key, within a space (entities, weights, live jobs) of a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence


class StateReader(ABC):
    """The reading side of the online state: for whoever assesses, at any time, from any thread."""

    @abstractmethod
    def get_state(self, cluster: str, space: str, keys: Sequence[int]) -> dict[int, bytes]:
        """Return the rows of these keys; keys without a row are left out."""

    @abstractmethod
    def all_state(self, cluster: str, space: str) -> Iterator[tuple[int, bytes]]:
        """Return all rows of a space as of one moment, in order of key: for a process that starts."""


class StateWriter(ABC):
    """The writing side of the online state: for the process that holds the cluster's claim (`Store.claim`).

    Each call puts or drops values by key, whatever they were: what is done twice is as done once, so a store
    may write changes down first, publish them, and carry them out after that.
    """

    @abstractmethod
    def put_state(self, cluster: str, space: str, rows: Iterable[tuple[int, bytes]]) -> None:
        """Set rows by key within a space. A key is a signed 64-bit number."""

    @abstractmethod
    def drop_state(self, cluster: str, space: str, keys: Iterable[int] | None = None) -> None:
        """Delete rows: those of some keys, or the whole space."""
