"""How well failure is predicted on real logs, against the aims of the learning room and the simple rules.

    python bench/learning.py ../shared/data/swf [--log CTC] [--phases submit,start] [--retrain none,weekly]

What `forewarn bench` measures, with one search for the static and the weekly model of a phase. Finished
trials and the JSON of each log are kept in --keep: a run that was interrupted goes on from there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from forewarn.config import Config
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import read_table
from forewarn.learn.evaluation.benchmark import figures
from forewarn.learn.evaluation.prequential import predict_retrained, predict_static
from forewarn.learn.fitting.fit import fit
from forewarn.learn.fitting.fit_settings import ALL_FAMILIES, FitSettings
from forewarn.learn.fitting.train import search_key
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.sources.base import SourceOptions, open_source
from forewarn.store.opening import open_store

# Sandia-Ross's status is an exit code: without saying so its labels would be inverted.
STATUS = {"Sandia-Ross": "exit-code"}


def measured(
    log: Path, phases: list[str], retrain: list[str], settings: FitSettings, keep: Path
) -> Iterator[dict[str, Any]]:
    """Measure each phase and way of retraining."""
    status = next((how for name, how in STATUS.items() if log.name.startswith(name)), None)
    with TemporaryDirectory() as home, open_store(Config(home=Path(home))) as store:
        (cluster,) = ingest(store, open_source(f"swf:{log}", SourceOptions(status=status))).clusters
        review_missing_fields(store, [cluster])
        for phase in phases:
            began = time.perf_counter()
            table = read_table(store, cluster, phase, POPULATIONS["papers"])
            fitted = fit(table, settings, folder=keep / search_key(table, settings))
            for how in retrain:
                predictions = (
                    predict_static(table, fitted)
                    if how == "none"
                    else predict_retrained(table, fitted, settings)
                )
                found = figures(table, fitted, predictions, seed=settings.seed)
                seconds = round(time.perf_counter() - began, 1)
                yield {"log": log.name, "phase": phase, "retrain": how, "seconds": seconds, **found}


def row(found: dict[str, Any]) -> str:
    """Format a row of the table in docs/measurements.md."""
    at, half, ahead = found["at_validation"], found["at_0_5"], found["above_best_baseline"]
    low, high = ahead["interval"] or (float("nan"), float("nan"))
    roc, pr = ("[{:.3f}, {:.3f}]".format(*found["intervals"][name]) for name in ("roc_auc", "pr_auc"))
    cells = (
        *(found["log"].split(".")[0], found["phase"], found["retrain"], f"{found['n']:,}"),
        *(f"{found['base_rate']:.3f}", f"{found['roc_auc']:.4f} {roc}", f"{found['pr_auc']:.4f} {pr}"),
        *(
            " / ".join(f"{by[name]:.3f}" for name in ("accuracy", "precision", "recall", "f1"))
            for by in (at, half)
        ),
        f"{ahead['f1']:+.3f} [{low:+.3f}, {high:+.3f}] {ahead['baseline']}",
        f"{found['ece']:.3f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--log", default="", help="only logs whose name begins so")
    parser.add_argument("--phases", default="submit,start,posthoc")
    parser.add_argument("--retrain", default="none,weekly")
    parser.add_argument("--families", default=",".join(ALL_FAMILIES))
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path(".work/bench-learning"))
    given = parser.parse_args()
    settings = FitSettings(
        feature_set="swf", families=tuple(given.families.split(",")), trials=given.trials, seed=given.seed
    )
    given.keep.mkdir(parents=True, exist_ok=True)
    print("| log | phase | retrain | n | rate | ROC-AUC | PR-AUC | acc / P / R / F1 | at 0.5 ", end="")
    print("| F1 above rule | ECE |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for log in sorted(given.folder.glob(f"{given.log}*.swf*")):
        for found in measured(
            log, given.phases.split(","), given.retrain.split(","), settings, given.keep.resolve()
        ):
            name = (
                f"{log.name.split('.')[0]}-{found['phase']}-{found['retrain']}-{len(found['members'])}.json"
            )
            (given.keep / name).write_text(json.dumps(found, indent=1))
            print(row(found), flush=True)


if __name__ == "__main__":
    main()
