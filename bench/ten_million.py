"""Ten million jobs, once through: simulate, ingest, scan, features; each step with its own peak memory.

    python bench/ten_million.py [--jobs 10000000] [--folder DIR]

Takes about an hour and 20 GB of disk at full size on two cores; every step must stay under 24 GiB.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from forewarn.config import Config
from forewarn.features.table import write_features
from forewarn.job.outcomes import POLICIES
from forewarn.operate.ingest_file import ingest
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.store.opening import open_store

STEPS = ("simulate", "ingest", "ingest again", "count", "scan", "features submit", "features start")


def step(name: str, folder: Path, jobs: int) -> str:
    log, home = folder / "jobs.parquet", folder / "home"
    if name == "simulate":
        simulate("default", jobs, 1, log, "parquet", None)
        return f"{log.stat().st_size / 1e6:,.0f} MB"
    if name.startswith("ingest"):
        report = ingest(open_store(Config(home=home)), open_source(f"parquet:{log}"))
        size = sum(p.stat().st_size for p in home.iterdir() if p.is_file())
        return f"{report.new:,} new, {report.same:,} there, store {size / 1e6:,.0f} MB"
    store = open_store(Config(home=home), read_only=True)
    if name == "count":
        return f"{store.count():,} jobs"
    if name == "scan":
        return f"{sum(frame.height for frame in store.scan()):,} rows, all columns"
    table = folder / "table.parquet"
    summary = write_features(store, table, phase=name.split()[1], policy=POLICIES["wasted"])
    result = f"{summary.jobs:,} rows × {summary.features}, {table.stat().st_size / 1e6:,.0f} MB"
    table.unlink()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        began = time.perf_counter()
        result = step(options.step, options.folder, options.jobs)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / 1024
        print(f"{options.step:<16} {time.perf_counter() - began:>8.1f} s   peak {peak:>5.1f} GiB   {result}")
        return
    with TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        for each in STEPS:
            command = [
                sys.executable,
                __file__,
                "--jobs",
                str(options.jobs),
                "--folder",
                str(folder),
                "--step",
                each,
            ]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
