"""The result of a fit: a model, and every decision made before the test block was used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.assembly import Assembly
from forewarn.learn.data.selection import Rankings
from forewarn.learn.data.split import Split
from forewarn.learn.data.table import JobTable
from forewarn.learn.fitting.abstention import Abstention
from forewarn.learn.fitting.calibration import Calibration
from forewarn.learn.fitting.ensemble import Ensemble
from forewarn.learn.fitting.fallback import Recipes, find_rule
from forewarn.learn.fitting.pooling import Pooling, Risk, RiskInputs
from forewarn.learn.fitting.thresholds import Threshold
from forewarn.learn.heads.profiles import Profiles
from forewarn.learn.search.search import SearchResult


@dataclass(frozen=True, slots=True)
class FitResult:
    """A fitted model with the decisions that led to it."""

    parts: Split
    learnt_rows: NDArray[np.int64]  # of the last fit
    profiles: Profiles
    assembly: Assembly
    rankings: Rankings
    search: SearchResult | None
    recipes: Recipes
    ensemble: Ensemble
    calibration: Calibration  # of the ensemble's margins
    risk_inputs: RiskInputs  # causes and forecasts
    pooling: Pooling | None  # the weight of forecasts; None: the ensemble alone states the risk
    thresholds: Mapping[str, Threshold]  # on the stated risk; the first is in force
    abstention: Abstention
    held_out: NDArray[np.int64]  # rows of the block `calibrate`
    held_out_log_odds: NDArray[np.float64]  # of those rows by the second fit, not calibrated
    left_out: NDArray[np.int64]  # rows that active learning did not use
    active: Mapping[str, Any] | None

    @property
    def rule(self) -> str | None:
        """Return the simple rule that serves in the model's place, if one does."""
        return find_rule(recipe for _, recipe in self.recipes)

    def abstains(self, table: JobTable, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Find the jobs about which the model has too little evidence."""
        return self.abstention.abstains(columns_of_rows(table, rows))

    @property
    def threshold(self) -> Threshold:
        """Return the threshold in force."""
        return next(iter(self.thresholds.values()))

    @property
    def last_calibration(self) -> Calibration:
        """Return the calibration that turns `log_odds` into stated probabilities."""
        return self.pooling.calibration if self.pooling else self.calibration

    def log_odds(
        self, table: JobTable, rows: NDArray[np.int64], ensemble: Ensemble | None = None
    ) -> NDArray[np.float64]:
        """Compute log odds of failure before the last calibration, with another ensemble if one is passed."""
        matrix = self.assembly.matrix(table, rows)
        margins = (ensemble or self.ensemble).margins(matrix)
        if self.pooling is None:
            return margins
        causes = self.risk_inputs.causes
        given_failure, excess = causes.given_failure(matrix), self.risk_inputs.excess(table, rows)
        model_p = self.pooling.with_record(self.calibration(margins), matrix)
        return self.pooling.log_odds(model_p, given_failure, causes.causes, excess)

    def risk(self, table: JobTable, rows: NDArray[np.int64]) -> Risk:
        """Compute the stated risk of some jobs: the one that is served, and evaluated."""
        matrix = self.assembly.matrix(table, rows)
        model_p = self.calibration(self.ensemble.margins(matrix))
        excess = self.risk_inputs.excess(table, rows) if self.pooling else {}
        return self.risk_inputs.risk(model_p, matrix, excess, self.pooling)

    def cause_shares(self, table: JobTable, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute the share of each cause in the stated risk of some jobs (job × cause)."""
        stated = self.risk(table, rows)
        return np.asarray(stated.by_cause / stated.probability[:, None])

    def probabilities(self, table: JobTable, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute the stated probability of failure of some jobs."""
        return self.risk(table, rows).probability


def columns_of_rows(table: JobTable, rows: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
    """Return the features of some jobs, by name."""
    return {name: table.column(name)[rows] for name in table.names}
