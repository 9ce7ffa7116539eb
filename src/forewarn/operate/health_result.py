"""The health of a cluster's nodes, as a home or a service judged it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from forewarn.assess.json_form import part_from_json
from forewarn.assess.node_health.records import NodeHealth, exclude_line


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthResult:
    """The health of a cluster's nodes, or of some of them, at one moment."""

    cluster: str
    timezone: str
    at: int
    nodes: tuple[NodeHealth, ...]

    @property
    def exit_code(self) -> int:
        """The exit code for monitoring: 0 all healthy, 1 some suspect, 2 some sick."""
        return max(node.health.exit_code for node in self.nodes)

    @property
    def sick(self) -> tuple[str, ...]:
        """The names of the sick nodes."""
        return tuple(node.node for node in self.nodes if node.health.exit_code == 2)

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "cluster": self.cluster,
            "timezone": self.timezone,
            "at": self.at,
            "exclude": self.exclude,
            "nodes": [node.to_json() for node in self.nodes],
        }

    def without_counts(self) -> Self:
        """Leave out the numbers of jobs, for a caller who may not see others' jobs."""
        return replace(self, nodes=tuple(node.without_counts() for node in self.nodes))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what `to_json` returned."""
        nodes = tuple(part_from_json(NodeHealth, one) for one in value["nodes"])
        return cls(cluster=value["cluster"], timezone=value["timezone"], at=value["at"], nodes=nodes)

    @property
    def exclude(self) -> str | None:
        """The sbatch option that excludes the sick nodes."""
        return exclude_line(self.sick)
