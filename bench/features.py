"""Features measured: batch, growth, memory, against the online path, and one job against one prediction.

    python bench/features.py                    # 1 and 2 million simulated jobs
    python bench/features.py --jobs 100000      # a quick look

The batch runs in a process of its own for each size, for its peak memory; CPU seconds are given beside wall
seconds, since the machines are noisy. Ratios compare figures of this same run.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from forewarn.config import Config
from forewarn.features.batch import ORDER, events_of, read_inputs
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel.state import KNOWN, START, SUBMIT
from forewarn.features.online import OnlineFeatures
from forewarn.features.table import feature_frames, write_features
from forewarn.job.columns import to_records
from forewarn.job.outcomes import POLICIES
from forewarn.job.record import Job
from forewarn.operate.ingest_file import ingest
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.store.opening import open_store

POLICY = POLICIES["wasted"]


def batch(home: Path) -> None:
    """Compute the whole table of a store in this process, and print the time and memory."""
    store = open_store(Config(home=home), read_only=True)
    (cluster,) = store.clusters()
    table = home.parent / "table.parquet"
    OnlineFeatures(cluster, POLICY).submit(Job(cluster=cluster, job_id="1", submit=0))  # the kernel is loaded
    began, cpu = time.perf_counter(), time.process_time()
    inputs = read_inputs(store, cluster, POLICY, phase="submit")
    jobs = sum(frame.height for frame in feature_frames(inputs, "submit", "generic"))
    took = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu, "jobs": jobs}
    del inputs
    cpu = time.process_time()
    write_features(store, table, policy=POLICY)
    took["file_cpu"] = time.process_time() - cpu
    took["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    took["table_mb"] = table.stat().st_size / 1e6
    print(json.dumps(took))


def filled(folder: Path, jobs: int) -> Path:
    """Create a store with so many simulated jobs."""
    log, home = folder / f"{jobs}.parquet", folder / f"home-{jobs}"
    simulate("default", jobs, 1, log, "parquet", None)
    ingest(open_store(Config(home=home)), open_source(f"parquet:{log}"))
    return home


def measured_batch(home: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--batch", str(home)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def online(home: Path, most: int) -> dict[str, float]:
    """Process the first jobs one event at a time, saving every thousand events; return the time per job."""
    store = open_store(Config(home=home))
    (cluster,) = store.clusters()
    jobs = list(to_records(pl.concat(store.scan(cluster=cluster)).sort(*ORDER)[:most], Job))
    inputs = read_inputs(store, cluster, POLICY, phase="submit")
    events = events_of(inputs)
    ours = events.jobs < len(jobs)
    feed = list(
        zip(events.times[ours].tolist(), events.kinds[ours].tolist(), events.jobs[ours].tolist(), strict=True)
    )
    state = OnlineFeatures(cluster, POLICY, store.clusters()[cluster])
    began, cpu = time.perf_counter(), time.process_time()
    for place, (t, kind, job) in enumerate(feed):
        if kind == SUBMIT:
            state.submit(jobs[job])
        elif kind == START:
            state.start(jobs[job])
        elif kind == KNOWN:
            state.ended(jobs[job], t)
        if place % 1000 == 999:
            with store.writing() as writer:
                state.save(writer)
    return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu, "jobs": len(jobs)}


def against_one_prediction(home: Path) -> None:
    """Update plus features for one job, and one row through 300 trees, in turns."""
    import xgboost

    store = open_store(Config(home=home))
    (cluster,) = store.clusters()
    state = OnlineFeatures.from_history(store, cluster, POLICY)
    (last,) = (f.tail(2000) for f in [pl.concat(store.scan(cluster=cluster))])
    jobs = [j for j in to_records(last, Job) if j.start is not None and j.end is not None]
    draw = np.random.default_rng(0)
    table = draw.normal(size=(20_000, len(L.selected("submit", "generic")))).astype(np.float32)
    label = (table[:, :8].sum(1) + draw.normal(size=20_000) > 1).astype(np.float32)
    trees = xgboost.train(
        {"max_depth": 6, "objective": "binary:logistic", "nthread": 1, "eta": 0.1},
        xgboost.DMatrix(table, label),
        num_boost_round=300,
    )
    ours, theirs = [], []
    moment = max(j.submit for j in jobs)
    for number, job in enumerate(jobs[:1000]):
        moment += 1
        new = {"job_id": f"9{number}", "submit": moment, "start": moment + 1, "end": moment + 2}
        again = Job(**{f: getattr(job, f) for f in job.__slots__} | new)
        began = time.perf_counter()
        state.submit(again)
        state.ended(again, moment + 2)
        ours.append(time.perf_counter() - began)
        began = time.perf_counter()
        trees.inplace_predict(table[:1])
        theirs.append(time.perf_counter() - began)
    a, b = float(np.median(ours)), float(np.median(theirs))
    print(f"features at submit and update at end of one job: {a * 1e6:.0f} µs (median of {len(ours)})")
    print(f"one row through 300 trees, inplace_predict:      {b * 1e6:.0f} µs")
    print(f"ratio: {a / b:.2f} (aim ≤ 1)")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--online", type=int, default=100_000, help="jobs to replay one event at a time")
    parser.add_argument("--batch", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.batch:
        batch(options.batch)
        return
    with TemporaryDirectory() as name:
        folder = Path(name)
        homes = {n: filled(folder, n) for n in (options.jobs, 2 * options.jobs)}
        measured_batch(homes[options.jobs])  # the first run on a machine compiles the kernel
        took = {n: measured_batch(home) for n, home in homes.items()}
        features = len(L.selected("submit", "generic"))
        for n, t in took.items():
            print(
                f"batch, {n:,} jobs, {features} features: {t['seconds']:.1f} s, {t['cpu']:.1f} s CPU", end=""
            )
            print(f" ({t['cpu'] / n * 1e6:.1f} µs a job), peak {t['peak_mb']:,.0f} MB", end="")
            print(f"; {t['file_cpu'] / n * 1e6:.1f} µs a job with writing {t['table_mb']:,.0f} MB of Parquet")
        one, two = took.values()
        print(f"growth from {options.jobs:,} to twice that: {two['cpu'] / one['cpu']:.2f} in CPU (aim ≤ 2.2)")
        replayed = online(homes[options.jobs], options.online)
        each, batched = replayed["cpu"] / replayed["jobs"], one["cpu"] / one["jobs"]
        print(f"online replay of {replayed['jobs']:,.0f} of them, state saved: {each * 1e6:.0f} µs CPU a job")
        print(f"batch against online: {each / batched:.1f} times faster (aim ≥ 10)")
        against_one_prediction(homes[options.jobs])


if __name__ == "__main__":
    main()
