"""The health of a node: healthy, suspect or sick, its evidence, and until when it holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Health(StrEnum):
    """The health of a node, best first."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    SICK = "sick"

    @property
    def exit_code(self) -> int:
        """Exit code as monitoring plugins define it: 0 fine, 1 warning, 2 critical."""
        return list(Health).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvidence:
    """One piece of evidence on a node, which a person can check."""

    what: str  # in English (`wording.py`)
    health: Health  # that it is evidence for
    source: str  # slurm, jobs, boots
    until: int | None = None  # when it expires without new evidence; None: as long as Slurm reports the state


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """The health of one node at one moment."""

    cluster: str
    node: str
    health: Health
    in_service: bool  # whether Slurm would start jobs there
    evidence: tuple[NodeEvidence, ...] = ()
    until: int | None = None  # when it counts as healthy again without new evidence
    state: str | None = None  # as Slurm reports it
    reason: str | None = None
    partitions: str | None = None
    jobs: int = 0  # that ended there, in the period examined
    failed: int = 0
    expected: float | None = None  # failures, from the same users' jobs on other nodes
    q: float | None = None  # false discovery rate among nodes with as strong evidence (Benjamini-Hochberg)

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return asdict(self)
