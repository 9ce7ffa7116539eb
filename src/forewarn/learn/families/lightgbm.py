"""LightGBM: boosted trees that grow leaf by leaf."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from forewarn.learn.data.matrix import Sample
from forewarn.learn.families.base import FloatRange, IntRange, Params, Range, finite
from forewarn.learn.families.lightgbm_native import LightgbmTrees
from forewarn.learn.families.native import EarlyStopping, NativeFamily, categorical_places, leaf_size

if TYPE_CHECKING:
    import lightgbm


class LightgbmFamily(NativeFamily):
    """Boosted trees grown leaf by leaf, where the gain is largest."""

    name: ClassVar[str] = "lightgbm"
    file: ClassVar[str] = "model.txt"
    library: ClassVar[str] = "lightgbm"
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
        "learning_rate": FloatRange(0.015, 0.1, log=True),
        "num_leaves": IntRange(6, 120, log=True),
        "bagging_fraction": FloatRange(0.4, 0.95),
        "feature_fraction": FloatRange(0.1, 0.8),
        "min_data_in_leaf": IntRange(20, 1500, log=True),
        "lambda_l2": FloatRange(1.0, 500.0, log=True),
        "min_gain_to_split": FloatRange(1e-3, 10.0, log=True),
    }

    def boost(
        self,
        train: Sample,
        params: Params,
        seed: int,
        threads: int,
        validation: Sample | None,
        stopping: EarlyStopping,
    ) -> tuple[bytes, int]:
        """Boost round by round."""
        import lightgbm

        settings = options(params, seed, threads, len(train))
        rounds = int(settings.pop("rounds"))
        rows = dataset(train, settings)
        booster = lightgbm.Booster(settings, rows)
        if validation is not None:
            booster.add_valid(dataset(validation, settings, reference=rows), "validation")
        for round_number in range(1, rounds + 1):
            booster.update()
            if validation is not None and stopping.should_stop(round_number, booster.eval_valid()[0][2]):
                break
        best = stopping.best if validation is not None else rounds
        data = booster.model_to_string(num_iteration=best).encode()
        return data, LightgbmTrees(data).rounds  # fewer than `best` if no further split was possible

    def check_library(self) -> None:
        """Raise `MissingExtraError` if LightGBM cannot be imported; send its output to the log.

        LightGBM prints each error that it raises, whatever its verbosity.
        """
        super().check_library()
        import lightgbm

        lightgbm.register_logger(logging.getLogger("lightgbm"))

    def read_trees(self, data: bytes, categorical: Collection[int], threads: int) -> LightgbmTrees:
        """Read LightGBM's text format."""
        return LightgbmTrees(data, categorical, threads)

    def library_errors(self) -> tuple[type[Exception], ...]:
        """Return LightGBM's exception."""
        import lightgbm

        return (lightgbm.basic.LightGBMError,)


def options(params: Params, seed: int, threads: int, rows: int) -> dict[str, Any]:
    """Return the parameters of a fit under LightGBM's names."""
    least = max(int(leaf_size(params["min_data_in_leaf"], rows, 50)), 1)
    return {
        "objective": "binary",
        "metric": "binary_logloss",
        "verbosity": -1,
        "deterministic": True,
        "force_row_wise": True,  # else it chooses a method by speed, and may sum in another order next time
        "num_threads": threads,
        "seed": seed,
        **params,
        "min_data_in_leaf": least,
    }


def dataset(sample: Sample, params: Params, reference: lightgbm.Dataset | None = None) -> lightgbm.Dataset:
    """Convert a sample to LightGBM's form."""
    import lightgbm

    return lightgbm.Dataset(
        finite(sample.matrix.values),
        sample.fails,
        weight=sample.weights,
        categorical_feature=categorical_places(sample.matrix.names, sample.matrix.categorical),
        params=dict(params),
        reference=reference,
    )


FAMILY = LightgbmFamily()
