"""Boosted trees that predict the cause of a failure, starting from the share of each cause."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import BundleError, LearningError
from forewarn.learn.data.matrix import Matrix
from forewarn.learn.families.base import finite
from forewarn.learn.families.native import digest as file_digest
from forewarn.learn.families.shared_library import LibraryError, import_package
from forewarn.learn.families.xgboost_native import XgboostTrees

if TYPE_CHECKING:
    import xgboost

FILE = "causes.ubj"
ROUNDS, PATIENCE = 300, 15
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
class CauseTrees:
    """A multi-class booster that starts from the prior, so that one without rounds predicts the prior."""

    trees: XgboostTrees
    names: tuple[str, ...]

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
        """Fit trees and return them with the number of rounds; with `held_out`, the best for it, maybe 0."""
        import_package("xgboost")
        import xgboost

        params: dict[str, Any] = {**_PARAMS, "num_class": len(prior), "nthread": threads, "seed": seed}
        train = _rows(matrix, codes, weights, prior, threads)
        if held_out is None:
            return cls(_native(xgboost.train(params, train, rounds), threads), matrix.names), rounds
        later = _rows(*held_out, prior, threads, ref=train)
        history: dict[str, Any] = {}
        booster = xgboost.train(
            params,
            train,
            rounds,
            evals=[(later, "later")],
            early_stopping_rounds=PATIENCE,
            evals_result=history,
            verbose_eval=False,
        )
        losses = history["later"]["mlogloss"]
        best = int(np.argmin(losses)) + 1
        prior_loss = -np.average(np.log(prior)[held_out[1]], weights=held_out[2])
        trees = cls(_native(booster[:best], threads), matrix.names)
        return trees, best if losses[best - 1] < prior_loss else 0

    def logs(self, matrix: Matrix, prior: Floats) -> Floats:
        """Compute the logarithm of each class's probability, up to a constant by row."""
        if matrix.names != self.names:
            raise LearningError(
                f"the causes were learnt from {len(self.names)} columns, but {len(matrix.names)} different "
                "ones were passed: select them by `matrix.columns(causes.names)`"
            )
        if not len(matrix.values):
            return np.empty((0, len(prior)))
        return np.log(prior) + self.trees.leaves(finite(matrix.values))

    def save(self, folder: Path) -> str:
        """Write the native file, and return its digest, by which `load` verifies it."""
        self.trees.save(folder / FILE)
        return file_digest((folder / FILE).read_bytes())

    @classmethod
    def load(cls, folder: Path, names: tuple[str, ...], digest: str) -> Self:
        """Load what was saved. Only an intact file reaches the library's reader: others may crash it."""
        data = (folder / FILE).read_bytes()
        if file_digest(data) != digest:
            raise BundleError(f"{folder / FILE} was changed or cut short: restore the bundle, or train again")
        try:
            trees = XgboostTrees(data)
        except LibraryError as error:
            raise BundleError(f"{folder / FILE} is no XGBoost model: {error}") from error
        if trees.features != len(names):
            raise BundleError(f"{folder / FILE} takes {trees.features} columns, not {len(names)}")
        return cls(trees, names)


def _native(booster: xgboost.Booster, threads: int) -> XgboostTrees:
    return XgboostTrees(bytes(booster.save_raw("ubj")), threads=threads)


def _rows(
    matrix: Matrix, codes: NDArray[np.int64], weights: Floats, prior: Floats, threads: int, ref: Any = None
) -> xgboost.QuantileDMatrix:
    import xgboost

    return xgboost.QuantileDMatrix(
        finite(matrix.values),
        codes,
        weight=weights,
        base_margin=np.tile(np.log(prior).astype(np.float32), (len(codes), 1)),
        feature_types=["c" if name in matrix.categorical else "q" for name in matrix.names],
        enable_categorical=True,
        max_bin=_PARAMS["max_bin"],
        nthread=threads,
        ref=ref,
    )
