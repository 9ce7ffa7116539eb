"""Advice, followed: what becomes of simulated jobs when the first advice is taken, by their hidden truth.

    python bench/advice.py [--scenarios default,harsh,drift] [--seeds 11,12] [--jobs 40000] [--sample 1000]

A model learns from the first part of a simulated history, which a store then holds. Of the jobs submitted in
the days after it, as many that would fail as asked for, and as many that would go well, are assessed as
`forewarn check` does, as of that moment. The simulator then says what would have become of each with the
request advised. An oracle with the same knobs (memory and time up to what the partition has, sick nodes left
out) says what could have been averted at all. Savings are replayed too: what they would have broken.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from forewarn.assess.assessment import Advice, Assessment, Saving
from forewarn.assess.assessor import Assessor
from forewarn.assess.champions import Champions
from forewarn.assess.oddness.partitions import limit, places
from forewarn.config import Config
from forewarn.features.snapshot import bring_up_to_date
from forewarn.job.columns import to_records
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job
from forewarn.job.units import parse_duration, parse_memory
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import read_table
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.learn.fitting.train import train
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.operate.one_shot import stored_assessor
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.sources.simulator.scenario import load_scenario
from forewarn.sources.simulator.truth import replay
from forewarn.sources.simulator.writers.machine import write_machine
from forewarn.store.opening import open_store

FAILING = ("memory", "time", "script", "input", "node", "file_system")
KNOWN = 0.8  # of the history
DAYS = 4  # after it, from which jobs are assessed


def main(scenarios: list[str], seeds: list[int], jobs: int, sample: int) -> None:
    print("| scenario, seed | would fail | advised | averted | oracle averts | share | memory / need | "
          "time / need | go well | advised | harmed | told to ask for less | broken by it | promised / came "
          "true |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for scenario in scenarios:
        for seed in seeds:
            with tempfile.TemporaryDirectory() as scratch:
                one(scenario, seed, jobs, sample, Path(scratch))


def one(scenario: str, seed: int, jobs: int, sample: int, folder: Path) -> None:
    written = simulate(scenario, jobs, seed, folder / "jobs.parquet", "parquet")
    seen, truth = pl.read_parquet(folder / "jobs.parquet"), pl.read_parquet(written.truth_path)
    asked = seen.group_by("job_id", "submit", maintain_order=True).first()
    moment = int(asked["submit"].quantile(KNOWN) or 0)
    before = seen.filter(pl.col("seen_at") < moment).with_columns(application=None, script_hash=None)
    before.write_parquet(folder / "before.parquet")
    machine = write_machine(load_scenario(scenario), folder)
    policy = POPULATIONS["wasted"].policy
    with open_store(Config(home=folder / "home")) as store:
        for source in (f"parquet:{folder / 'before.parquet'}", *(f"slurmrestd:{part}" for part in machine)):
            review_missing_fields(store, ingest(store, open_source(source)).clusters)
        (cluster,) = store.clusters()
        table = read_table(store, cluster, "submit", POPULATIONS["wasted"])
        settings = FitSettings(trials=1, families=("lightgbm", "online"), seed=seed)
        train(table, settings, searches=folder / "searches", at=moment).save(folder / "bundle")
        bring_up_to_date(store, cluster, policy)
        champions = Champions(cluster, None, (folder / "bundle",))
        assessor = stored_assessor(store, champions, moment)
        later = asked.join(truth.drop("cluster"), on=["job_id", "submit"]).filter(
            pl.col("submit").is_between(moment, moment + DAYS * 86400) & pl.col("started")
        )
        rng = np.random.default_rng(seed)
        figures = {
            kind: [
                followed(assessor, job, true)
                for job, true in picked(later.filter(which), asked.columns, sample, rng)
            ]
            for kind, which in (("fail", pl.col("cause").is_in(FAILING)), ("well", pl.col("cause") == "none"))
        }
    print(line(f"{scenario}, {seed}", figures["fail"], figures["well"]), flush=True)


def picked(
    some: pl.DataFrame, columns: list[str], sample: int, rng: np.random.Generator
) -> list[tuple[Job, dict[str, Any]]]:
    """Jobs as they will be submitted, and their truth."""
    chosen = some[np.sort(rng.choice(some.height, min(sample, some.height), replace=False))]
    jobs = chosen.select(columns).with_columns(
        application=None, script_hash=None, job_id=pl.lit(""), start=None, end=None, outcome=None, state=None
    )
    return list(zip(to_records(jobs, Job), chosen.iter_rows(named=True), strict=True))


def followed(assessor: Assessor, job: Job, true: dict[str, Any]) -> dict[str, Any]:
    """Return the outcome of a job with the first advice, with each saving, and with an oracle's request."""
    assessment: Assessment = assessor.assess(job)
    place = places(job, assessor.machine.nodes, assessor.machine.partitions)[0]
    most = max(node.memory or 0 for node in place.nodes)
    longest = limit(place.partition.time_max) if place.partition else None
    sick = [true["sick_node"]] if true["sick_node"] else []
    best = replay(true, memory=max(most, true["had_memory"]), time_limit=longest, exclude=sick)
    memory, time = asked_by(assessment.advice[0], true) if assessment.advice else (None, None)
    after = replay(true, memory=memory, time_limit=time)
    less = [asked_by(saving, true) for saving in assessment.savings]
    broken = [replay(true, memory=m, time_limit=t).outcome is not Outcome.COMPLETED for m, t in less]
    return {
        "advised": bool(assessment.advice),
        "completes": after.outcome is Outcome.COMPLETED,
        "oracle": best.outcome is Outcome.COMPLETED,
        "memory": memory / true["need_memory"] if memory else None,
        "time": time / true["need_time"] if time else None,
        "cause": true["cause"],
        "less": bool(less),
        "broken": any(broken),
        "stated": assessment.failure.probability if assessment.failure else None,
        "promised": assessment.advice[0].risk_after if assessment.advice else None,
    }


def asked_by(advice: Advice | Saving, true: dict[str, Any]) -> tuple[int | None, int | None]:
    """Memory of all the job, and the time limit, that advice sets."""
    memory, time = None, None
    for change in advice.changes:
        if change.option == "time":
            time = parse_duration(change.after)
        elif change.option.startswith("mem"):
            requested = parse_memory(change.after)
            assert requested
            memory = requested.bytes * (true["had_cpus"] if change.option == "mem-per-cpu" else 1)
    return memory, time


def line(name: str, failing: list[dict[str, Any]], well: list[dict[str, Any]]) -> str:
    fail, good = (pl.DataFrame(some, infer_schema_length=None) for some in (failing, well))
    averted, oracle = int(fail["completes"].sum()), int(fail["oracle"].sum())
    # Against the true need, where that was what the job lacked, and, in brackets, wherever it was advised.
    memory, time = (f"{_ratio(failing, k, k):.2f} ({_ratio(failing, k):.2f})" for k in ("memory", "time"))
    harmed = int((~good["completes"]).sum())
    broken, less = int(good["broken"].sum()), int(good["less"].sum())
    both = pl.concat([fail.filter("advised"), good.filter("advised")])
    # The two kinds were not sampled alike: the promise is held against those that were advised of each.
    kept = f"{_mean(both['promised']):.2f} / {1 - _mean(both['completes']):.2f}" if both.height else "n/a"
    return (
        f"| {name} | {fail.height:,} | {_mean(fail['advised']):.0%} | {averted / fail.height:.0%} | "
        f"{oracle / fail.height:.0%} | **{averted / max(oracle, 1):.0%}** | "
        f"{memory} | {time} | "
        f"{good.height:,} | {_mean(good['advised']):.0%} | {harmed / good.height:.2%} | "
        f"{_mean(good['less']):.0%} | {broken / max(less, 1):.2%} | {kept} |"
    )


def _mean(values: pl.Series) -> float:
    return float(values.drop_nulls().to_numpy().mean())


def _ratio(figures: list[dict[str, Any]], what: str, cause: str | None = None) -> float:
    found = [one[what] for one in figures if one[what] and cause in (None, one["cause"])]
    return float(np.median(found)) if found else float("nan")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenarios", default="default,harsh,drift")
    parser.add_argument("--seeds", default="11")
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--sample", type=int, default=1_000)
    args = parser.parse_args()
    seeds = [int(seed) for seed in args.seeds.split(",")]
    main(args.scenarios.split(","), seeds, args.jobs, args.sample)
