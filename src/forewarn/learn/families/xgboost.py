"""XGBoost: boosted trees on histograms."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from forewarn.learn.data.matrix import Sample
from forewarn.learn.families.base import FloatRange, IntRange, Params, Range, finite
from forewarn.learn.families.native import EarlyStopping, NativeFamily, leaf_size
from forewarn.learn.families.xgboost_native import XgboostTrees

if TYPE_CHECKING:
    import xgboost
    from xgboost.callback import TrainingCallback


class XgboostFamily(NativeFamily):
    """Boosted trees grown level by level."""

    name: ClassVar[str] = "xgboost"
    file: ClassVar[str] = "model.ubj"
    library: ClassVar[str] = "xgboost"
    # Strong regularisation: causes of failure change over time, and details that a model learns do not last.
    # Fitted on the first 60% of a log and judged on the next 20%, it gains 0.005 of ROC-AUC on CTC-SP2 and
    # 0.004 on SDSC-SP2, and loses 0.002 on LANL-CM5. So the search spaces reach far up.
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
        "eta": FloatRange(0.015, 0.1, log=True),
        "max_depth": IntRange(3, 9),
        "subsample": FloatRange(0.4, 0.95),
        "colsample_bytree": FloatRange(0.1, 0.8),
        "min_child_weight": FloatRange(2.0, 400.0, log=True),
        "lambda": FloatRange(1.0, 500.0, log=True),
        "gamma": FloatRange(1e-3, 10.0, log=True),
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
        import xgboost

        settings = {
            "objective": "binary:logistic",
            "eval_metric": "logloss",
            "tree_method": "hist",
            "verbosity": 0,
            "nthread": threads,
            "seed": seed,
            **params,
            # XGBoost counts hessians, p (1 - p): at most a quarter for a row.
            "min_child_weight": leaf_size(params["min_child_weight"], len(train), 200),
        }
        rounds = int(settings.pop("rounds"))
        with _threads(threads):
            rows = _rows(train, settings)
            if validation is None:
                return bytes(xgboost.train(settings, rows, rounds).save_raw("ubj")), rounds
            evals = [(_rows(validation, settings, ref=rows), "validation")]
            callbacks = [_stopping_callback(stopping)]
            booster = xgboost.train(
                settings, rows, rounds, evals=evals, callbacks=callbacks, verbose_eval=False
            )
            return bytes(booster[: stopping.best].save_raw("ubj")), stopping.best

    def read_trees(self, data: bytes, categorical: Collection[int], threads: int) -> XgboostTrees:
        """Read XGBoost's binary format (UBJSON)."""
        return XgboostTrees(data, categorical, threads)

    def library_errors(self) -> tuple[type[Exception], ...]:
        """Return XGBoost's exception."""
        import xgboost

        return (xgboost.core.XGBoostError,)


def _stopping_callback(stopping: EarlyStopping) -> TrainingCallback:
    from xgboost.callback import TrainingCallback

    class StoppingCallback(TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
            return stopping.should_stop(epoch + 1, evals_log["validation"]["logloss"][-1])

    return StoppingCallback()


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Limit XGBoost's threads for calls from this Python thread: `QuantileDMatrix` obeys no other limit."""
    import xgboost

    before = xgboost.get_config()["nthread"] or len(os.sched_getaffinity(0))  # 0: never set
    xgboost.set_config(nthread=count)
    try:
        yield
    finally:
        xgboost.set_config(nthread=before)


def _rows(sample: Sample, params: Params, ref: Any = None) -> xgboost.QuantileDMatrix:
    import xgboost

    names, categorical = sample.matrix.names, sample.matrix.categorical
    return xgboost.QuantileDMatrix(
        finite(sample.matrix.values),
        sample.fails,
        weight=sample.weights,
        feature_types=["c" if name in categorical else "q" for name in names],
        enable_categorical=True,
        max_bin=params.get("max_bin"),
        ref=ref,
    )


FAMILY = XgboostFamily()
