"""LightGBM: boosted trees that grow leaf by leaf."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import lightgbm
import numpy as np
from numpy.typing import NDArray

from forewarn.learn.families.base import Params, Range, Real, Whole, finite
from forewarn.learn.families.native import NativeFamily, NativeModel, Values, Watch, leaf_size, places, shares
from forewarn.learn.matrix import Sample

# What it raises it also prints, whatever its verbosity: to the log instead.
lightgbm.register_logger(logging.getLogger("lightgbm"))


class LightgbmModel(NativeModel):
    """Predicts in 64 bits."""

    family: ClassVar[str] = "lightgbm"
    file: ClassVar[str] = "model.txt"

    def told(self, values: Values, threads: int) -> NDArray[Any]:
        """Raw scores."""
        made: NDArray[Any] = self.booster.predict(values, raw_score=True, num_threads=threads)
        return made

    def shap(self, values: Values, threads: int) -> NDArray[Any]:
        """Bias last, as the contract has it."""
        made: NDArray[Any] = self.booster.predict(values, pred_contrib=True, num_threads=threads)
        return made

    def importance(self) -> NDArray[np.float64]:
        """By total gain."""
        return shares(self.booster.feature_importance("gain"))

    def write(self, path: Path) -> None:
        """As LightGBM's own text."""
        self.booster.save_model(path)


class Lightgbm(NativeFamily):
    """Trees grown where the gain is largest."""

    name: ClassVar[str] = "lightgbm"
    model: ClassVar[type[NativeModel]] = LightgbmModel
    trouble: ClassVar[tuple[type[Exception], ...]] = (lightgbm.basic.LightGBMError,)
    defaults: ClassVar[Params] = {
        "rounds": 600,
        "learning_rate": 0.03,
        "num_leaves": 24,
        "bagging_fraction": 0.6,
        "bagging_freq": 1,
        "feature_fraction": 0.3,
        "min_data_in_leaf": 300,
        "lambda_l2": 100.0,
        "max_bin": 127,
    }
    space: ClassVar[Mapping[str, Range]] = {
        "learning_rate": Real(0.015, 0.1, log=True),
        "num_leaves": Whole(6, 120, log=True),
        "bagging_fraction": Real(0.4, 0.95),
        "feature_fraction": Real(0.1, 0.8),
        "min_data_in_leaf": Whole(20, 1500, log=True),
        "lambda_l2": Real(1.0, 500.0, log=True),
        "min_gain_to_split": Real(1e-3, 10.0, log=True),
    }

    def boost(
        self, train: Sample, params: Params, seed: int, threads: int, validation: Sample | None, watch: Watch
    ) -> tuple[Any, int]:
        """Boosting, round by round."""
        own = options(params, seed, threads, len(train))
        rounds = int(own.pop("rounds"))
        rows = dataset(train, own)
        booster = lightgbm.Booster(own, rows)
        if validation is not None:
            booster.add_valid(dataset(validation, own, reference=rows), "validation")
        for made in range(1, rounds + 1):
            booster.update()
            if validation is not None and watch.stops(made, booster.eval_valid()[0][2]):
                break
        kept = watch.best if validation is not None else rounds
        whole = parsed(booster, kept)
        return whole, whole.num_trees()  # fewer, where no split was left

    def read(self, path: Path) -> Any:
        """From LightGBM's own text."""
        return lightgbm.Booster(model_file=path)


def options(params: Params, seed: int, threads: int, rows: int) -> dict[str, Any]:
    """What LightGBM is told."""
    least = max(int(leaf_size(params["min_data_in_leaf"], rows, 50)), 1)
    return {
        "objective": "binary",
        "metric": "binary_logloss",
        "verbosity": -1,
        "deterministic": True,
        "force_row_wise": True,  # else it times both ways, and sums in another order next time
        "num_threads": threads,
        "seed": seed,
        **params,
        "min_data_in_leaf": least,
    }


def dataset(sample: Sample, params: Params, reference: lightgbm.Dataset | None = None) -> lightgbm.Dataset:
    """Rows as LightGBM takes them."""
    return lightgbm.Dataset(
        finite(sample.matrix.values),
        sample.fails,
        weight=sample.weights,
        categorical_feature=places(sample.matrix.names, sample.matrix.categorical),
        params=dict(params),
        reference=reference,
    )


def parsed(booster: lightgbm.Booster, rounds: int) -> lightgbm.Booster:
    """The first rounds of a booster, from their text: without its train rows, and just as after a load."""
    return lightgbm.Booster(model_str=booster.model_to_string(num_iteration=rounds))


FAMILY = Lightgbm()
