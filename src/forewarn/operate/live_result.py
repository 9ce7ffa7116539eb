"""The assessments of pending and running jobs, as a home or a service made them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from forewarn.assess.assessment import Assessment
from forewarn.errors import LearningError, RefusedError
from forewarn.sources.slurm.scheduler import UNKNOWN_JOB

Order = Literal["hours", "probability", "asked"]


@dataclass(frozen=True, slots=True)
class LiveResult:
    """The assessments of live jobs, and the ids of jobs that Slurm does not know."""

    assessments: tuple[Assessment, ...]
    unknown: tuple[str, ...] = ()
    unserved: str | None = None  # a cluster of these jobs without a model, where no job got a probability

    def check(self, *, needs_model: bool = False) -> None:
        """Raise the error of unknown jobs or of a missing model, after the caller has shown the rest."""
        if self.unknown:
            raise unknown_job(*self.unknown)
        if needs_model and self.unserved:
            raise LearningError(f"no model serves {self.unserved} yet; train one with `forewarn train`")

    def sorted(self, by: Order) -> list[Assessment]:
        """Sort the assessments, see `sorted_assessments`."""
        return sorted_assessments(self.assessments, by)


def sorted_assessments(assessments: Iterable[Assessment], by: Order = "hours") -> list[Assessment]:
    """Sort assessments by node hours at risk or by probability, the largest first; or keep their order.

    Those without the value come last.
    """
    in_order = list(assessments)
    if by == "probability":
        in_order.sort(key=lambda a: -a.failure.probability if a.failure else 1.0)
    elif by == "hours":
        in_order.sort(key=lambda a: 1.0 if a.hours_at_risk is None else -a.hours_at_risk)
    return in_order


def unknown_job(*job_ids: str) -> RefusedError:
    """Return the error for jobs that Slurm does not know."""
    which = f"job {job_ids[0]}" if len(job_ids) == 1 else f"jobs {', '.join(job_ids)}"
    return RefusedError(f"{which}: neither slurmctld nor accounting knows it", UNKNOWN_JOB)
