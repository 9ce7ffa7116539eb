"""What a search costs: its wall clock against its trials' own seconds over the cores, and growth by jobs.

    python bench/search.py swf:../shared/data/swf/SDSC-BLUE-2000-4.2-cln.swf.gz
    python bench/search.py swf:LOG --trials 4 --shares 0.1      # a quick look

Ray's start is given apart. Shares are the first so many of the log's jobs in order of submit. Trials run one
thread each: on a machine that does other work beside, both sides of the ratio grow.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.config import Config
from forewarn.learn.data.matrix import Matrix, Sample
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.selection import rankings
from forewarn.learn.data.split import settled_rows, split
from forewarn.learn.data.table import JobTable, read_table
from forewarn.learn.families import FAMILIES
from forewarn.learn.search.search import SearchSettings, search
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.sources.base import open_source
from forewarn.store.opening import open_store


def submitted(source: str, home: Path) -> JobTable:
    """Return the log's jobs at submit."""
    store = open_store(Config(home=home))
    report = ingest(store, open_source(source))
    review_missing_fields(store, report.clusters)
    return read_table(store, report.clusters[0], "submit", POPULATIONS["papers"])


def sample(table: JobTable, rows: NDArray[np.int64], cut: int) -> Sample:
    known = settled_rows(table, rows, cut)
    return Sample(Matrix(table.values[known], table.names), table.fails[known], np.ones(len(known)))


def measured(table: JobTable, settings: SearchSettings) -> dict[str, Any]:
    parts = split(table)
    train = sample(table, parts.train, parts.cuts[0])
    validation = sample(table, parts.search, parts.cuts[1])
    ranked = rankings(train, seed=settings.seed, threads=settings.threads)
    found = search(train, validation, ranked, settings)
    own = sum(trial.seconds for trial in found.trials)
    best = found.best()
    assert best is not None
    return {
        "train_jobs": len(train),
        "features": len(table.names),
        "trials": len(found.trials),
        "stopped": sum(trial.status == "stopped" for trial in found.trials),
        "failed": [f"{trial.family}: {trial.error}" for trial in found.trials if trial.status == "failed"],
        "start_seconds": round(found.start_seconds, 2),
        "wall_seconds": round(found.wall_seconds, 2),
        "trial_seconds": round(own, 2),
        "ratio": round(found.wall_seconds / (own / settings.threads), 3),
        "best": f"{best.family}: log loss {best.loss:.4f}, ROC-AUC {best.roc_auc:.4f}",
        "seconds_by_family": {
            name: round(float(np.median([t.seconds for t in found.trials if t.family == name] or [0])), 2)
            for name in settings.families
        },
    }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    asked.add_argument("source")
    asked.add_argument("--trials", type=int, default=20)
    asked.add_argument("--shares", type=float, nargs="+", default=[0.25, 0.5, 1.0])
    asked.add_argument("--families", nargs="+", default=list(FAMILIES))
    asked.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    given = asked.parse_args()
    with TemporaryDirectory() as folder:
        table = submitted(given.source, Path(folder, "home"))
        for share in given.shares:
            first = np.arange(round(share * len(table.fails)))
            settings = SearchSettings(
                folder=Path(folder, f"search-{share}"),
                families=tuple(given.families),
                trials=given.trials,
                threads=given.threads,
            )
            print(json.dumps({"share": share, **measured(table.rows(first), settings)}), flush=True)


if __name__ == "__main__":
    main()
