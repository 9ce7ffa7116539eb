"""The feature table: one row per job, as of its submit or start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.io.plugins import register_io_source

from forewarn.errors import ForewarnError, UsageError
from forewarn.features.batch import event_of, events_of, read_inputs, walk
from forewarn.features.inputs import Inputs
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel.state import new_state
from forewarn.files import whole_file
from forewarn.job.outcomes import POLICIES, FailurePolicy
from forewarn.job.phase import Phase
from forewarn.store.base import Store

Progress = Callable[[int, int], None]  # done, of how many


@dataclass(frozen=True, slots=True)
class FeatureTableSummary:
    """Counts of a written feature table."""

    path: Path
    jobs: int
    features: int


def schema_of(phase: str, feature_set: str) -> dict[str, pl.DataType]:
    """Return the columns of a table."""
    if feature_set not in L.FEATURE_SETS:
        raise UsageError(f"no feature set {feature_set!r}; choose from {', '.join(L.FEATURE_SETS)}")
    ids: dict[str, pl.DataType] = {"cluster": pl.String(), "job_id": pl.String(), "submit": pl.Int64()}
    return ids | {
        L.FEATURES[place].name: pl.Int64() if L.FEATURES[place].integer else pl.Float64()
        for place in L.selected(phase, feature_set)
    }


def to_frame(values: NDArray[np.float64], phase: str, feature_set: str) -> pl.DataFrame:
    """Convert rows of the kernel into columns, NaN to null."""
    places = L.selected(phase, feature_set)
    features = [L.FEATURES[place] for place in places]
    columns = [
        pl.Series(feature.name, column, nan_to_null=True)
        for feature, column in zip(features, np.ascontiguousarray(values.T[places]), strict=True)
    ]
    return pl.DataFrame(
        [c.cast(pl.Int64) if f.integer else c for f, c in zip(features, columns, strict=True)]
    )


def feature_frames(
    inputs: Inputs, phase: str, feature_set: str, progress: Progress | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the table in frames, in the order of the phase's moments."""
    schema_of(phase, feature_set)
    events = events_of(inputs)
    emitted = event_of(Phase(phase))
    total = int((events.kinds == emitted).sum())
    done = 0
    for _, jobs, values in walk(new_state(), inputs, events, emitted=emitted):
        done += len(jobs)
        if len(jobs):
            yield pl.concat([inputs.ids[jobs], to_frame(values, phase, feature_set)], how="horizontal")
        if progress:
            progress(done, total)


def write_features(
    store: Store,
    out: Path,
    *,
    cluster: str | None = None,
    phase: str = Phase.SUBMIT,
    feature_set: str = "generic",
    policy: FailurePolicy = POLICIES["wasted"],
    progress: Progress | None = None,
) -> FeatureTableSummary:
    """Write the table of one cluster, or of all, to a Parquet file, a chunk at a time.

    At phase ``start`` jobs that never started have no row: there is no such moment in their life.
    """
    schema = schema_of(phase, feature_set)
    clusters = [cluster] if cluster else sorted(store.clusters())
    rows = 0
    trouble: list[BaseException] = []

    def frames() -> Iterator[pl.DataFrame]:
        nonlocal rows
        for name in clusters:
            inputs = read_inputs(store, name, policy, phase=phase)
            for frame in feature_frames(inputs, phase, feature_set, progress):
                rows += frame.height
                yield frame

    def checked_frames(*_: object) -> Iterator[pl.DataFrame]:
        # Polars replaces an error raised in a source by its own: the original is kept here.
        try:
            yield from frames()
        except (Exception, KeyboardInterrupt) as error:
            trouble.append(error)
            raise

    try:
        with whole_file(out) as partial:
            register_io_source(checked_frames, schema=schema).sink_parquet(
                partial, compression="zstd", compression_level=1
            )
    except ForewarnError:
        if trouble:
            raise trouble[0] from None
        raise
    return FeatureTableSummary(out, rows, len(schema) - 3)
