"""A trained model for other people's pipelines: frames of features in, probabilities out."""

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

_ALONE = "queue_running"  # missing only where nothing is known of other people's jobs


class Model:
    """A registered model, loaded when it is first asked. Any number of threads may ask.

    Frames are Polars, Arrow or pandas: one row a job, with the columns that `Site.features` gives. Columns in
    any order, more than are needed do no harm; missing values are null or NaN.
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
        """How good it was on later jobs when it was made."""
        return self._bundle.facts.metrics

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a frame must have: features, then categories as text."""
        assembly = self._bundle.assembly
        return (*assembly.features, *assembly.encoders.categories)

    def predict_proba(self, frame: Any) -> NDArray[np.float64]:
        """Compute calibrated probabilities, jobs × 2: of no failure, of failure, as scikit-learn has it.

        It is the model's own opinion. An assessment pools it with forecasts of run time and memory, which
        need more of a job than its features.
        """
        failure = self._bundle.probability(self._matrix(frame))
        return np.column_stack([1 - failure, failure])

    def contributions(self, frame: Any) -> pl.DataFrame:
        """Compute what each column brought to the log odds of failure, and `bias`, before calibration.

        A row adds up to the model's log odds (SHAP values of its trees).
        """
        matrix = self._matrix(frame)
        found = self._bundle.contributions(matrix)
        return pl.DataFrame(found, schema=[*matrix.names, "bias"], orient="row")

    @cached_property
    def _loaded(self) -> Bundle:
        from forewarn.learn.registry.bundle import Bundle

        return Bundle.load(self.folder)

    @property
    def _bundle(self) -> Bundle:
        with self._lock:  # two threads that ask first load it once
            return self._loaded

    def _matrix(self, frame: Any) -> Matrix:
        from forewarn.learn.data.table import JobTable

        assembly = self._bundle.assembly
        if assembly.profiles is not None:
            raise UsageError(f"{self.name}: profiles are features of this model, and no frame has them")
        known = as_polars(frame)
        if missing := [name for name in self.columns if name not in known.columns]:
            raise UsageError(f"{self.name}: the frame lacks {', '.join(missing)}; `Site.features` has them")
        if _ALONE not in known.columns:
            known = known.with_columns(pl.lit(0.0).alias(_ALONE))
        names = tuple(dict.fromkeys((*assembly.features, _ALONE)))
        values = known.select(pl.col(name).cast(pl.Float32).fill_null(np.nan) for name in names).to_numpy()
        nothing, never = np.full(known.height, np.nan), np.full(known.height, -1)
        about = known.select(pl.col(name).cast(pl.String) for name in assembly.encoders.categories)
        return assembly.matrix(
            JobTable(self.name.cluster, assembly.phase, "", names, values, nothing, never, never, about)
        )


def as_polars(frame: Any) -> pl.DataFrame:
    """Convert a frame of Polars, Arrow or pandas, or a mapping of columns.

    >>> as_polars({"a": [1, 2]}).height
    2
    """
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, pl.DataFrame):
        return frame
    try:
        if type(frame).__module__.partition(".")[0] == "pandas":
            # Column by column: as a whole it would need pyarrow.
            return pl.DataFrame({str(name): _column(frame[name]) for name in frame.columns})
        return pl.DataFrame(frame)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        what = f"{type(frame).__name__} ({error})"
        raise UsageError(f"not a frame of Polars, Arrow or pandas: {what}") from None


def _column(series: Any) -> pl.Series:
    """One column of pandas; its missing values, of which it has three kinds, as null."""
    missing = series.isna()
    if not missing.any():
        return pl.Series(series.to_numpy())
    return pl.Series([None if gone else value for value, gone in zip(series, missing, strict=True)])
