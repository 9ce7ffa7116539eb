"""How fast the simulator is: jobs a second of CPU time, by format, and the memory it needs.

python bench/simulate.py [JOBS] [SCENARIO]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from forewarn.sources.simulator import WRITERS, Simulator, load_scenario, simulate


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    name = sys.argv[2] if len(sys.argv) > 2 else "default"
    began = time.process_time()
    for _ in Simulator(load_scenario(name), seed=1, jobs=1000):
        pass
    print(f"compile (or load from the cache), 1,000 jobs: {time.process_time() - began:.1f} s")
    began = time.process_time()
    for _ in Simulator(load_scenario(name), seed=1, jobs=jobs):
        pass
    report("frames only", jobs, time.process_time() - began)
    with tempfile.TemporaryDirectory() as folder:
        for form in WRITERS:
            out = Path(folder) / f"jobs.{form}"
            began = time.process_time()
            simulate(name, jobs, 1, out, form)
            report(f"{form}, {out.stat().st_size / 1e6:,.0f} MB", jobs, time.process_time() - began)
            out.unlink()


def report(what: str, jobs: int, seconds: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {jobs:,} jobs in {seconds:.1f} s CPU, {jobs / seconds:,.0f} jobs/s, peak {peak:,.0f} MB")


if __name__ == "__main__":
    main()
