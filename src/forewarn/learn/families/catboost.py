"""CatBoost: boosted symmetric trees."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from forewarn.learn.data.matrix import Sample
from forewarn.learn.families.base import FloatRange, IntRange, Params, Range, finite
from forewarn.learn.families.catboost_native import CatboostTrees
from forewarn.learn.families.native import EarlyStopping, NativeFamily, categorical_places

if TYPE_CHECKING:
    import catboost


class CatboostFamily(NativeFamily):
    """Boosted symmetric trees: all nodes of a level have the same split."""

    name: ClassVar[str] = "catboost"
    file: ClassVar[str] = "model.cbm"
    library: ClassVar[str] = "catboost"
    # CatBoost derives the last two from the number of rounds if they are not set: then a refit with the best
    # number of rounds of a validation would be a different model.
    defaults: ClassVar[Params] = {
        "rounds": 600,
        "learning_rate": 0.05,
        "depth": 6,
        "l2_leaf_reg": 20.0,
        "rsm": 0.3,
        "subsample": 0.7,
        "border_count": 128,
        "one_hot_max_size": 64,
        "leaf_estimation_iterations": 1,
        "max_ctr_complexity": 2,
    }
    space: ClassVar[Mapping[str, Range]] = {
        "learning_rate": FloatRange(0.02, 0.15, log=True),
        "depth": IntRange(4, 8),
        "l2_leaf_reg": FloatRange(1.0, 300.0, log=True),
        "rsm": FloatRange(0.1, 0.8),
        "subsample": FloatRange(0.4, 0.95),
        "random_strength": FloatRange(0.1, 10.0, log=True),
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
        import catboost

        settings = {
            "loss_function": "Logloss",
            "boosting_type": "Plain",
            "bootstrap_type": "Bernoulli",
            "boost_from_average": True,
            "thread_count": threads,
            "random_seed": seed,
            "logging_level": "Silent",
            "allow_writing_files": False,  # else it creates a folder `catboost_info`
            **params,
        }
        rounds = settings["iterations"] = int(settings.pop("rounds"))
        booster = catboost.CatBoost(settings)
        if validation is None:
            booster.fit(_pool(train))
            return _serialize(booster), rounds
        held_out, callback = _pool(validation), _StoppingCallback(stopping)
        booster.fit(_pool(train), eval_set=held_out, use_best_model=True, callbacks=[callback])
        return _serialize(booster), booster.tree_count_

    def read_trees(self, data: bytes, categorical: Collection[int], threads: int) -> CatboostTrees:
        """Read CatBoost's binary format."""
        return CatboostTrees(data, categorical, threads)

    def library_errors(self) -> tuple[type[Exception], ...]:
        """Return CatBoost's exception."""
        import catboost

        return (catboost.CatBoostError,)


class _StoppingCallback:
    def __init__(self, stopping: EarlyStopping) -> None:
        self._stopping = stopping

    def after_iteration(self, info: Any) -> bool:
        """Check whether to continue."""
        return not self._stopping.should_stop(info.iteration, info.metrics["validation"]["Logloss"][-1])


def _serialize(booster: catboost.CatBoost) -> bytes:
    """Return the model in CatBoost's binary format; without time and id, so that equal models are equal."""
    metadata = booster.get_metadata()
    for name in ("train_finish_time", "model_guid"):
        if name in metadata:
            del metadata[name]
    with TemporaryDirectory() as folder:
        path = Path(folder, CatboostFamily.file)
        booster.save_model(str(path))
        return path.read_bytes()


def _pool(sample: Sample) -> catboost.Pool:
    """Convert a sample to CatBoost's form the fastest way: numbers as they are, codes as text, -1 if missing.

    The numbers come first, then the categories: `CatboostTrees` restores the order of the columns.
    """
    import catboost

    values = finite(sample.matrix.values)
    categories = categorical_places(sample.matrix.names, sample.matrix.categorical)
    numbers = [place for place in range(values.shape[1]) if place not in categories]
    codes = np.nan_to_num(values[:, categories], nan=-1).astype(np.int64).astype("S").astype(object)
    return catboost.Pool(
        catboost.FeaturesData(
            num_feature_data=np.ascontiguousarray(values[:, numbers]) if numbers else None,
            cat_feature_data=codes if categories else None,
        ),
        label=sample.fails,
        weight=sample.weights,
    )


FAMILY = CatboostFamily()
