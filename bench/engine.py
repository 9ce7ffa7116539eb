"""The memory of an engine, and how it starts, for histories of a million and more jobs.

    python bench/engine.py [--jobs 1000000 2000000]

A simulated cluster (`default`) is read into a store; the online state is made and saved once. Then a process
of its own starts an engine from that: how long until it can be asked, what it holds in memory, and how long
it takes to follow a thousand jobs that have just ended.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from forewarn.config import Config
from forewarn.job.columns import to_frame, to_records
from forewarn.job.record import Job, Observation
from forewarn.learn.registry.serving import Serving
from forewarn.operate.engine import Engine
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.operate.one_shot import refresh
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.store.opening import open_store

NEW = 1000


def main(jobs: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        config = Config(home=folder / "home")
        simulated = simulate("default", jobs, 3, folder / "jobs.parquet", "parquet")
        with open_store(config) as store:
            review_missing_fields(store, ingest(store, open_source(f"parquet:{simulated.path}")).clusters)
            cluster = next(iter(store.clusters()))
        begun = time.perf_counter()
        refresh(config, cluster, "wasted")
        build_seconds = time.perf_counter() - begun
        size = sum(path.stat().st_size for path in config.home.iterdir() if path.is_file())
        command = [sys.executable, __file__, "--start", str(config.home), "--cluster", cluster]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
    print(
        f"| {jobs:,} | {size / 1e6:,.0f} MB | {build_seconds:.1f} s | {found['start']:.1f} s | "
        f"{found['first']:.2f} s | {found['memory'] / 1e6:,.0f} MB | {found['follow'] * 1e3:,.0f} ms |",
        flush=True,
    )


def start(home: Path, cluster: str) -> None:
    """Measure a process that starts an engine."""
    config = Config(home=home)
    with open_store(config) as store:
        *_, last = store.scan(view="submit", cluster=cluster)
        sample = list(to_records(last.tail(NEW), Job))
        del last
        at = max(job.submit for job in sample) + 10**7
        before = resident()
        engine = Engine(store, cluster, Serving(home / "models"))
        begun = time.perf_counter()
        engine.follow(at)
        started = time.perf_counter() - begun
        begun = time.perf_counter()
        engine.assess_all([_new(job, at, place) for place, job in enumerate(sample[:100])], at=at)
        first, memory = time.perf_counter() - begun, resident() - before
        ended = [
            replace(_new(job, at, place), start=at, end=at + 60, outcome="failed")
            for place, job in enumerate(sample)
        ]
        seen = [
            Observation(seen_at=at + 60, source="bench", reconstructed=False, record=job) for job in ended
        ]
        with store.writing() as writer:
            writer.observe("job", to_frame(seen))
        begun = time.perf_counter()
        engine.follow(at + 120)
        follow = time.perf_counter() - begun
    print(json.dumps({"start": started, "first": first, "memory": memory, "follow": follow}))


def _new(job: Job, at: int, place: int) -> Job:
    fresh = replace(job, job_id=f"new{place}", submit=at, start=None, end=None, outcome=None, state=None)
    return replace(fresh, max_memory=None, cpu_time=None)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1_000_000, 2_000_000])
    parser.add_argument("--start", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cluster", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.start:
        start(args.start, args.cluster)
    else:
        print("| jobs | store | state made | engine starts | first 100 jobs | memory | 1,000 ends |")
        print("|---|---|---|---|---|---|---|")
        for count in args.jobs:
            main(count)
