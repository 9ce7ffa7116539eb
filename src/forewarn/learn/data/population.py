"""The populations: which jobs a model learns from and is judged on. A model records its population's name."""

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
    """The jobs that take part, and the failure policy by which they are labelled.

    A job outside the population is no example, but it stays in the history of later jobs: that a user's last
    job crashed at once is known, whether or not such crashes are to be predicted.
    """

    name: str
    policy: FailurePolicy
    never_started: bool = True  # whether jobs that never started take part
    shortest: int = 0  # seconds that a job must have run

    def mask(self, about: pl.DataFrame) -> NDArray[np.bool_]:
        """Return a mask of the jobs that take part."""
        takes_part = pl.lit(True)
        if not self.never_started:
            takes_part &= pl.col("start").is_not_null()
        if self.shortest:
            takes_part &= pl.col("run_time").fill_null(0) >= self.shortest
        return about.select(pl.repeat(True, pl.len()) & takes_part).to_series().to_numpy().astype(bool)

    @property
    def in_words(self) -> str:
        """The population in words, for a report.

        >>> POPULATIONS["papers-2min"].in_words
        'everything but completed is a failure; jobs that never started and those under 120 s left out'
        """
        failures = {
            "papers": "everything but completed is a failure",
            "wasted": "failures without preempted and user-cancelled jobs, which are left out",
        }[self.policy.name]
        if self.shortest:
            return f"{failures}; jobs that never started and those under {self.shortest} s left out"
        return failures if self.never_started else f"{failures}; jobs that never started left out"


POPULATIONS: Mapping[str, Population] = MappingProxyType(
    {
        population.name: population
        for name in ("wasted", "papers")
        for population in (
            Population(name, POLICIES[name]),
            Population(f"{name}-started", POLICIES[name], never_started=False),
            # papers/001 leaves out jobs that ran for less than two minutes.
            Population(f"{name}-2min", POLICIES[name], never_started=False, shortest=TWO_MINUTES),
        )
    }
)
