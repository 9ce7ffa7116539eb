"""What is said of a node: healthy, suspect or sick, the evidence in words, and until when it holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Health(StrEnum):
    """In the order in which it gets worse."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    SICK = "sick"

    @property
    def exit_code(self) -> int:
        """As monitoring counts them: 0 fine, 1 warning, 2 critical."""
        return list(Health).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvidence:
    """One reason, with what a person can check."""

    what: str
    health: Health  # that it speaks for
    source: str  # slurm, jobs, boots
    until: int | None = None  # when it expires if nothing new comes; None: as long as Slurm says so


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """One node as of one moment."""

    cluster: str
    node: str
    health: Health
    in_service: bool  # whether Slurm would start jobs there
    evidence: tuple[NodeEvidence, ...] = ()
    until: int | None = None  # when it counts as healthy again if nothing new comes
    state: str | None = None  # Slurm's words
    reason: str | None = None
    partitions: str | None = None
    jobs: int = 0  # that ended there, of the time looked at
    failed: int = 0
    expected: float | None = None  # failures, by what the same users' jobs did elsewhere
    q: float | None = None  # share of false alarms among nodes that look as bad (Benjamini-Hochberg)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)
