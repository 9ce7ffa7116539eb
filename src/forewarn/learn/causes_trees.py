"""Boosted trees that tell the causes of failures apart, from how often each cause is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import xgboost
from numpy.typing import NDArray

from forewarn.errors import BundleError, LearningError
from forewarn.learn.families.base import finite
from forewarn.learn.families.native import digest as file_digest
from forewarn.learn.matrix import Matrix

FILE = "causes.ubj"
ROUNDS, PATIENCE = 300, 15
_FEW = 1000  # rows up to which threads cost more than they bring
# Small and strongly regularised: failures are few, and their causes drift.
_PARAMS = {
    "objective": "multi:softprob",
    "eval_metric": "mlogloss",
    "tree_method": "hist",
    "verbosity": 0,
    "eta": 0.1,
    "max_depth": 4,
    "subsample": 0.7,
    "colsample_bytree": 0.4,
    "min_child_weight": 5.0,
    "lambda": 5.0,
    "max_bin": 128,
}
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Trees:
    """A multi-class booster that starts from the prior, so that one without rounds tells the prior."""

    booster: xgboost.Booster
    names: tuple[str, ...]
    threads: int = 1

    @classmethod
    def fit(
        cls,
        matrix: Matrix,
        codes: NDArray[np.int64],
        weights: Floats,
        prior: Floats,
        *,
        seed: int,
        threads: int,
        rounds: int = ROUNDS,
        held_out: tuple[Matrix, NDArray[np.int64], Floats] | None = None,
    ) -> tuple[Self, int]:
        """The trees and how many rounds of them; with `held_out` as many as serve it best, maybe none."""
        own: dict[str, Any] = {**_PARAMS, "num_class": len(prior), "nthread": threads, "seed": seed}
        rows = _rows(matrix, codes, weights, prior, threads)
        if held_out is None:
            return cls(xgboost.train(own, rows, rounds), matrix.names, threads), rounds
        later = _rows(*held_out, prior, threads, ref=rows)
        told: dict[str, Any] = {}
        booster = xgboost.train(
            own,
            rows,
            rounds,
            evals=[(later, "later")],
            early_stopping_rounds=PATIENCE,
            evals_result=told,
            verbose_eval=False,
        )
        losses = told["later"]["mlogloss"]
        best = int(np.argmin(losses)) + 1
        of_prior = -np.average(np.log(prior)[held_out[1]], weights=held_out[2])
        return cls(booster[:best], matrix.names, threads), best if losses[best - 1] < of_prior else 0

    def logs(self, matrix: Matrix, prior: Floats) -> Floats:
        """The logarithm of each class's probability, but for a constant by row."""
        if matrix.names != self.names:
            raise LearningError(
                f"the causes were learnt from {len(self.names)} columns, and {len(matrix.names)} others are "
                "given: take them by `matrix.columns(causes.names)`"
            )
        if not len(matrix.values):
            return np.empty((0, len(prior)))
        self.booster.set_param({"nthread": self.threads if len(matrix.values) > _FEW else 1})
        made = self.booster.inplace_predict(
            finite(matrix.values), predict_type="margin", base_margin=_margins(prior, len(matrix.values))
        )
        return np.asarray(made, np.float64).reshape(-1, len(prior))

    def save(self, folder: Path) -> str:
        """Write the native file; the digest by which it is known again."""
        self.booster.save_model(folder / FILE)
        return file_digest(folder / FILE)

    @classmethod
    def load(cls, folder: Path, names: tuple[str, ...], digest: str) -> Self:
        """What was saved there. Only a whole file reaches the library's reader, which may crash on others."""
        if file_digest(folder / FILE) != digest:
            raise BundleError(f"{folder / FILE} was changed or cut short: restore the bundle, or train again")
        try:
            booster = xgboost.Booster(model_file=folder / FILE)
        except xgboost.core.XGBoostError as error:
            raise BundleError(f"{folder / FILE} is no XGBoost model: {error}") from error
        if booster.num_features() != len(names):
            raise BundleError(f"{folder / FILE} takes {booster.num_features()} columns, not {len(names)}")
        return cls(booster, names)


def _rows(
    matrix: Matrix, codes: NDArray[np.int64], weights: Floats, prior: Floats, threads: int, ref: Any = None
) -> xgboost.QuantileDMatrix:
    return xgboost.QuantileDMatrix(
        finite(matrix.values),
        codes,
        weight=weights,
        base_margin=_margins(prior, len(codes)),
        feature_types=["c" if name in matrix.categorical else "q" for name in matrix.names],
        enable_categorical=True,
        max_bin=_PARAMS["max_bin"],
        nthread=threads,
        ref=ref,
    )


def _margins(prior: Floats, rows: int) -> NDArray[np.float32]:
    return np.tile(np.log(prior).astype(np.float32), (rows, 1))
