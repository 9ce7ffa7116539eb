"""CPU efficiency and I/O as a report judges them, and as they are served: docs/usage.md.

    python bench/usage_served.py [--scenario default] [--seed 5] [--jobs 20000] [--moments 20]

A model learns from the first 80 % of a simulated history. Then, at some moments of the rest, a store holds
what had been seen by then, and the jobs submitted within ten minutes of the moment are assessed from it as
`forewarn check` does (served). The same jobs are foreseen from the table of the whole history (judged), as
the report does it, and from their own rows alone (without the user's earlier jobs), as it was served before.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.assess.champions import Champions
from forewarn.config import Config
from forewarn.features.snapshot import bring_up_to_date
from forewarn.job.columns import to_records
from forewarn.job.record import Job
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import JobTable, read_table
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.learn.fitting.train import train
from forewarn.learn.heads.usage.evaluation import evaluate_point
from forewarn.learn.heads.usage.quantities import Target, targets
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.operate.one_shot import stored_assessor
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.store.base import Store
from forewarn.store.opening import open_store

KNOWN = 0.8  # of the history
SOON = 600  # seconds after a moment in which jobs are asked about
QUANTITIES = ("cpu_efficiency", "io_rate")
Floats = NDArray[np.float64]


def main(scenario: str, seed: int, jobs: int, moments: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        simulate(scenario, jobs, seed, folder / "jobs.parquet", "parquet")
        seen = pl.read_parquet(folder / "jobs.parquet").with_columns(application=None, script_hash=None)
        asked = seen.group_by("job_id", "submit", maintain_order=True).first()
        submits = asked["submit"].sort().to_numpy()[int(KNOWN * asked.height) :]
        begin = int(submits[0])
        table = _whole(seen, folder)
        rows = {key: row for row, key in enumerate(table.about.select("job_id", "submit").iter_rows())}
        served, which = dict[str, list[float]](), list[int]()
        with open_store(Config(home=folder / "home")) as store:
            cluster = _add(store, seen.filter(pl.col("seen_at") < begin), folder)
            known = read_table(store, cluster, "submit", POPULATIONS["wasted"])
            settings = FitSettings(trials=1, families=("lightgbm", "online"), seed=seed)
            trained = train(known, settings, searches=folder / "searches", at=begin)
            trained.save(folder / "bundle")
            before = begin
            for moment in submits[np.linspace(0, len(submits) - 1, moments).astype(int)].tolist():
                _add(store, seen.filter(pl.col("seen_at").is_between(before, moment, closed="left")), folder)
                before = moment
                soon = asked.filter(pl.col("submit").is_between(moment, moment + SOON))
                keys = [key for key in soon.select("job_id", "submit").iter_rows() if key in rows]
                for key, values in zip(keys, _served(store, cluster, moment, soon, folder), strict=True):
                    which.append(rows[key])
                    for name, value in values.items():
                        served.setdefault(name, []).append(value)
        usage = trained.bundle.usage
        assert usage is not None
        chosen = np.array(which)
        judged = usage.forecast(table, chosen)
        alone = usage.forecast(replace(table.rows(chosen), known_at=np.full(len(chosen), -1)))
        print("| what | jobs | by | R² | mean distance | median rel. error |")
        print("|---|---|---|---|---|---|")
        for name in QUANTITIES:
            answers = {
                "judged, as the report does": getattr(judged, name).quantile(0.5),
                "**served**": np.array(served[name]),
                "without the user's earlier jobs": getattr(alone, name).quantile(0.5),
            }
            for line in _lines(name, targets(table)[name], chosen, answers):
                print(line, flush=True)


def _whole(seen: pl.DataFrame, folder: Path) -> JobTable:
    """Return the table of the whole history."""
    with open_store(Config(home=folder / "whole")) as store:
        cluster = _add(store, seen, folder)
        return read_table(store, cluster, "submit", POPULATIONS["wasted"])


def _add(store: Store, some: pl.DataFrame, folder: Path) -> str:
    """Put observations into a store; its cluster."""
    if some.height:
        some.write_parquet(folder / "part.parquet")
        review_missing_fields(
            store, ingest(store, open_source(f"parquet:{folder / 'part.parquet'}")).clusters
        )
    return next(iter(store.clusters()))


def _served(
    store: Store, cluster: str, moment: int, soon: pl.DataFrame, folder: Path
) -> Iterator[dict[str, float]]:
    """Yield the prediction that an assessment at a moment has for each job."""
    if not soon.height:
        return
    policy = POPULATIONS["wasted"].policy
    bring_up_to_date(store, cluster, policy)
    champions = Champions(cluster, None, (folder / "bundle",))
    assessor = stored_assessor(store, champions, moment)
    new = soon.with_columns(
        start=None, end=None, outcome=None, state=None, cpu_time=None, io_read=None, io_written=None
    )
    for assessment in assessor.assess_all(list(to_records(new, Job))):
        forecasts = {name: getattr(assessment.resources, name, None) for name in QUANTITIES}
        yield {name: one.median if one else float("nan") for name, one in forecasts.items()}


def _lines(name: str, target: Target, rows: NDArray[np.int64], answers: dict[str, Floats]) -> Iterator[str]:
    there = target.known[rows]
    truth = Target(target.value[rows][there], target.exact[rows][there])
    for who, predictions in answers.items():
        found = evaluate_point(name, predictions[there], truth)
        figures = (found.get(what) for what in ("r2", "mean_distance", "median_relative_error"))
        cells = ("n/a" if figure is None else f"{figure:.3f}" for figure in figures)
        yield f"| {name.replace('_', ' ')} | {int(there.sum()):,} | {who} | {' | '.join(cells)} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", default="default")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--moments", type=int, default=20)
    given = parser.parse_args()
    main(given.scenario, given.seed, given.jobs, given.moments)
