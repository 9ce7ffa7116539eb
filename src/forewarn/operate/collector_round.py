"""What one round of a collector read, wrote and assessed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from forewarn.assess.assessment import Assessment
from forewarn.job.record import Job
from forewarn.operate.observe import ObservedCounts
from forewarn.store.base import Store


@dataclass(frozen=True, slots=True)
class RoundAssessments:
    """The assessments of live jobs after a round, and the errors of those that failed."""

    assessments: Sequence[Assessment] = ()
    troubles: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChanges:
    """The jobs that a round first found pending, running or ended; of a pending array one task."""

    pending: Sequence[Job] = ()
    running: Sequence[Job] = ()
    ended: Sequence[Job] = ()


# Passes on what a round brought, when its assessments are in the store (`operate/events/publishing.py`).
PublishRound = Callable[[Store, JobChanges], None]


class LiveAssessor(Protocol):
    """An assessor of live jobs that a collector calls (`operate/live_assessment.py`).

    A protocol, so that a collector without one need not import the learners.
    """

    def assess_round(self, at: int) -> RoundAssessments:
        """Assess the live jobs for which a round brought something new."""

    def follow_models(self) -> None:
        """Use promoted models and new thresholds, after a round whose jobs are not assessed yet."""


@dataclass(slots=True, kw_only=True)
class CollectorRound:
    """The counts of one round, and the load that it put on Slurm."""

    at: int
    new_jobs: int = 0
    changed_jobs: int = 0
    nodes_and_partitions: int = 0
    assessed: int = 0  # live jobs, when first observed or when something new became known
    warned: int = 0  # of these
    unknown_ends: int = 0  # jobs that ended unobserved, and whose outcome nobody knows
    bad: int = 0  # records that could not be read
    incomplete: int = 0  # rows of jobs whose own record is not in accounting yet: they are read again
    behind: bool = False  # there is more history than one round reads
    lag: int | None = None  # seconds from the cursor to now
    requests: int = 0
    received: int = 0  # bytes
    seconds: float = 0.0
    troubles: dict[str, str] = field(default_factory=dict)  # what could not be read, and why
    slurm_trouble: str | None = None  # why the controller did not answer
    notes: list[str] = field(default_factory=list)

    def add(self, counts: ObservedCounts) -> None:
        """Add the counts of one write."""
        self.new_jobs += counts.new_jobs
        self.changed_jobs += counts.changed_jobs
        self.nodes_and_partitions += counts.others
