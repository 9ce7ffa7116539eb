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

from forewarn.config import Config
from forewarn.job.columns import to_records
from forewarn.job.record import Job
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import read_table
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.learn.fitting.train import train
from forewarn.learn.registry.registry import Registry
from forewarn.learn.registry.serving import Serving
from forewarn.operate.engine import Engine
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.operate.one_shot import refresh
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
        config = Config(home=home)
        simulated = simulate("small", jobs, 3, folder / "jobs.parquet", "parquet")
        machine = write_machine(load_scenario("small"), folder)
        with open_store(config) as store:
            for source in (f"parquet:{simulated.path}", *(f"slurmrestd:{part}" for part in machine)):
                review_missing_fields(store, ingest(store, open_source(source)).clusters)
            table = read_table(store, "small", "submit", POPULATIONS["wasted"])
            trained = train(table, FitSettings(trials=trials), searches=folder / "searches", at=1)
            trained.save(folder / "bundle")
            registry = Registry(home)
            version = registry.record(folder / "bundle")
            assert version
            if "champion" not in version.aliases:
                registry.promote(version.name, version.version)
            at = int(table.submit.max()) + 60
            last = [job for frame in store.scan(view="submit") for job in to_records(frame.tail(MANY), Job)]
            asked = [_asked(job, at, place) for place, job in enumerate(last)]
            refresh(config, "small", "wasted")
            engine = Engine(store, "small", Serving(home / "models"))
            begun = time.perf_counter()
            engine.follow(at)
            print(f"The engine starts from the saved state of {jobs:,} jobs in {_since(begun):.2f} s.\n")
            measure(engine, at, asked)
        check(config, folder, str(last[-1].user), str(last[-1].name), at)


def _since(begun: float) -> float:
    return time.perf_counter() - begun


def _asked(job: Job, at: int, place: int) -> Job:
    """Return the same request again, not submitted yet."""
    return replace(job, job_id=f"new{place}", submit=at, start=None, end=None, outcome=None, state=None)


def measure(engine: Engine, at: int, asked: list[Job]) -> None:
    with engine.open_assessor(at) as assessor:
        champion = assessor.champion("submit", "generic")
        assert champion
        bundle = champion.bundle
        matrices = [bundle.assembly.matrix(assessor.table("submit", [job])) for job in asked[:CALLS]]
        steps: dict[str, Callable[[int], object]] = {
            "probability of one row, the bare call": lambda i: bundle.probability(matrices[i]),
            "its exact contributions": lambda i: bundle.contributions(matrices[i]),
            "its features, from the state in memory": lambda i: assessor.table("submit", [asked[i]]),
            "in brief: features, run time, memory, failure by cause": lambda i: assessor.assess_all(
                [asked[i]]
            ),
            "all: with oddness, nodes, reasons, similar jobs, advice": lambda i: assessor.assess(asked[i]),
        }
        for step in steps.values():
            step(0)
        times: dict[str, list[float]] = {name: [] for name in steps}
        for place in range(CALLS):
            for name, step in steps.items():
                begun = time.perf_counter()
                step(place)
                times[name].append(_since(begun))
        bare = median(next(iter(times.values())))
        print("| one job | median, ms | times the bare call |")
        print("|---|---|---|")
        for name, taken in times.items():
            print(f"| {name} | {median(taken) * 1e3:.2f} | {median(taken) / bare:.1f} |")
        whole = []
        for _ in range(3):
            begun = time.perf_counter()
            assessments = assessor.assess_all(asked)
            whole.append(_since(begun))
        matrix = bundle.assembly.matrix(assessor.table("submit", asked))
        begun = time.perf_counter()
        bundle.probability(matrix)
        alone = _since(begun)
    best = min(whole[1:])
    count = len(assessments)
    print(f"\n{count:,} jobs at once, in brief: {count / best:,.0f} a second (the first time")
    print(f"{count / whole[0]:,.0f}); the bare call on the same rows: {count / alone:,.0f} a second,")
    print(f"{best / alone:.0f} times as many.")
    warned = np.mean([bool(one.failure and one.failure.warns) for one in assessments])
    print(f"Of these {warned:.0%} are warned of.")


def check(config: Config, folder: Path, user: str, name: str, at: int) -> None:
    """Time the whole process of `forewarn check`, with the nodes' health cached, and without."""
    script = folder / "job.sbatch"
    script.write_text(SCRIPT.format(name=name))
    program = Path(sys.executable).parent / "forewarn"
    command = [str(program), "check", str(script), "-u", user, "--at", str(at), "--no-test-only", "--json"]
    environment = os.environ | {"FOREWARN_HOME": str(config.home)}
    for judged in ("judged before", "not judged yet"):
        taken = []
        for _ in range(6):
            if judged == "not judged yet":
                with open_store(config) as store, store.writing() as writer:
                    writer.set_cursor("health small", "")
            begun = time.perf_counter()
            done = subprocess.run(command, env=environment, capture_output=True, check=False)
            taken.append(_since(begun))
            assert done.stdout, done.stderr
        print(
            f"\n`forewarn check`, the whole process, nodes {judged}: {median(taken[1:]):.2f} s "
            f"(best {min(taken):.2f} s)."
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--trials", type=int, default=4)
    args = parser.parse_args()
    main(args.jobs, args.trials)
