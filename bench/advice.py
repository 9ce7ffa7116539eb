"""Advice, followed: what becomes of simulated jobs when the first advice is taken, by their hidden truth.

    python bench/advice.py [--scenarios default,harsh,drift] [--seeds 11,12] [--jobs 40000] [--sample 2000]

A model learns from the first part of a simulated history. Of the jobs of the last part, which it has not
seen, as many that would fail as asked for are given advice at their submit, and as many that would go well.
The simulator then says what would have become of each with the request advised. An oracle with the same knobs
(memory and time up to what the partition has, sick nodes left out) says what could have been averted at all.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from forewarn.assess.advice import Situation, advise
from forewarn.assess.assessment import Advice, Failure
from forewarn.assess.machine import Machine
from forewarn.assess.needs import ForeseenNeeds
from forewarn.assess.oddness.machine import limit, places
from forewarn.assess.routing import by_cause
from forewarn.job.columns import to_records
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job
from forewarn.job.units import parse_duration, parse_memory
from forewarn.learn.causes import Causes
from forewarn.learn.fitting import Settings, fit
from forewarn.learn.population import POPULATIONS
from forewarn.learn.table import Table, read_table
from forewarn.learn.usage.usage import Usage
from forewarn.operate.ingest import ingest, review
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.sources.simulator.scenario import load_scenario
from forewarn.sources.simulator.truth import replay
from forewarn.sources.simulator.writers.machine import write_machine
from forewarn.store.base import Store
from forewarn.store.embedded import open_store

FAILING = ("memory", "time", "script", "input", "node", "file_system")


def main(scenarios: list[str], seeds: list[int], jobs: int, sample: int) -> None:
    print("| scenario, seed | would fail | advised | averted | oracle averts | share | memory / need | "
          "time / need | go well | advised | harmed |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for scenario in scenarios:
        for seed in seeds:
            with tempfile.TemporaryDirectory() as scratch:
                one(scenario, seed, jobs, sample, Path(scratch))


def one(scenario: str, seed: int, jobs: int, sample: int, folder: Path) -> None:
    asked = situations(scenario, seed, jobs, sample, folder)
    told = {kind: [followed(s, advise(s), true) for s, true in some] for kind, some in asked.items()}
    print(line(f"{scenario}, {seed}", told["fail"], told["well"]), flush=True)


Asked = list[tuple[Situation, dict[str, Any]]]


def situations(scenario: str, seed: int, jobs: int, sample: int, folder: Path) -> dict[str, Asked]:
    """Jobs that the model has not seen, by what becomes of them, each with its truth."""
    store, truth = history(scenario, seed, jobs, folder)
    (cluster,) = store.clusters()
    table = read_table(store, cluster, "submit", POPULATIONS["wasted"])
    settings = Settings(trials=3, families=("lightgbm", "online"), seed=seed)
    fitted = fit(table, settings, folder=folder / "search")
    matrix = fitted.assembly.matrix(table, fitted.learnt)
    learnt, fails = table.about[fitted.learnt], table.fails[fitted.learnt]
    causes = Causes.fit(matrix, learnt, fails, np.ones(len(fails)), seed=seed, threads=2)
    usage = Usage.fit(table, fitted.parts.cuts, fitted.assembly.features, seed=seed, threads=2)
    assert usage
    machine = Machine(store, cluster, 0)
    rng = np.random.default_rng(seed)
    known = table.about.select("job_id", "submit").with_row_index("row").join(truth, on=["job_id", "submit"])
    later = known.filter(pl.col("row").is_in(fitted.parts.test) & pl.col("started"))
    made: dict[str, Asked] = {}
    for kind, which in (("fail", pl.col("cause").is_in(FAILING)), ("well", pl.col("cause") == "none")):
        some = later.filter(which)
        picked = some[np.sort(rng.choice(some.height, min(sample, some.height), replace=False))]
        rows = picked["row"].to_numpy().astype(np.int64)
        part = table.rows(rows)
        p = fitted.probabilities(table, rows)
        of_cause = p[:, None] * causes.given_failure(fitted.assembly.matrix(table, rows))
        asked = records(store, cluster, part)
        foreseen = usage.foresee(part)
        made[kind] = []
        for place, (job, true) in enumerate(zip(asked, picked.iter_rows(named=True), strict=True)):
            situation = Situation(
                job=job,
                needs=ForeseenNeeds(foreseen, place),
                failure=Failure(
                    probability=float(p[place]),
                    threshold=fitted.threshold.value,
                    warns=bool(p[place] >= fitted.threshold.value),
                    base_rate=float(fails.mean()),
                    rests_on=len(fails),
                    causes=by_cause(causes, of_cause[place]),
                ),
                nodes=machine.nodes,
                partitions=machine.partitions,
            )
            made[kind].append((situation, true))
    return made


def history(scenario: str, seed: int, jobs: int, folder: Path) -> tuple[Store, pl.DataFrame]:
    written = simulate(scenario, jobs, seed, folder / "jobs.parquet", "parquet")
    write_machine(load_scenario(scenario), folder)
    store = open_store(folder / "home")
    for source in (f"parquet:{folder / 'jobs.parquet'}", *(f"slurmrestd:{folder / name}.json"
                   for name in ("nodes", "partitions"))):  # fmt: skip
        clusters = ingest(store, open_source(source)).clusters
        review(store, clusters)
    return store, pl.read_parquet(written.truth_path)


def records(store: Store, cluster: str, part: Table) -> list[Job]:
    """The jobs of a table as they were at their submit, in its order."""
    ids = part.about["job_id"].to_list()
    frames = pl.concat(store.scan("job", view="submit", cluster=cluster, job_ids=ids))
    asked = part.about.select("job_id", "submit").join(frames, on=["job_id", "submit"], maintain_order="left")
    return list(to_records(asked, Job))


def followed(situation: Situation, advice: tuple[Advice, ...], true: dict[str, Any]) -> dict[str, Any]:
    """What became of a job with the first advice, and with what an oracle would have asked for."""
    place = places(situation.job, situation.nodes, situation.partitions)[0]
    most = max(node.memory or 0 for node in place.nodes)
    longest = limit(place.partition.time_max) if place.partition else None
    sick = [true["sick_node"]] if true["sick_node"] else []
    best = replay(true, memory=max(most, true["had_memory"]), time_limit=longest, exclude=sick)
    memory, time = None, None
    for change in advice[0].changes if advice else ():
        if change.option == "time":
            time = parse_duration(change.after)
        elif change.option.startswith("mem"):
            said = parse_memory(change.after)
            assert said
            memory = said.bytes * (true["had_cpus"] if change.option == "mem-per-cpu" else 1)
    after = replay(true, memory=memory, time_limit=time)
    return {
        "advised": bool(advice),
        "completes": after.outcome is Outcome.COMPLETED,
        "oracle": best.outcome is Outcome.COMPLETED,
        "memory": memory / true["need_memory"] if memory else None,
        "time": time / true["need_time"] if time else None,
        "cause": true["cause"],
    }


def line(name: str, failing: list[dict[str, Any]], well: list[dict[str, Any]]) -> str:
    fail, good = (pl.DataFrame(some, infer_schema_length=None) for some in (failing, well))
    averted, oracle = fail["completes"].sum(), fail["oracle"].sum()
    # Against the true need, where that was what the job lacked, and, in brackets, wherever it was advised.
    memory, time = (f"{_ratio(failing, k, k):.2f} ({_ratio(failing, k):.2f})" for k in ("memory", "time"))
    harmed = (~good["completes"]).sum()
    return (
        f"| {name} | {fail.height:,} | {fail['advised'].mean():.0%} | {averted / fail.height:.0%} | "
        f"{oracle / fail.height:.0%} | **{averted / max(oracle, 1):.0%}** | "
        f"{memory} | {time} | "
        f"{good.height:,} | {good['advised'].mean():.0%} | {harmed / good.height:.2%} |"
    )


def _ratio(told: list[dict[str, Any]], what: str, cause: str | None = None) -> float:
    found = [one[what] for one in told if one[what] and cause in (None, one["cause"])]
    return float(np.median(found)) if found else float("nan")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenarios", default="default,harsh,drift")
    parser.add_argument("--seeds", default="11")
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--sample", type=int, default=2_000)
    args = parser.parse_args()
    seeds = [int(seed) for seed in args.seeds.split(",")]
    main(args.scenarios.split(","), seeds, args.jobs, args.sample)
