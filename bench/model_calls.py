"""Each part of a loaded model on one row and on 2,000, as ratios to the ensemble's margins of the same run.

    python bench/model_calls.py HOME [--cluster small] [--calls 200]

HOME holds a history and a champion of submit, as `bench/assess.py` makes them. Medians, in turns; whatever
else the machine does, a ratio within one run stays comparable. Contributions of many rows are measured on
some of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from forewarn.config import Config
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import JobTable, read_table
from forewarn.learn.registry.bundle import Bundle
from forewarn.learn.registry.serving import ModelName, Serving
from forewarn.store.opening import open_store

MANY = 2000
EXPLAINED = 100  # rows of a batch whose contributions are asked for: a forest takes milliseconds for each
LEVELS = (0.1, 0.5, 0.9)


def main(home: Path, cluster: str, calls: int) -> None:
    folder = Serving(home / "models").champion(ModelName(cluster, "submit", "generic"))
    assert folder, "no champion of submit"
    begun = time.perf_counter()
    bundle = Bundle.load(folder)
    print(f"loaded in {time.perf_counter() - begun:.2f} s, libraries included\n")
    with open_store(Config(home=home)) as store:
        table = read_table(store, cluster, "submit", POPULATIONS["wasted"])
    last = table.rows(np.arange(len(table.values) - MANY, len(table.values)))
    now = replace(last, known_at=np.full(MANY, -1))  # as jobs of now: none has ended
    print("| part | one row, ms | times the margins | 2,000 rows, ms | times the margins | a row, µs |")
    print("|---|---|---|---|---|---|")
    one = measure(bundle, [now.rows(np.array([place])) for place in range(20)], calls)
    many = measure(bundle, [now], max(calls // 20, 3))
    for name, single in one.items():
        batch = many[name]
        print(
            f"| {name} | {single * 1e3:.3f} | {single / one['margins']:.2f} | {batch * 1e3:.1f} "
            f"| {batch / many['margins']:.2f} | {batch / MANY * 1e6:.0f} |"
        )


def measure(bundle: Bundle, tables: list[JobTable], calls: int) -> dict[str, float]:
    """Seconds of each part, medians."""
    matrices = [bundle.assembly.matrix(table) for table in tables]
    explained = [matrix.rows(slice(0, EXPLAINED)) for matrix in matrices]
    steps: dict[str, Callable[[int], object]] = {
        "margins": lambda i: bundle.margins(matrices[i]),
        "calibrated": lambda i: bundle.probability(matrices[i]),
        "assembly": lambda i: bundle.assembly.matrix(tables[i]),
    }
    for member in bundle.ensemble.members:
        own = [matrix.columns(member.model.names) for matrix in matrices]
        few = [matrix.columns(member.model.names) for matrix in explained]
        name, model = member.recipe.family, member.model
        steps[f"margins, {name}"] = lambda i, own=own, model=model: model.margins(own[i])  # type: ignore[misc]
        steps[f"contributions, {name}"] = lambda i, few=few, model=model: model.contributions(few[i])  # type: ignore[misc]
    steps["contributions"] = lambda i: bundle.contributions(explained[i])
    if (causes := bundle.causes) is not None:
        steps["causes, given failure"] = lambda i: causes.given_failure(matrices[i])
    if (usage := bundle.usage) is not None:
        forecasts = [usage.forecast(table) for table in tables]
        run_times = [forecast.run_time for forecast in forecasts if forecast.run_time is not None]
        limits = [table.column("time_limit").astype(np.float64) for table in tables]
        steps["usage, all quantities"] = lambda i: usage.forecast(tables[i])
        steps["usage, quantiles of run time"] = lambda i: run_times[i].quantiles(LEVELS)
        steps["usage, over limit"] = lambda i: forecasts[i].over_limit(limits[i])
        steps["risk"] = lambda i: bundle.risk(matrices[i], bundle.excess_of(forecasts[i], tables[i]))
    if (oddness := bundle.oddness) is not None:
        steps["oddness"] = lambda i: oddness.rarer_than(tables[i])
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for call in range(-1, calls):
        for name, step in steps.items():
            begun = time.perf_counter()
            step(call % len(tables))
            if call >= 0:
                taken[name].append(time.perf_counter() - begun)
    scale = {name: len(tables[0].values) / len(explained[0].values) for name in steps if "contrib" in name}
    return {name: median(times) * scale.get(name, 1.0) for name, times in taken.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--cluster", default="small")
    parser.add_argument("--calls", type=int, default=200)
    args = parser.parse_args()
    main(args.home, args.cluster, args.calls)
