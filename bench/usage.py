"""Run time, memory, CPU efficiency and I/O foreseen, against what needs no model: docs/usage.md.

    python bench/usage.py ../shared/data/swf/*.swf.gz
    python bench/usage.py --scenario default --jobs 40000

Fitted on the first 80 % of a log's jobs in time, judged on the last 20 %, as a training does it.
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
from forewarn.learn.data.assembly import Assembly
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.split import split
from forewarn.learn.data.table import read_table
from forewarn.learn.heads.usage import Usage
from forewarn.learn.heads.usage.evaluation import evaluate_usage
from forewarn.learn.heads.usage.quantities import QUANTITIES
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.sources.base import SourceOptions, open_source
from forewarn.sources.simulator import simulate
from forewarn.store.opening import open_store

# Sandia-Ross's status is an exit code: without saying so its labels would be inverted.
STATUS = {"Sandia-Ross": "exit-code"}
RULES = {
    "asked": "what was asked",
    "last_two": "mean of the user's last two",
    "user_median": "user's median",
    "name_median": "median of the same name",
    "most_similar": "most similar request (DSN'20)",
}


def measured(
    spec: str, phase: str, feature_set: str, threads: int, only: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """Measure the figures of each quantity of a log."""
    status = next((how for name, how in STATUS.items() if name in spec), None)
    with TemporaryDirectory() as home, open_store(Config(home=Path(home))) as store:
        (cluster,) = ingest(store, open_source(spec, SourceOptions(status=status))).clusters
        review_missing_fields(store, [cluster])
        table = read_table(store, cluster, phase, POPULATIONS["papers"])
    parts = split(table)
    assembly = Assembly.fit(table, parts.train, feature_set)
    began = time.perf_counter()
    usage = Usage.fit(table, parts.cuts, assembly.features, seed=0, threads=threads, only=only)
    if usage is None:
        return
    seconds = time.perf_counter() - began
    one = table.rows(parts.test[:1])
    usage.forecast(one)
    began = time.perf_counter()
    for _ in range(20):
        usage.forecast(one)
    speed = (time.perf_counter() - began) / 20
    for name, found in evaluate_usage(usage, table, parts.cuts).items():
        yield {"log": cluster, "quantity": name, "seconds": seconds, "one_row": speed, **found}


def printed(found: dict[str, Any]) -> Iterator[str]:
    """Yield the rows of one quantity: the model's, then those of each rule."""
    model = found["model"] | {"pinball": found["pinball"], "coverage": found["coverage"]}
    rules = {RULES[name]: found["rules"][name] for name in RULES if name in found["rules"]}
    for who, row in {"**model**": model, **rules}.items():
        three = [
            " / ".join(f"{by:.3f}" for by in row[what].values()) if what in row else ""
            for what in ("pinball", "coverage")
        ]
        shares = [_number(row.get(what)) for what in ("median_relative_error", "mape", "underestimated")]
        others = [_number(row.get(what)) for what in ("mean_distance", "r2_log", "r2")]
        log, quantity = found["log"].split("-cln")[0], found["quantity"].replace("_", " ")
        count = f"{found['n']:,} ({found['cut_short']:,})"
        yield f"| {' | '.join([log, quantity, count, who, *shares, *others, *three])} |"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}" if abs(value) < 1000 else f"{value:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="*", type=Path)
    parser.add_argument("--scenario", help="one of the simulator's, instead of logs")
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--phase", default="submit")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default=",".join(QUANTITIES), help="run_time,memory,cpu_efficiency,io_rate")
    parser.add_argument("--json", type=Path, help="all figures, to this file")
    given = parser.parse_args()
    only = tuple(given.only.split(","))
    print("| log | what | jobs (cut short) | by | median rel. error | MAPE | underestimated ", end="")
    print("| mean distance | R² log | R² | pinball 10/50/90 | coverage 10/50/90 |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    all_found: list[dict[str, Any]] = []
    with TemporaryDirectory() as scratch:
        specs = [(f"swf:{log}", "swf") for log in given.logs]
        if given.scenario:
            simulate(given.scenario, given.jobs, 5, Path(scratch) / "jobs.parquet", "parquet")
            specs = [(f"parquet:{Path(scratch) / 'jobs.parquet'}", "generic")]
        for spec, feature_set in specs:
            for found in measured(spec, given.phase, feature_set, given.threads, only):
                all_found.append(found)
                for line in printed(found):
                    print(line, flush=True)
    for found in all_found:
        if found["quantity"] == "memory":
            print(f"\n{found['log']}: memory as a request, {found['enough']:.0%} for the model\n")
            print("| by | too little | not needed | times the need, median |\n|---|---|---|---|")
            for who, row in found["requests"].items():
                cells = (f"{row['short']:.1%}", f"{row['wasted']:.1%}", f"{row['times_needed']:.2f}")
                print(f"| {RULES.get(who, '**model**')} | {' | '.join(cells)} |")
    print("\n| log | limit reached | said | ROC-AUC | log loss | of the rate | fit, s | one job, ms |")
    print("|---|---|---|---|---|---|---|---|")
    for found in all_found:
        over = found.get("over_limit")
        if over:
            cells = (f"{over['came']:.1%}", f"{over['said']:.1%}", _number(over["roc_auc"]))
            more = (f"{over['log_loss']:.3f}", f"{over['log_loss_of_rate']:.3f}")
            cost = (f"{found['seconds']:.1f}", f"{1000 * found['one_row']:.2f}")
            print(f"| {found['log']} | {' | '.join((*cells, *more, *cost))} |")
    if given.json:
        given.json.write_text(json.dumps(all_found, indent=1))


if __name__ == "__main__":
    main()
