"""On the simulator: ROC-AUC at submit against the ceiling that the hidden truth allows.

    python bench/ceiling.py [--jobs 100000] [--trials 8]

The ceiling is a forecaster who knows everything that is decided when a job is submitted: whether, with the
request it has and on healthy nodes, it would complete. What chance brings later (a node that falls ill, an
outage, a user who cancels) nobody knows at submit.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from forewarn.config import Config
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import read_table
from forewarn.learn.evaluation.metrics import ScoredPredictions
from forewarn.learn.fitting.fit import fit
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.store.opening import open_store

SCENARIOS = ("default", "harsh", "drift")


def main(jobs: int, trials: int) -> None:
    print("| scenario | policy | n | base rate | online | model | ceiling | share of its lead |")
    print("|---|---|---|---|---|---|---|---|")
    for scenario in SCENARIOS:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            written = simulate(scenario, jobs, 5, folder / "jobs.parquet", "parquet")
            store = open_store(Config(home=folder / "home"))
            cluster = ingest(store, open_source(f"parquet:{folder / 'jobs.parquet'}")).clusters[0]
            review_missing_fields(store, [cluster])
            truth = pl.read_parquet(written.truth_path, columns=["job_id", "submit", "completes_elsewhere"])
            for policy in ("wasted", "papers"):
                table = read_table(store, cluster, "submit", POPULATIONS[policy])
                settings = FitSettings(trials=trials, families=("xgboost", "lightgbm", "online"))
                fitted = fit(table, settings, folder=folder / f"search-{policy}")
                rows = fitted.parts.test
                known = table.about[rows].join(
                    truth, on=["job_id", "submit"], how="left", maintain_order="left"
                )
                dooms = 1.0 - known["completes_elsewhere"].cast(pl.Float64).to_numpy()
                fails = table.fails[rows]
                online, model, ceiling = (
                    ScoredPredictions(fails, scores).roc_auc()
                    for scores in (
                        np.nan_to_num(table.column("online")[rows].astype(float)),
                        fitted.probabilities(table, rows),
                        dooms,
                    )
                )
                print(
                    f"| {scenario} | {policy} | {len(rows):,} | {fails.mean():.3f} | {online:.3f} "
                    f"| {model:.3f} | {ceiling:.3f} | {(model - 0.5) / (ceiling - 0.5):.0%} |",
                    flush=True,
                )
            store.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--trials", type=int, default=8)
    given = parser.parse_args()
    main(given.jobs, given.trials)
