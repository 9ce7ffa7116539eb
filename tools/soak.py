"""Ten million jobs through the whole road, as its user would: seconds and peak memory of each step.

    make soak                  # 10 million jobs: needs about 10 GB of disk in .work/soak
    make soak JOBS=200000      # a quick look
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

EXECUTABLE = Path(sys.executable).parent / "forewarn"


def step(name: str, *arguments: str) -> None:
    """Run one command and print what it took."""
    began = time.monotonic()
    with subprocess.Popen([EXECUTABLE, *arguments]) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    print(f"{name:<28} {time.monotonic() - began:8.1f} s {used.ru_maxrss / 1024:10,.0f} MiB peak", flush=True)
    if process.returncode:
        sys.exit(f"{name} ended with {process.returncode}")


def main() -> None:
    """Simulate, ingest, ingest again, scan, features."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=Path(".work/soak"))
    asked = parser.parse_args()
    shutil.rmtree(asked.folder, ignore_errors=True)
    asked.folder.mkdir(parents=True)
    home = ["--home", str(asked.folder / "home")]
    log = str(asked.folder / "jobs.parquet")
    step("simulate", "simulate", "--jobs", str(asked.jobs), "-o", log)
    step("ingest", "ingest", *home, f"parquet:{log}")
    step("ingest the same again", "ingest", *home, f"parquet:{log}")
    step("scan", "jobs", *home, "--summary")
    step("the newest 50", "jobs", *home, "--parsable")
    for phase in ("submit", "start"):
        table = str(asked.folder / f"{phase}.parquet")
        step(f"features at {phase}", "features", *home, "--phase", phase, "-o", table)
    size = sum(path.stat().st_size for path in (asked.folder / "home").rglob("*") if path.is_file())
    print(f"{'the store on disk':<28} {size / 2**20:8,.0f} MiB, {size / asked.jobs:.0f} bytes a job")


if __name__ == "__main__":
    main()
