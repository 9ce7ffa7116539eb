"""A registered model to predict with in Python: frames of features in, probabilities out."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from forewarn.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from forewarn.learn.data.matrix import Matrix
    from forewarn.learn.registry.bundle import Bundle
    from forewarn.learn.registry.serving import ModelName

_ALONE = "queue_running"  # missing only in a history of one user's jobs


class Model:
    """A registered model, loaded at its first use. Any number of threads may use it.

    Frames are of Polars, Arrow or pandas, with one row per job and the columns that `Site.features` returns,
    in any order; further columns are ignored. Missing values are null or NaN.
    """

    def __init__(self, folder: Path, name: ModelName, version: int | None) -> None:
        self.folder = folder
        self.name = name
        self.version = version
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Model {self.name} version {self.version}>"

    @property
    def metrics(self) -> Mapping[str, float]:
        """The figures of its evaluation on later jobs, after training."""
        return self._bundle.facts.metrics

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a frame must have: features, then categories as text."""
        assembly = self._bundle.assembly
        return (*assembly.features, *assembly.encoders.categories)

    def predict_proba(self, frame: Any) -> NDArray[np.float64]:
        """Compute calibrated probabilities, jobs × 2: of no failure and of failure, as in scikit-learn.

        This is the model alone. An assessment pools it with predictions of run time and memory, which need
        more of a job than its features.
        """
        failure = self._bundle.probability(self._matrix(frame))
        return np.column_stack([1 - failure, failure])

    def contributions(self, frame: Any) -> pl.DataFrame:
        """Compute the contribution of each column to the log odds of failure, and `bias`, before calibration.

        They are SHAP values: each row sums to the model's log odds.
        """
        matrix = self._matrix(frame)
        values = self._bundle.contributions(matrix)
        return pl.DataFrame(values, schema=[*matrix.names, "bias"], orient="row")

    @cached_property
    def _loaded(self) -> Bundle:
        from forewarn.learn.registry.bundle import Bundle

        return Bundle.load(self.folder)

    @property
    def _bundle(self) -> Bundle:
        with self._lock:  # load it once, though two threads use it first
            return self._loaded

    def _matrix(self, frame: Any) -> Matrix:
        from forewarn.learn.data.table import JobTable

        assembly = self._bundle.assembly
        if assembly.profiles is not None:
            raise UsageError(f"{self.name}: this model uses profiles as features, which no frame contains")
        jobs = as_polars(frame)
        if missing := [name for name in self.columns if name not in jobs.columns]:
            raise UsageError(
                f"{self.name}: the frame lacks {', '.join(missing)}; `Site.features` returns them"
            )
        if _ALONE not in jobs.columns:
            jobs = jobs.with_columns(pl.lit(0.0).alias(_ALONE))
        names = tuple(dict.fromkeys((*assembly.features, _ALONE)))
        values = jobs.select(pl.col(name).cast(pl.Float32).fill_null(np.nan) for name in names).to_numpy()
        no_labels, no_times = np.full(jobs.height, np.nan), np.full(jobs.height, -1)
        categories = jobs.select(pl.col(name).cast(pl.String) for name in assembly.encoders.categories)
        return assembly.matrix(
            JobTable(
                self.name.cluster,
                assembly.phase,
                "",
                names,
                values,
                no_labels,
                no_times,
                no_times,
                categories,
            )
        )


def as_polars(frame: Any) -> pl.DataFrame:
    """Convert a frame of Polars, Arrow or pandas, or a mapping of columns, to Polars.

    >>> as_polars({"a": [1, 2]}).height
    2
    """
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, pl.DataFrame):
        return frame
    try:
        if type(frame).__module__.partition(".")[0] == "pandas":
            # Column by column, as converting the whole frame needs pyarrow.
            return pl.DataFrame({str(name): _column(frame[name]) for name in frame.columns})
        return pl.DataFrame(frame)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise UsageError(
            f"not a frame of Polars, Arrow or pandas: {type(frame).__name__} ({error})"
        ) from None


def _column(series: Any) -> pl.Series:
    """Convert a column of pandas; its missing values (None, NaN, NA) become null."""
    missing = series.isna()
    if not missing.any():
        return pl.Series(series.to_numpy())
    return pl.Series(
        [None if is_missing else value for value, is_missing in zip(series, missing, strict=True)]
    )
