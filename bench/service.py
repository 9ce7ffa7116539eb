"""The service on loopback, against a bare FastAPI endpoint that returns a constant, and against the library.

    python -m bench.service [--jobs 20000] [--trials 4] [--seconds 4] [--rounds 3] [--home HOME]
    python -m bench.service --soak 10

On a simulated cluster (`small`) with a model of all families, or on a home with a model. Each request is for
another job of the history. Both servers are measured in turns; the ratio is that of the medians. On a busy
machine the ratio of the processor time for one answer is the steadier figure: it is shown beside.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import median
from urllib.request import Request, urlopen

import uvloop

import forewarn
from bench.http_load import Load, Target, ask_in_turn, put_load, read_stream, request
from forewarn.config import Config
from forewarn.job.record import Job
from forewarn.operate.assess_jobs import assess_jobs
from forewarn.operate.site import Site
from forewarn.operate.workspace import Workspace

BODIES, BATCH = 2000, 1000
CONNECTIONS = (1, 8, 64)
FIELDS = (
    *("name", "user", "account", "partition", "qos", "work_dir", "cpus_asked", "nodes_asked", "tasks_asked"),
    *("gpus_asked", "memory_asked", "memory_per", "time_limit"),
)
WARM_UP = 60.0  # seconds of a soak before the memory is looked at: caches fill


def main(jobs: int, trials: int, seconds: float, rounds: int, home: Path | None, soak_minutes: float) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if home is None:
            home = folder / "home"
            prepare(home, folder, jobs, trials)
        with forewarn.open(home) as site:
            requested = site.jobs(limit=BODIES)
        bodies = [json.dumps(body_of(job)).encode() for job in requested]
        service = [sys.executable, "-m", "forewarn", "serve", "--listen", "127.0.0.1:0", "--no-collect"]
        pid, port = stack.enter_context(started(service, folder / "service.log", home))
        brief, full = (Target(pid, port, f"/v1/assess?detail={detail}") for detail in ("brief", "full"))
        print(f"Load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n")
        if soak_minutes:
            uvloop.run(soak(brief, bodies, soak_minutes * 60))
            return
        bare = [sys.executable, "-m", "bench.bare_endpoint"]
        constant = Target(*stack.enter_context(started(bare, folder / "bare.log", home)), "/constant")
        uvloop.run(compare(constant, brief, full, bodies, seconds, rounds))
        compare_batch(brief, home, requested, rounds)


def prepare(home: Path, folder: Path, jobs: int, trials: int) -> None:
    """Simulate a history and train a model of it."""
    with forewarn.open(home) as site:
        simulated = site.simulate("small", jobs=jobs, seed=3, output=folder / "jobs.parquet", machine=folder)
        site.ingest(*simulated.sources)
        site.train(trials=trials)


def body_of(job: Job) -> dict[str, object]:
    """Return the request of a job as a program posts it."""
    return {name: value for name in FIELDS if (value := getattr(job, name)) is not None}


@contextmanager
def started(command: list[str], log: Path, home: Path) -> Iterator[tuple[int, int]]:
    """Run a server until the end of the block; return its process id and port."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FOREWARN_")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=clean | {"FOREWARN_HOME": str(home)}
        )
    try:
        ends = time.monotonic() + 120
        while not (found := re.search(r"listening on http://\S+:(\d+)", log.read_text())):
            if process.poll() is not None or time.monotonic() > ends:
                raise SystemExit(f"{command} did not start: {log.read_text()}")
            time.sleep(0.1)
        yield process.pid, int(found[1])
    finally:
        process.terminate()
        process.wait(60)


async def compare(
    constant: Target, brief: Target, full: Target, bodies: list[bytes], seconds: float, rounds: int
) -> None:
    """Measure the three in turns, and print a table."""
    print(
        "| connections | answer | a second | of the constant's | p50, ms | p99, ms | CPU, of the constant's |"
    )
    print("|---|---|---|---|---|---|---|")
    targets = {"a constant": constant, "in brief": brief, "in full": full}
    for target in targets.values():
        await put_load(target, bodies, 8, min(seconds, 1.0))
    for connections in CONNECTIONS:
        loads: dict[str, list[Load]] = {name: [] for name in targets}
        for _ in range(rounds):
            for name, target in targets.items():
                loads[name].append(await put_load(target, bodies, connections, seconds))
        bare_rate, bare_cpu = _medians(loads["a constant"])
        for name, measured in loads.items():
            rate, cpu = _medians(measured)
            p50, p99 = (median(load.quantile(level) for load in measured) * 1e3 for level in (0.5, 0.99))
            times = f"{p50:.1f} | {p99:.1f} | {cpu / bare_cpu:.1f} ×"
            print(f"| {connections} | {name} | {rate:,.0f} | {rate / bare_rate:.2f} | {times} |")
            if errors := [error for load in measured for error in load.errors]:
                raise SystemExit(f"{len(errors)} errors, the first: {errors[0]!r}")


def _medians(loads: list[Load]) -> tuple[float, float]:
    return median(load.rate for load in loads), median(load.cpu_per_answer for load in loads)


def compare_batch(brief: Target, home: Path, jobs: list[Job], rounds: int) -> None:
    """Compare a batch over HTTP with the same call in this process, in turns, and with `Site.assess`.

    `Site.assess` also forecasts CPU efficiency and I/O, and finds profiles.
    """
    bodies = [body_of(job) for job in (jobs * BATCH)[:BATCH]]
    sent = json.dumps({"jobs": bodies}).encode()
    url = f"http://127.0.0.1:{brief.port}/v1/assess/batch?detail=brief"
    asked = Request(url, sent, {"Content-Type": "application/json"})
    calls: dict[str, list[float]] = {"service": [], "same call": [], "Site.assess": []}
    with Workspace(Config(home=home), long_lived=True) as workspace:
        site = Site(workspace.config, workspace)
        now = int(time.time())
        records = [Job(cluster=jobs[0].cluster, job_id="", submit=now, **body) for body in bodies]  # type: ignore[arg-type]
        for _ in range(2 * rounds + 1):
            begun = time.perf_counter()
            with urlopen(asked) as answer:
                content = answer.read()
            served = time.perf_counter()
            assess_jobs(workspace, records, prediction_only=True)
            called = time.perf_counter()
            assessments = site.assess(records)
            ended = time.perf_counter()
            times = (served - begun, called - served, ended - called)
            for taken, one in zip(calls.values(), times, strict=True):
                taken.append(one)
            assert len(json.loads(content)["assessments"]) == len(assessments)
    service, same, library = (median(taken[1:]) * 1e3 for taken in calls.values())
    print(
        f"\nA batch of {BATCH:,}: {service:.0f} ms, the same call in a process {same:.0f} ms: "
        f"{service / same:.2f} times; Site.assess {library:.0f} ms: {service / library:.2f} times."
    )


async def soak(target: Target, bodies: list[bytes], seconds: float) -> None:
    """Send requests of all kinds for long, with readers of events, and print the memory on the way."""
    begun = time.perf_counter()
    until, load, slow = begun + seconds, Load(), Load()
    brief = [request(target.path, body) for body in bodies]
    full = [request("/v1/assess?detail=full", body) for body in bodies[:200]]
    batch = request("/v1/assess/batch", b'{"jobs":[%b]}' % b",".join(bodies[:50]))
    routes = ("/v1/jobs?limit=20", "/v1/thresholds", "/v1/models", "/metrics", "/openapi.json", "/readyz")
    others = [batch, *(request(route, method="GET") for route in routes)]
    random = Random(1)
    tasks = [
        *(ask_in_turn(target.port, cycle(random.sample(brief, len(brief))), until, load) for _ in range(8)),
        ask_in_turn(target.port, cycle(full), until, slow, pause=0.1),
        ask_in_turn(target.port, cycle(others), until, slow, pause=0.1),
        *(read_stream(target.port, "/v1/events", until) for _ in range(4)),
    ]
    work = asyncio.gather(*tasks)
    steps = 10
    await asyncio.sleep(min(WARM_UP, seconds / 5))
    first, shown = target.resident(), []
    for step in range(steps):
        left = until - time.perf_counter()
        await asyncio.sleep(max(left / (steps - step) - 0.2, 0))
        shown.append(target.resident())
    await work
    answers, errors = len(load.latencies) + len(slow.latencies), load.errors + slow.errors
    print(
        f"{seconds / 60:.1f} minutes, {answers:,} answers, {len(errors)} errors, 4 streams: "
        f"{first:.0f} MiB after the warm-up, then {', '.join(f'{one:.0f}' for one in shown)} MiB "
        f"({shown[-1] / first - 1:+.1%}); in brief p50 {load.quantile(0.5) * 1e3:.1f} ms, "
        f"p99 {load.quantile(0.99) * 1e3:.1f} ms."
    )
    for error in {error[:200] for error in errors}:
        print(error)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--soak", type=float, default=0.0, metavar="MINUTES")
    given = parser.parse_args()
    main(given.jobs, given.trials, given.seconds, given.rounds, given.home, given.soak)
