"""Time `forewarn check` as a process: with a service, without, and beside `python -c pass`, alternated.

    python bench/remote_check.py HOME SCRIPT [RUNS]

Starts a service on a copy of HOME. Prints medians of wall and CPU time, and ratios of the same run: on a busy
machine the ratios and the CPU time say more than the clock.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def measure(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Return the seconds by the clock and of CPU of one process."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(home: str, script: str, runs: str = "9") -> None:
    """Measure and print."""
    from tests.serve.rest.running import start_service

    clean = {name: value for name, value in os.environ.items() if not name.startswith("FOREWARN_")}
    clean.pop("PYTHONDONTWRITEBYTECODE", None)  # the first run compiles, as the installation does
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(home, Path(folder) / "home", symlinks=True)
        service = start_service(copy, Path(folder) / "log", collect="never")
        check = [sys.executable, "-m", "forewarn", "check", script]
        ways = {
            "python -c pass": ([sys.executable, "-c", "pass"], clean),
            "import httpx": ([sys.executable, "-c", "import httpx"], clean),
            "check with a service": (check, {**clean, "FOREWARN_URL": service.url}),
            "check without": (check, {**clean, "FOREWARN_HOME": str(copy)}),
        }
        try:
            for command, environment in ways.values():  # caches of files and of the service
                measure(command, environment)
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
            for _ in range(int(runs)):
                for name, (command, environment) in ways.items():
                    found[name].append(measure(command, environment))
        finally:
            service.stop()
    base = statistics.median(cpu for _, cpu in found["python -c pass"])
    for name, times in found.items():
        wall, cpu = (statistics.median(one) for one in zip(*times, strict=True))
        least_wall, least_cpu = (min(one) for one in zip(*times, strict=True))
        shown = f"wall {wall:.3f} s (least {least_wall:.3f}), CPU {cpu:.3f} s (least {least_cpu:.3f})"
        print(f"{name:22} {shown}, {cpu / base:.1f} × python")


if __name__ == "__main__":
    main(*sys.argv[1:])
