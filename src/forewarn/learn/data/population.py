"""Which jobs a model learns from and is judged on. The name is recorded with every model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.job.outcomes import POLICIES, FailurePolicy

TWO_MINUTES = 120


@dataclass(frozen=True, slots=True)
class Population:
    """A policy of what counts as failure, and which jobs do not take part.

    Jobs left out here are no examples, but they stay in the histories of those that come after: that a
    user's last job crashed at once is known, whether or not one wants to predict such crashes.
    """

    name: str
    policy: FailurePolicy
    never_started: bool = True  # whether jobs cancelled before they started take part
    shortest: int = 0  # seconds that a job must have run

    def of(self, about: pl.DataFrame) -> NDArray[np.bool_]:
        """Which of the jobs take part."""
        took_part = pl.lit(True)
        if not self.never_started:
            took_part &= pl.col("start").is_not_null()
        if self.shortest:
            took_part &= pl.col("run_time").fill_null(0) >= self.shortest
        return about.select(pl.repeat(True, pl.len()) & took_part).to_series().to_numpy().astype(bool)

    @property
    def in_words(self) -> str:
        """For a report.

        >>> POPULATIONS["papers-2min"].in_words
        'everything but completed is a failure; jobs that never started and those under 120 s left out'
        """
        what = {
            "papers": "everything but completed is a failure",
            "wasted": "failures are what wastes nodes: preempted and user-cancelled jobs are left out",
        }[self.policy.name]
        if self.shortest:
            return f"{what}; jobs that never started and those under {self.shortest} s left out"
        return what if self.never_started else f"{what}; jobs that never started left out"


POPULATIONS: Mapping[str, Population] = MappingProxyType(
    {
        p.name: p
        for name in ("wasted", "papers")
        for p in (
            Population(name, POLICIES[name]),
            Population(f"{name}-started", POLICIES[name], never_started=False),
            # papers/001 leaves out what ran under two minutes.
            Population(f"{name}-2min", POLICIES[name], never_started=False, shortest=TWO_MINUTES),
        )
    }
)
