"""CatBoost: boosted symmetric trees."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import catboost
import numpy as np
from numpy.typing import NDArray

from forewarn.learn.families.base import Params, Range, Real, Whole, finite
from forewarn.learn.families.native import NativeFamily, NativeModel, Values, Watch, places, shares
from forewarn.learn.matrix import Sample


class CatboostModel(NativeModel):
    """CatBoost gets the numbers first, then the categories: what it says by column is put back in order."""

    family: ClassVar[str] = "catboost"
    file: ClassVar[str] = "model.cbm"

    def told(self, values: Values, threads: int) -> NDArray[Any]:
        """Raw values of the formula."""
        pool = _pool(values, self.names, self.categorical)
        made: NDArray[Any] = self.booster.predict(pool, prediction_type="RawFormulaVal", thread_count=threads)
        return made

    def shap(self, values: Values, threads: int) -> NDArray[Any]:
        """In the order of the columns, bias last."""
        pool = _pool(values, self.names, self.categorical)
        made: NDArray[Any] = self.booster.get_feature_importance(
            pool, type="ShapValues", thread_count=threads
        )
        return made[:, [*self._back(), -1]]

    def importance(self) -> NDArray[np.float64]:
        """By how much predictions change with a column: CatBoost keeps no gains."""
        changes = self.booster.get_feature_importance(type="PredictionValuesChange")
        return shares(changes)[self._back()]

    def _back(self) -> NDArray[np.int64]:
        numbers, categories = _apart(self.names, self.categorical)
        return np.argsort(numbers + categories)

    def write(self, path: Path) -> None:
        """As CatBoost's own binary; without the time and the id in it, equal models are equal files."""
        about = self.booster.get_metadata()
        for name in ("train_finish_time", "model_guid"):
            if name in about:
                del about[name]
        self.booster.save_model(str(path))


class Catboost(NativeFamily):
    """Trees that ask the same on each level."""

    name: ClassVar[str] = "catboost"
    model: ClassVar[type[NativeModel]] = CatboostModel
    trouble: ClassVar[tuple[type[Exception], ...]] = (catboost.CatBoostError,)
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
        "learning_rate": Real(0.02, 0.15, log=True),
        "depth": Whole(4, 8),
        "l2_leaf_reg": Real(1.0, 300.0, log=True),
        "rsm": Real(0.1, 0.8),
        "subsample": Real(0.4, 0.95),
        "random_strength": Real(0.1, 10.0, log=True),
    }

    def boost(
        self, train: Sample, params: Params, seed: int, threads: int, validation: Sample | None, watch: Watch
    ) -> tuple[Any, int]:
        """Boosting, round by round."""
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
            return booster, rounds
        held, watched = _labelled(validation), _Watched(watch)
        booster.fit(_labelled(train), eval_set=held, use_best_model=True, callbacks=[watched])
        return booster, booster.tree_count_

    def read(self, path: Path) -> Any:
        """From CatBoost's own binary."""
        return catboost.CatBoost().load_model(str(path))


class _Watched:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def after_iteration(self, info: Any) -> bool:
        """Whether to go on."""
        return not self._watch.stops(info.iteration, info.metrics["validation"]["Logloss"][-1])


def _labelled(sample: Sample) -> catboost.Pool:
    matrix = sample.matrix
    values = finite(matrix.values)
    return _pool(values, matrix.names, matrix.categorical, label=sample.fails, weight=sample.weights)


def _apart(names: tuple[str, ...], categorical: frozenset[str]) -> tuple[list[int], list[int]]:
    categories = places(names, categorical)
    return [place for place in range(len(names)) if place not in categories], categories


def _pool(
    values: Values, names: tuple[str, ...], categorical: frozenset[str], **labels: NDArray[np.float64]
) -> catboost.Pool:
    """The quickest way in: numbers as they are, codes as text, of which -1 is the missing one."""
    numbers, categories = _apart(names, categorical)
    codes = np.nan_to_num(values[:, categories], nan=-1).astype(np.int64).astype("S").astype(object)
    return catboost.Pool(
        catboost.FeaturesData(
            num_feature_data=np.ascontiguousarray(values[:, numbers]) if numbers else None,
            cat_feature_data=codes if categories else None,
        ),
        **labels,
    )


FAMILY = Catboost()
