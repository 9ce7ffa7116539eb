"""Small facts: what is known of each cluster as a whole, and the cursors of readers of sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts about a cluster as a whole."""

    timezone: str = "UTC"
    fields: Mapping[str, Any] = field(default_factory=dict)  # field policies: see features/missing_fields.py


class FactReader(ABC):
    """The reading side of facts and cursors: for any caller, at any time, from any thread."""

    @abstractmethod
    def clusters(self) -> dict[str, ClusterFacts]:
        """Return the facts of each described cluster, by name."""

    @abstractmethod
    def cursor(self, name: str) -> str | None:
        """Return how far a reader of a source has come; None if it never ran."""

    @abstractmethod
    def cursors(self) -> dict[str, str]:
        """Return all cursors by name."""


class FactWriter(ABC):
    """The writing side of facts and cursors: for readers of sources, within the write of their records."""

    @abstractmethod
    def describe_cluster(self, cluster: str, facts: ClusterFacts) -> None:
        """Replace the facts of a cluster."""

    @abstractmethod
    def set_cursor(self, name: str, value: str) -> None:
        """Save how far a reader of a source has come."""

    @abstractmethod
    def drop_cursor(self, name: str) -> None:
        """Delete a cursor, if there is one."""
