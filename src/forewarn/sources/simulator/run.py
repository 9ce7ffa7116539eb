"""`simulate`: a scenario in, files out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from forewarn.errors import UsageError
from forewarn.sources.simulator.scenario import load_scenario
from forewarn.sources.simulator.simulator import Simulator
from forewarn.sources.simulator.writers import WRITERS, ParquetWriter


@dataclass(frozen=True, slots=True)
class SimulationSummary:
    """What was simulated, and where it was written."""

    cluster: str
    timezone: str
    jobs: int
    observations: int
    outcomes: Mapping[str, int]
    causes: Mapping[str, int]
    path: Path
    truth_path: Path


def simulate(
    scenario: str | Path,
    jobs: int | None,
    seed: int,
    out: Path,
    format: str = "parquet",
    progress: Callable[[int], None] | None = None,
) -> SimulationSummary:
    """Write the jobs of a scenario to `out` and their truth beside it, to `<out>.truth.parquet`.

    `scenario` is the name of a scenario that ships with Forewarn, or a file; `jobs` defaults to its number.
    `progress` is called with the number of finished jobs.
    """
    if format not in WRITERS:
        raise UsageError(f"no format {format!r}; choose from {', '.join(WRITERS)}")
    if format == "parquet" and out.suffix == ".gz":
        raise UsageError(f"{out}: Parquet is compressed already and cannot be read gzipped; leave out .gz")
    loaded = load_scenario(scenario)
    simulator = Simulator(loaded, seed, loaded.cluster.jobs if jobs is None else jobs)
    truth_path = out.with_name(out.name + ".truth.parquet")
    outcomes, causes = Counter[str](), Counter[str]()
    done = observations = 0
    with ExitStack() as files:
        seen_file = files.enter_context(WRITERS[format](out, loaded))
        truth_file = files.enter_context(ParquetWriter(truth_path, loaded))
        for seen, truth in simulator:
            seen_file.write(seen)
            truth_file.write(truth)
            outcomes.update(_counts(seen["outcome"].drop_nulls()))
            causes.update(_counts(truth["cause"]))
            observations += seen.height
            done += truth.height
            if progress is not None:
                progress(done)
    return SimulationSummary(
        cluster=loaded.cluster.name,
        timezone=loaded.cluster.timezone,
        jobs=done,
        observations=observations,
        outcomes=dict(outcomes.most_common()),
        causes=dict(causes.most_common()),
        path=out,
        truth_path=truth_path,
    )


def _counts(values: pl.Series) -> dict[str, int]:
    return dict(values.value_counts().iter_rows())
