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
from forewarn.learn.families.native import EarlyStopping, NativeFamily, places

if TYPE_CHECKING:
    import catboost


class CatboostFamily(NativeFamily):
    """Trees that ask the same on each level."""

    name: ClassVar[str] = "catboost"
    file: ClassVar[str] = "model.cbm"
    library: ClassVar[str] = "catboost"
    # The last two are chosen by CatBoost from the number of rounds if left out: then a refit with the rounds
    # that a validation found best would be another model.
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
        watch: EarlyStopping,
    ) -> tuple[bytes, int]:
        """Boost, round by round."""
        import catboost

        own = {
            "loss_function": "Logloss",
            "boosting_type": "Plain",
            "bootstrap_type": "Bernoulli",
            "boost_from_average": True,
            "thread_count": threads,
            "random_seed": seed,
            "logging_level": "Silent",
            "allow_writing_files": False,  # else it leaves a folder `catboost_info` behind
            **params,
        }
        rounds = own["iterations"] = int(own.pop("rounds"))
        booster = catboost.CatBoost(own)
        if validation is None:
            booster.fit(_labelled(train))
            return _serialized(booster), rounds
        held, watched = _labelled(validation), _Watched(watch)
        booster.fit(_labelled(train), eval_set=held, use_best_model=True, callbacks=[watched])
        return _serialized(booster), booster.tree_count_

    def trees(self, data: bytes, categorical: Collection[int], threads: int) -> CatboostTrees:
        """As the contract says."""
        return CatboostTrees(data, categorical, threads)

    def refusals(self) -> tuple[type[Exception], ...]:
        """As the contract says."""
        import catboost

        return (catboost.CatBoostError,)


class _Watched:
    def __init__(self, watch: EarlyStopping) -> None:
        self._watch = watch

    def after_iteration(self, info: Any) -> bool:
        """Whether to go on."""
        return not self._watch.stops(info.iteration, info.metrics["validation"]["Logloss"][-1])


def _serialized(booster: catboost.CatBoost) -> bytes:
    """Write CatBoost's own binary; without the time and the id in it, equal models are equal files."""
    about = booster.get_metadata()
    for name in ("train_finish_time", "model_guid"):
        if name in about:
            del about[name]
    with TemporaryDirectory() as folder:
        path = Path(folder, CatboostFamily.file)
        booster.save_model(str(path))
        return path.read_bytes()


def _labelled(sample: Sample) -> catboost.Pool:
    """Hand rows over the quickest way: numbers as they are, codes as text, of which -1 is the missing one.

    The numbers come first, then the categories: `CatboostTrees` puts the columns back in order.
    """
    import catboost

    values, categories = finite(sample.matrix.values), places(sample.matrix.names, sample.matrix.categorical)
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
