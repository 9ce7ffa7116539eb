"""One assessment, with explanation and advice, against the bare call of the model; many; a whole check.

    python bench/assess.py [--jobs 20000] [--trials 4]

On a simulated cluster (`small`), with a model of all families. Medians of 50 calls, in turns.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from forewarn.assess.assessor import Assessor
from forewarn.assess.champions import Champions
from forewarn.config import Config
from forewarn.job.columns import to_records
from forewarn.job.outcomes import POLICIES
from forewarn.job.record import Job
from forewarn.learn.fitting import Settings
from forewarn.learn.population import POPULATIONS
from forewarn.learn.registry import Registry
from forewarn.learn.serving import Serving
from forewarn.learn.table import read_table
from forewarn.learn.train import train
from forewarn.operate.ingest import ingest, review
from forewarn.operate.once import refresh
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.sources.simulator.scenario import load_scenario
from forewarn.sources.simulator.writers.machine import write_machine
from forewarn.store.opening import open_store

CALLS, MANY = 50, 2000
SCRIPT = "#!/bin/sh\n#SBATCH -J {name} -p main -n 1 -c 4 --mem=8G -t 60\nhostname\n"


def main(jobs: int, trials: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        home = folder / "home"
        made = simulate("small", jobs, 3, folder / "jobs.parquet", "parquet")
        machine = write_machine(load_scenario("small"), folder)
        with open_store(Config(home=home)) as store:
            for source in (f"parquet:{made.path}", *(f"slurmrestd:{part}" for part in machine)):
                review(store, ingest(store, open_source(source)).clusters)
            table = read_table(store, "small", "submit", POPULATIONS["wasted"])
            trained = train(table, Settings(trials=trials), searches=folder / "searches", now=1)
            trained.save(folder / "bundle")
            registry = Registry(home)
            version = registry.record(folder / "bundle")
            assert version
            if "champion" not in version.aliases:
                registry.promote(version)
            refresh(Config(home=home), "small", "wasted")
            at = int(table.submit.max()) + 60
            last = [job for frame in store.scan(view="submit") for job in to_records(frame.tail(MANY), Job)]
            asked = [_asked(job, at, place) for place, job in enumerate(last)]
            champions = Champions("small", Serving(home / "models"))
            assessor = Assessor(store, Present(store, "small", at, POLICIES["wasted"]), champions)
            measure(assessor, champions, asked)
        check(home, folder, str(last[-1].user), str(last[-1].name), at)


def _asked(job: Job, at: int, place: int) -> Job:
    """The same request again, not submitted yet."""
    return replace(job, job_id=f"new{place}", submit=at, start=None, end=None, outcome=None, state=None)


def measure(assessor: Assessor, champions: Champions, asked: list[Job]) -> None:
    champion = champions.get("submit", "generic")
    assert champion
    bundle = champion.bundle
    rows = [assessor.table("submit", [job]) for job in asked[:CALLS]]
    matrices = [bundle.assembly.matrix(row) for row in rows]
    steps: dict[str, Callable[[int], object]] = {
        "probability of one row, the bare call": lambda i: bundle.probability(matrices[i]),
        "its exact contributions": lambda i: bundle.contributions(matrices[i]),
        "its features, read from the store": lambda i: assessor.table("submit", [asked[i]]),
        "in brief: features, run time, memory, failure by cause": lambda i: assessor.assess_all([asked[i]]),
        "all: with oddness, nodes, reasons, similar jobs, advice": lambda i: assessor.assess(asked[i]),
    }
    for step in steps.values():
        step(0)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for place in range(CALLS):
        for name, step in steps.items():
            begun = time.perf_counter()
            step(place)
            times[name].append(time.perf_counter() - begun)
    bare = median(next(iter(times.values())))
    print("| one job | median, ms | times the bare call |")
    print("|---|---|---|")
    for name, taken in times.items():
        print(f"| {name} | {median(taken) * 1e3:.1f} | {median(taken) / bare:.1f} |")
    begun = time.perf_counter()
    said = assessor.assess_all(asked)
    taken = time.perf_counter() - begun
    table = assessor.table("submit", asked)
    matrix = bundle.assembly.matrix(table)
    begun = time.perf_counter()
    bundle.probability(matrix)
    alone = time.perf_counter() - begun
    print(f"\n{len(said):,} jobs at once, in brief: {len(said) / taken:,.0f} a second; the bare call on the")
    print(f"same rows: {len(said) / alone:,.0f} a second, {taken / alone:.0f} times as many.")
    warned = np.mean([bool(one.failure and one.failure.warns) for one in said])
    print(f"Of these {warned:.0%} are warned of.")


def check(home: Path, folder: Path, user: str, name: str, at: int) -> None:
    script = folder / "job.sbatch"
    script.write_text(SCRIPT.format(name=name))
    program = Path(sys.executable).parent / "forewarn"
    command = [program, "check", script, "-u", user, "--at", str(at), "--no-test-only", "--json"]
    environment = os.environ | {"FOREWARN_HOME": str(home)}
    taken = []
    for _ in range(6):
        begun = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        taken.append(time.perf_counter() - begun)
        assert done.returncode < 3, done.stderr
    print(f"\n`forewarn check`, the whole process: {median(taken[1:]):.2f} s (best {min(taken):.2f} s).")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--trials", type=int, default=4)
    args = parser.parse_args()
    main(args.jobs, args.trials)
