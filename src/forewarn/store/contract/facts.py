"""Small facts: what is known of each cluster as a whole, and how far readers of sources have come."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What is known of a cluster as a whole."""

    timezone: str = "UTC"
    fields: Mapping[str, Any] = field(default_factory=dict)  # field policies: see features/missing_fields.py


class FactReader(ABC):
    """Reads facts and cursors: for anybody, at any time, from any thread."""

    @abstractmethod
    def clusters(self) -> dict[str, ClusterFacts]:
        """The clusters that have been described, by name."""

    @abstractmethod
    def cursor(self, name: str) -> str | None:
        """How far a reader had come; None: it never was here."""


class FactWriter(ABC):
    """Sets facts and cursors: for whoever reads a source, in the write that keeps what was read."""

    @abstractmethod
    def describe_cluster(self, cluster: str, facts: ClusterFacts) -> None:
        """Set what is known of a cluster, over what was."""

    @abstractmethod
    def set_cursor(self, name: str, value: str) -> None:
        """Remember how far a reader of some source has come."""
