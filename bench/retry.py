"""Retry verdicts, followed: what becomes of simulated failures by each policy, by their hidden truth.

    python bench/retry.py [--scenarios default,harsh,drift] [--seeds 21,22] [--jobs 40000] [--sample 100]

A model learns from the first part of a simulated history. Then the history goes on: at some moments, as many
jobs as asked for that failed since the last one are judged with what was known at that moment, and retried
until they complete or the policy stops, at most three times. The simulator knows what a retry would have
come to: too little memory or time, a mistake in the script and a bad input strike again; a flaky run, an
outage, a preemption and a user's change of mind do not; a sick node strikes again if the job gets it again,
as often as jobs that started on the cluster in the next hours did. Policies:

- always: the same request again
- doubling: twice the memory and twice the time each time, whatever the cause
- doubling by cause: twice what was exceeded (as workflow engines are configured), else the same again
- verdict: `forewarn retry`, with the chance below which it stops (`--least`: those to compare)
- oracle: one retry with all that the partition has, on healthy nodes, where that completes

For logs, where only what users did can be judged: bench/retry_logs.py.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl

from forewarn.assess.advice.situation import most_memory
from forewarn.assess.assessor import Assessor
from forewarn.assess.champions import Champions
from forewarn.assess.oddness.partitions import limit, places
from forewarn.assess.post_mortem.advice import ResubmitForecast, as_requested_now
from forewarn.assess.retry.decide import decide
from forewarn.assess.retry.experience import RetryExperience
from forewarn.assess.retry.situation import LEAST_CHANCE
from forewarn.assess.retry.verdict import RetryAction, RetryVerdict
from forewarn.config import Config
from forewarn.features.snapshot import bring_up_to_date
from forewarn.job.columns import to_records
from forewarn.job.memory import units_per_node
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import read_table
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.learn.fitting.train import train
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.operate.one_shot import stored_assessor
from forewarn.operate.retry import count_resubmissions, retry_situation
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.sources.simulator.scenario import load_scenario
from forewarn.sources.simulator.truth import Ending, replay
from forewarn.sources.simulator.writers.machine import write_machine
from forewarn.store.base import Store
from forewarn.store.opening import open_store

FAILED = ("failed", "out_of_memory", "timeout", "node_fail", "preempted")
STATES = {Outcome.OUT_OF_MEMORY: "OUT_OF_MEMORY", Outcome.TIMEOUT: "TIMEOUT", Outcome.NODE_FAIL: "NODE_FAIL"}
KNOWN = 0.7  # of the history, before the first moment
MOMENTS, EVERY = 8, 12 * 3600  # of asking, and the seconds between them
MOST = 3  # retries
AFTER = 6 * 3600  # seconds in which the jobs that get a sick node are counted
POLICY = POPULATIONS["wasted"].policy


@dataclass(frozen=True)
class Request:
    """What a retry requests: bytes on a node, seconds, nodes to leave out."""

    memory: int
    time_limit: int
    exclude: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Attempt:
    """One retry: the chance that was stated, whether it completed, its node hours, its GiB hours."""

    chance: float | None
    completed: bool
    hours: float
    reserved: float


class Failure:
    """A failed job with its truth, and what its partition has."""

    def __init__(self, job: Job, true: dict[str, Any], assessor: Assessor, again: float, seed: int) -> None:
        self.job, self.true, self.again, self.seed = job, true, again, seed
        place = places(job, assessor.machine.nodes, assessor.machine.partitions)[0]
        self.most = Request(
            max(most_memory(job, place) or 0, true["had_memory"]),
            (limit(place.partition.time_max) if place.partition else None) or 10 * true["had_time"],
        )
        self.first = Request(true["had_memory"], true["had_time"])

    def retried(self, request: Request, number: int) -> Ending:
        """Return how the job ends this time."""
        gone: dict[str, Any] = dict.fromkeys(("outage_after", "cancel_after", "preempt_after"))
        # A flaky run: a mistake that no other job of the campaign carries.
        if self.true["bug_cause"] == "script" and self.true["broken_script"] is None:
            gone["bug_after"] = None
        luck = np.random.default_rng((self.seed, number)).random()  # the same for every policy
        if self.true["sick_node"] in request.exclude or luck >= self.again:
            gone["node_after"] = None
        return replay(self.true | gone, memory=request.memory, time_limit=request.time_limit)

    def attempt(self, request: Request, ending: Ending, chance: float | None = None) -> Attempt:
        """Measure one retry."""
        hours = (ending.run_time or 0) * self.true["had_nodes"] / 3600
        reserved = hours * request.memory / 2**30
        return Attempt(chance, ending.outcome is Outcome.COMPLETED, hours, reserved)

    def as_record(self, request: Request, ending: Ending, number: int, at: int) -> Job:
        """Return the record that Slurm would have of a retry."""
        job, run_time = self.job, ending.run_time or 0
        own = {"exit_code": job.exit_code, "exit_signal": job.exit_signal}
        asked = int(request.memory / units_per_node(job, job.memory_per))
        return replace(
            job,
            job_id=str(1_000_000_000 + self.seed % 100_000_000 * 10 + number),
            array_job_id=None,
            array_task_id=None,
            submit=at,
            start=at,
            end=at + run_time,
            outcome=str(ending.outcome),
            state=STATES.get(ending.outcome, "FAILED"),
            **(own if ending.outcome is Outcome.FAILED else {"exit_code": 0, "exit_signal": 0}),
            memory_asked=asked,
            memory_given=request.memory * self.true["had_nodes"],
            max_memory=min(request.memory, self.true["need_memory"]),
            time_limit=request.time_limit,
        )


def blind(failure: Failure, policy: str) -> list[Attempt]:
    """Retry by a policy that asks nobody."""
    found: list[Attempt] = []
    request, most, outcome = failure.first, failure.most, Outcome(failure.job.outcome or "unknown")
    for number in range(MOST):
        more_memory = policy == "doubling" or (
            policy == "doubling by cause" and outcome is Outcome.OUT_OF_MEMORY
        )
        more_time = policy == "doubling" or (policy == "doubling by cause" and outcome is Outcome.TIMEOUT)
        request = Request(
            min(2 * request.memory, most.memory) if more_memory else request.memory,
            min(2 * request.time_limit, most.time_limit) if more_time else request.time_limit,
        )
        ending = failure.retried(request, number)
        found.append(failure.attempt(request, ending))
        outcome = ending.outcome
        if found[-1].completed:
            break
    return found


def by_verdict(
    failure: Failure, store: Store, assessor: Assessor, experience: RetryExperience, at: int
) -> list[Attempt]:
    """Retry as the verdict says, whatever the chance: `stopped` cuts the list."""
    found: list[Attempt] = []
    job, request, earlier = failure.job, failure.first, list[Job]()
    for number in range(MOST):
        situation = retry_situation(
            store,
            job,
            lambda: experience,
            at=at,
            attempts=earlier,
            forecast=partial(forecast, assessor, job, at),
        )
        verdict = decide(replace(situation, least_chance=0.0))
        if verdict.verdict in (RetryAction.DO_NOT_RETRY, RetryAction.CANNOT_SAY):
            break
        request = requested(verdict, job, request)
        ending = failure.retried(request, number)
        found.append(failure.attempt(request, ending, verdict.probability))
        if found[-1].completed:
            break
        earlier.append(job)
        at += verdict.delay + (ending.run_time or 0) + 60
        job = failure.as_record(request, ending, number, at - (ending.run_time or 0))
    return found


def forecast(assessor: Assessor, job: Job, at: int) -> ResubmitForecast:
    """Predict what a job needs, as `operate.explain.resubmit_forecast` does."""
    assessment = assessor.assess_all([as_requested_now(job, at)])[0]
    return ResubmitForecast(
        memory=assessment.resources.memory_request if assessment.resources else None,
        seconds=assessment.run_time.seconds.high if assessment.run_time else None,
    )


def requested(verdict: RetryVerdict, job: Job, before: Request) -> Request:
    """Return the request of a verdict."""
    memory = before.memory
    if verdict.memory is not None:
        memory = int(verdict.memory * units_per_node(job, verdict.memory_per))
    return Request(memory, verdict.time_limit or before.time_limit, frozenset(verdict.exclude))


def stopped(attempts: Sequence[Attempt], least: float) -> list[Attempt]:
    """Cut a list of retries where the chance falls below the least one."""
    end = next((i for i, one in enumerate(attempts) if (one.chance or 0.0) < least), len(attempts))
    return list(attempts[:end])


def failures(scenario: str, seed: int, jobs: int, sample: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what each policy does with each judged failure."""
    written = simulate(scenario, jobs, seed, folder / "jobs.parquet", "parquet")
    seen = pl.read_parquet(folder / "jobs.parquet").with_columns(application=None, script_hash=None)
    truth = pl.read_parquet(written.truth_path).drop("cluster")
    first = int(seen["submit"].quantile(KNOWN) or 0)
    ended = seen.filter(pl.col("outcome").is_in(FAILED) & pl.col("start").is_not_null())
    judged = ended.join(truth, on=["job_id", "submit"])
    rng = np.random.default_rng(seed)
    with open_store(Config(home=folder / "home")) as store:
        for part in write_machine(load_scenario(scenario), folder):
            ingest(store, open_source(f"slurmrestd:{part}"))
        champions, position = None, 0
        for number in range(MOMENTS + 1):
            at = first + number * EVERY
            new = seen.filter(pl.col("seen_at").is_between(position, at - 1))
            new.write_parquet(folder / "new.parquet")
            position = at
            report = ingest(store, open_source(f"parquet:{folder / 'new.parquet'}"))
            (cluster,) = report.clusters
            if champions is None:  # at the first moment only the model is made
                review_missing_fields(store, [cluster])
                table = read_table(store, cluster, "submit", POPULATIONS["wasted"])
                settings = FitSettings(trials=1, families=("lightgbm", "online"), seed=seed)
                train(table, settings, searches=folder / "searches", at=at).save(folder / "bundle")
                champions = Champions(cluster, None, (folder / "bundle",))
                continue
            bring_up_to_date(store, cluster, POLICY)
            assessor = stored_assessor(store, champions, at)
            experience = count_resubmissions(store, cluster, at - 120 * 86400, at)
            fresh = judged.filter(pl.col("seen_at").is_between(at - EVERY, at - 1))
            chosen = fresh[np.sort(rng.choice(fresh.height, min(sample, fresh.height), replace=False))]
            records = to_records(chosen.select(pl.col(seen.columns)), Job)
            for job, true in zip(records, chosen.iter_rows(named=True), strict=True):
                luck = crc32(repr(job.key).encode())
                failure = Failure(job, true, assessor, sick_again(truth, seen, true, at), luck)
                yield {
                    "cause": "flaky" if _is_flaky(true) else true["cause"],
                    "verdict": by_verdict(failure, store, assessor, experience, at),
                    "oracle": _oracle(failure),
                    **{policy: blind(failure, policy) for policy in BLIND},
                }


BLIND = ("always", "doubling", "doubling by cause")


def _is_flaky(true: dict[str, Any]) -> bool:
    return bool(true["bug_cause"] == "script" and true["broken_script"] is None)


def _oracle(failure: Failure) -> list[Attempt]:
    sick = frozenset({failure.true["sick_node"]} - {None})
    request = replace(failure.most, exclude=sick)
    ending = failure.retried(request, 0)
    needed = Request(failure.true["need_memory"], failure.true["need_time"])
    return [failure.attempt(needed, ending)] if ending.outcome is Outcome.COMPLETED else []


def sick_again(truth: pl.DataFrame, seen: pl.DataFrame, true: dict[str, Any], at: int) -> float:
    """Return the share of jobs that got the same sick node, of those that started in the next hours."""
    if true["sick_node"] is None:
        return 0.0
    started = seen.filter(pl.col("start").is_between(at, at + AFTER)).select("job_id", "submit").unique()
    there = started.join(truth, on=["job_id", "submit"])["sick_node"] == true["sick_node"]
    return float(there.fill_null(False).mean() or 0.0) if started.height else 0.0


def line(name: str, policy: str, of: Sequence[Sequence[Attempt]]) -> str:
    every = [one for attempts in of for one in attempts]
    good = [one for one in every if one.completed]
    wasted = sum(one.hours for one in every if not one.completed)
    useful = sum(one.hours for one in good)
    reserved = sum(one.reserved for one in good) / max(len(good), 1)
    return (
        f"| {name} | {policy} | {len(of):,} | {len(every):,} | {len(good):,} | "
        f"{len(every) / max(len(good), 1):.2f} | {useful:,.0f} | {wasted:,.0f} | {reserved:,.0f} |"
    )


def main(
    scenarios: Sequence[str], seeds: Sequence[int], jobs: int, sample: int, least: Sequence[float]
) -> None:
    print("| scenario, seed | policy | failures | retries | completed | retries each | useful node hours | "
          "wasted node hours | GiB hours each |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    for scenario in scenarios:
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder:
                found = list(failures(scenario, seed, jobs, sample, Path(folder)))
            name = f"{scenario}, {seed}"
            print(line(name, "never", [[] for _ in found]))
            for policy in BLIND:
                print(line(name, policy, [one[policy] for one in found]))
            for chance in least:
                followed = [stopped(one["verdict"], chance) for one in found]
                print(line(name, f"verdict, from {chance:.0%}", followed))
            print(line(name, "oracle", [one["oracle"] for one in found]), flush=True)
            print_calibration(found)


def print_calibration(found: Sequence[dict[str, Any]]) -> None:
    """Print what each policy made of the failures of each true cause; then the stated chances."""
    for cause in sorted({one["cause"] for one in found}):
        own = [one for one in found if one["cause"] == cause]
        cells = []
        for policy in (*BLIND, "verdict", "oracle"):
            cut = [stopped(one[policy], LEAST_CHANCE) if policy == "verdict" else one[policy] for one in own]
            done = sum(attempts[-1].completed for attempts in cut if attempts)
            cells.append(f"{policy} {done}/{sum(map(len, cut))}")
        print(f"  {cause} ({len(own)}): completed/retries: {', '.join(cells)}")
    stated = [one for each in found for one in each["verdict"]]
    for low, high in ((0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.01)):
        some = [one for one in stated if low <= (one.chance or 0) < high]
        if some:
            chance = np.mean([one.chance for one in some])
            print(
                f"  stated {chance:.2f}, came true {np.mean([o.completed for o in some]):.2f} of {len(some)}"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scenarios", default="default,harsh,drift")
    parser.add_argument("--seeds", default="21")
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--least", default=str(LEAST_CHANCE))
    args = parser.parse_args()
    main(
        args.scenarios.split(","),
        [int(seed) for seed in args.seeds.split(",")],
        args.jobs,
        args.sample,
        [float(chance) for chance in args.least.split(",")],
    )
