"""The health of a node: healthy, suspect or sick, its evidence, and until when it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Self

from forewarn.assess.node_health import wording
from forewarn.job.units import compress_nodes


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
    jobs: int | None = 0  # that ended there, in the period examined; None: not shown
    failed: int | None = 0
    expected: float | None = None  # failures, from the same users' jobs on other nodes
    q: float | None = None  # false discovery rate among nodes with as strong evidence (Benjamini-Hochberg)

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return asdict(self)

    def without_counts(self) -> Self:
        """Leave out the numbers of jobs: the few users of a node are not to be known by them."""
        evidence = tuple(
            replace(one, what=wording.SOME_JOB_FAILURES) if one.source == "jobs" else one
            for one in self.evidence
        )
        return replace(self, evidence=evidence, jobs=None, failed=None, expected=None, q=None)


def exclude_line(nodes: Sequence[str]) -> str | None:
    """Return the option that excludes some nodes.

    >>> exclude_line(["n7", "n3", "n4"]), exclude_line([])
    ('--exclude=n[3-4,7]', None)
    """
    return f"--exclude={compress_nodes(nodes)}" if nodes else None
