"""XGBoost: boosted trees by histograms."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import xgboost
from numpy.typing import NDArray
from xgboost.callback import TrainingCallback

from forewarn.learn.families.base import Params, Range, Real, Whole, finite
from forewarn.learn.families.native import NativeFamily, NativeModel, Values, Watch, leaf_size, shares
from forewarn.learn.matrix import Sample


class XgboostModel(NativeModel):
    """Margins come from the rows as they are: making a `DMatrix` of one row costs more than its trees."""

    family: ClassVar[str] = "xgboost"
    file: ClassVar[str] = "model.ubj"
    _set = 0  # the limit that the booster was given last

    def told(self, values: Values, threads: int) -> NDArray[Any]:
        """From the rows as they are."""
        self._limit(threads)
        made: NDArray[Any] = self.booster.inplace_predict(values, predict_type="margin")
        return made

    def shap(self, values: Values, threads: int) -> NDArray[Any]:
        """For these there is no such short way."""
        self._limit(threads)
        kinds = _kinds(self.names, self.categorical)
        rows = xgboost.DMatrix(values, feature_types=kinds, enable_categorical=True, nthread=threads)
        made: NDArray[Any] = self.booster.predict(rows, pred_contribs=True)
        return made

    def importance(self) -> NDArray[np.float64]:
        """By total gain."""
        gains = self.booster.get_score(importance_type="total_gain")
        return shares([gains.get(f"f{place}", 0.0) for place in range(len(self.names))])

    def write(self, path: Path) -> None:
        """As UBJSON."""
        self.booster.save_model(path)

    def _limit(self, threads: int) -> None:
        if threads != self._set:
            self.booster.set_param({"nthread": threads})
            self._set = threads


class Xgboost(NativeFamily):
    """Trees grown by depth."""

    name: ClassVar[str] = "xgboost"
    model: ClassVar[type[NativeModel]] = XgboostModel
    trouble: ClassVar[tuple[type[Exception], ...]] = (xgboost.core.XGBoostError,)
    # Strong regularisation: a failure's reasons drift, and what is learnt too exactly does not last. Fitted
    # on the first 60 % of a log and judged on the next 20 %, it is worth .005 of ROC-AUC on CTC-SP2, .004
    # on SDSC-SP2, and costs .002 on LANL-CM5: so the spaces of the boosted families reach far up.
    defaults: ClassVar[Params] = {
        "rounds": 600,
        "eta": 0.03,
        "max_depth": 5,
        "subsample": 0.6,
        "colsample_bytree": 0.25,
        "min_child_weight": 60.0,
        "lambda": 60.0,
        "max_bin": 128,
    }
    space: ClassVar[Mapping[str, Range]] = {
        "eta": Real(0.015, 0.1, log=True),
        "max_depth": Whole(3, 9),
        "subsample": Real(0.4, 0.95),
        "colsample_bytree": Real(0.1, 0.8),
        "min_child_weight": Real(2.0, 400.0, log=True),
        "lambda": Real(1.0, 500.0, log=True),
        "gamma": Real(1e-3, 10.0, log=True),
    }

    def boost(
        self, train: Sample, params: Params, seed: int, threads: int, validation: Sample | None, watch: Watch
    ) -> tuple[Any, int]:
        """Boosting, round by round."""
        own = {
            "objective": "binary:logistic",
            "eval_metric": "logloss",
            "tree_method": "hist",
            "verbosity": 0,
            "nthread": threads,
            "seed": seed,
            **params,
            # A row weighs at most a quarter here, where the model cannot tell.
            "min_child_weight": leaf_size(params["min_child_weight"], len(train), 200),
        }
        rounds = int(own.pop("rounds"))
        with _threads(threads):
            rows = _rows(train, own)
            if validation is None:
                return xgboost.train(own, rows, rounds), rounds
            held = [(_rows(validation, own, ref=rows), "validation")]
            watched = [_Watched(watch)]
            booster = xgboost.train(own, rows, rounds, evals=held, callbacks=watched, verbose_eval=False)
            return booster[: watch.best], watch.best

    def read(self, path: Path) -> Any:
        """From UBJSON."""
        return xgboost.Booster(model_file=path)


class _Watched(TrainingCallback):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
        return self._watch.stops(epoch + 1, evals_log["validation"]["logloss"][-1])


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """The limit for all of XGBoost in this thread: a `QuantileDMatrix` knows no other."""
    before = xgboost.get_config()["nthread"] or len(os.sched_getaffinity(0))  # 0: never set
    xgboost.set_config(nthread=count)
    try:
        yield
    finally:
        xgboost.set_config(nthread=before)


def _kinds(names: tuple[str, ...], categorical: frozenset[str]) -> list[str]:
    return ["c" if name in categorical else "q" for name in names]


def _rows(sample: Sample, params: Params, ref: Any = None) -> xgboost.QuantileDMatrix:
    return xgboost.QuantileDMatrix(
        finite(sample.matrix.values),
        sample.fails,
        weight=sample.weights,
        feature_types=_kinds(sample.matrix.names, sample.matrix.categorical),
        enable_categorical=True,
        max_bin=params.get("max_bin"),
        ref=ref,
    )


FAMILY = Xgboost()
