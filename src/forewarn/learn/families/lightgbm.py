"""LightGBM: boosted trees that grow leaf by leaf."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from forewarn.learn.data.matrix import Sample
from forewarn.learn.families.base import FloatRange, IntRange, Params, Range, finite
from forewarn.learn.families.lightgbm_native import LightgbmTrees
from forewarn.learn.families.native import EarlyStopping, NativeFamily, leaf_size, places

if TYPE_CHECKING:
    import lightgbm


class LightgbmFamily(NativeFamily):
    """Trees grown where the gain is largest."""

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
        watch: EarlyStopping,
    ) -> tuple[bytes, int]:
        """Boost, round by round."""
        import lightgbm

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
        data = booster.model_to_string(num_iteration=kept).encode()
        return data, LightgbmTrees(data).rounds  # fewer, where no split was left

    def check_library(self) -> None:
        """As the contract says. What it raises it also prints, whatever its verbosity: to the log instead."""
        super().check_library()
        import lightgbm

        lightgbm.register_logger(logging.getLogger("lightgbm"))

    def trees(self, data: bytes, categorical: Collection[int], threads: int) -> LightgbmTrees:
        """As the contract says."""
        return LightgbmTrees(data, categorical, threads)

    def refusals(self) -> tuple[type[Exception], ...]:
        """As the contract says."""
        import lightgbm

        return (lightgbm.basic.LightGBMError,)


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
    """Make rows as LightGBM takes them."""
    import lightgbm

    return lightgbm.Dataset(
        finite(sample.matrix.values),
        sample.fails,
        weight=sample.weights,
        categorical_feature=places(sample.matrix.names, sample.matrix.categorical),
        params=dict(params),
        reference=reference,
    )


FAMILY = LightgbmFamily()
