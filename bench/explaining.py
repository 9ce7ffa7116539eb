"""On the simulator: how often `explain` names the true cause of a failure from records alone; what it costs.

    python bench/explaining.py [--jobs 20000] [--asked 600] [--seed 9]

A simulated job has no output, so what only a log can tell (a mistake in a script or an input) cannot be
named: there it is right to name nothing of the system's. "Whose" is whether it is said rightly that the
failure is the user's, a limit's or the system's. The second table has the times.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from forewarn.assess.post_mortem.cause_families import FAMILIES
from forewarn.assess.post_mortem.explain import explain
from forewarn.assess.post_mortem.log_matching import matches
from forewarn.assess.post_mortem.log_reading import HEAD, TAIL, read_log
from forewarn.assess.similar import similar_jobs
from forewarn.assess.user_history import UserHistory, read_history
from forewarn.config import Config
from forewarn.job.columns import to_records
from forewarn.job.outcomes import POLICIES, FailureKind
from forewarn.job.record import Job
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.store.base import Store
from forewarn.store.opening import open_store

SCENARIOS = ("default", "harsh")
# What is right for a true cause. Of a mistake in script or input the record knows only the exit code.
RIGHT: dict[str, set[str | None]] = {
    "memory": {"out_of_memory"},
    "time": {"time_limit"},
    "node": {"node_failure"},
    "file_system": {"file_system", "outage", "network"},
    "user_cancel": {"cancelled"},
    "preempted": {"preempted"},
    "script": {None, "usage", "command_missing", "not_executable", "crash", "program_error", "file_missing"},
    "input": {None, "usage", "command_missing", "not_executable", "crash", "program_error", "file_missing"},
}
WHOSE = {"memory": FailureKind.LIMIT, "time": FailureKind.LIMIT} | dict.fromkeys(
    ("node", "file_system", "preempted"), FailureKind.SYSTEM
)


def main(jobs: int, asked: int, seed: int) -> None:
    print("| scenario | true cause | jobs | right | nothing named | wrong | whose |")
    print("|---|---|---|---|---|---|---|")
    for scenario in SCENARIOS:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            written = simulate(scenario, jobs, seed, folder / "jobs.parquet", "parquet")
            store = open_store(Config(home=folder / "home"))
            cluster = ingest(store, open_source(f"parquet:{folder / 'jobs.parquet'}")).clusters[0]
            review_missing_fields(store, [cluster])
            truth = pl.read_parquet(written.truth_path, columns=["job_id", "submit", "cause"])
            seconds = judge(scenario, store, truth.filter(pl.col("cause") != "none"), asked)
            if scenario == SCENARIOS[-1]:
                costs(store, seconds, folder)


def judge(scenario: str, store: Store, truth: pl.DataFrame, asked: int) -> list[float]:
    all_jobs = pl.concat(list(store.scan())).join(truth, on=["job_id", "submit"], maintain_order="left")
    # As many of each cause, so that the rare ones are seen.
    chosen = all_jobs.filter(
        pl.int_range(pl.len()).shuffle(seed=1).over("cause") < asked // all_jobs["cause"].n_unique()
    )
    seconds, counts = [], Counter[tuple[str, str]]()
    for job, cause in zip(to_records(chosen, Job), chosen["cause"], strict=True):
        began = time.perf_counter()
        report = explain(job, store)
        seconds.append(time.perf_counter() - began)
        right = report.family in RIGHT[cause]
        whose = FAMILIES[report.family].kind if report.family else report.kind
        counts[cause, "whose"] += whose == WHOSE.get(cause, FailureKind.USER)
        counts[cause, "right" if right else "none" if report.family is None else "wrong"] += 1
    for cause in sorted({cause for cause, _ in counts}):
        total = sum(counts[cause, how] for how in ("right", "none", "wrong"))
        shares = (f"{counts[cause, how] / total:.0%}" for how in ("right", "none", "wrong", "whose"))
        print(f"| {scenario} | {cause} | {total} | {' | '.join(shares)} |")
    return seconds


def costs(store: Store, seconds: list[float], folder: Path) -> None:
    log = folder / "job.out"
    log.write_bytes(b"step 17 of 400: energy -1234.5, error 1e-9, memory 3.2 GiB, file out_17.h5\n" * 200_000)
    job = next(to_records(pl.concat(list(store.scan())).tail(1), Job))
    times = {
        "explain, record and surroundings (median)": float(np.median(seconds)),
        "the same, 95 %": float(np.quantile(seconds, 0.95)),
        "similar jobs": _best(lambda: similar_jobs(_history(store, job), job, POLICIES["wasted"])),
        f"a log of {log.stat().st_size / 1e6:.0f} MB, of which {(HEAD + TAIL) / 1e6:.1f} MB are read": _best(
            lambda: matches(read_log(log))
        ),
    }
    print(f"\n| of {store.count():,} jobs in the store | ms |\n|---|---|")
    for what, taken in times.items():
        print(f"| {what} | {1000 * taken:.0f} |")


def _history(store: Store, job: Job) -> UserHistory:
    assert job.user is not None
    return read_history(store, job.cluster, job.submit, store.clusters()[job.cluster], [job.user])


def _best(call: Callable[[], object], times: int = 3) -> float:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return min(taken)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--asked", type=int, default=600)
    parser.add_argument("--seed", type=int, default=9)
    main(**vars(parser.parse_args()))
