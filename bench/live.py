"""Forewarn beside a real Slurm: a long history collected whole, and what a steady cluster is asked for.

    python -m bench.live                              # 300,000 jobs, then 1,000 live ones; as root, 45 min
    python -m bench.live --jobs 30000 --days 9 --minutes 2
    python -m bench.live --only history               # or: --only load, --only ends

Boots a lab of its own (docs/lab.md), which is gone afterwards; with --state one is kept and used again.

History: jobs made up in the accounting database, collected by `operate.Collector` into a store, by REST and
by sacct, each in a process of its own; in turns with each request the same by curl, with each command the
same by itself, answers thrown away. Load: see bench/live_load.py, and
bench/live_ends.py. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

from bench.live_ends import show_ends
from bench.live_load import show_load
from forewarn.config import Config
from forewarn.operate.collector import Collector
from forewarn.sources.commands import CommandScheduler
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.connect import connect
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.sources.slurmrestd.client import SlurmrestdScheduler
from forewarn.store.opening import open_store
from lab.cluster import Lab, start_lab
from lab.errors import LabMissingError
from lab.synthetic import load_jobs
from lab.versions import DEFAULT, VERSIONS

TENTHS = 10


@dataclass(slots=True)
class Collected:
    """What one collection took; `asked` is how many URLs, or commands."""

    seconds: float
    waited: float  # of them, in requests or commands
    bare: float  # seconds that the same questions take without us
    received: int
    peaks: list[int]  # bytes of ours, after each tenth of the jobs
    asked: int


def restless(_: float) -> None:
    """Do not rest between rounds: the collector's rests are not part of the measurement."""


# --- in a process of its own ----------------------------------------------------------------------


def collect(lab: Lab, way: str, home: Path, jobs: int, days: int) -> Collected:
    """Collect everything; each question, right before or after it is asked, is asked without us too."""
    config, environ = site(lab, way)
    pairs = Pairs(lab, way)
    peaks: list[int] = []
    with open_store(Config(home=home)) as store, closing(connect(config, environ=environ)) as scheduler:
        pairs.join(scheduler)
        since = int(time.time()) - (days + 5) * 86400
        collector = Collector(
            store, scheduler, since=since, most_jobs=jobs // TENTHS, clock=Clock(sleep=restless)
        )
        began = time.perf_counter()
        seconds = 0.0
        for _ in collector.once():
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
            seconds = time.perf_counter() - began - pairs.bare
            print(f"{way}: {store.count():,} jobs, {seconds:.1f} s, bare {pairs.bare:.1f} s", file=sys.stderr)
        received = scheduler.request_counts.received
        return Collected(seconds, pairs.waited, pairs.bare, received, peaks, pairs.asked)


def site(lab: Lab, way: str) -> tuple[Config, dict[str, str]]:
    """Return the configuration of a site that reads this lab by REST or by Slurm's commands."""
    environ = os.environ | {"PATH": f"{lab.state / 'bin'}:{os.environ['PATH']}"}
    if way == "sacct":
        return Config(scheduler="commands"), environ
    return Config(slurmrestd=lab.rest_url, slurm_token=lab.token("root", 36000), slurm_user="root"), environ


class Pairs:
    """What is asked through a scheduler, and the same by curl, or by the command alone: in turns.

    So what else the machine does meets both; and neither always comes second, to a database that is warm.
    Which one does is drawn: questions of different kinds come in turns themselves.
    """

    def __init__(self, lab: Lab, way: str) -> None:
        self.asked, self.waited, self.bare = 0, 0.0, 0.0
        self._luck = random.Random(7)
        self._base = lab.rest_url
        token = lab.token("root", 36000)
        header = ["-H", "X-SLURM-USER-NAME: root", "-H", f"X-SLURM-USER-TOKEN: {token}"]
        self._curl = ["curl", "-s", "-f", "-o", "/dev/null", *header]
        self._environ = site(lab, way)[1] | {"SLURM_TIME_FORMAT": "%s"}

    def join(self, scheduler: Scheduler) -> None:
        """Ask each request of a scheduler without Forewarn too, from here on."""
        if isinstance(scheduler, SlurmrestdScheduler):
            transport = scheduler.session.transport
            ask = transport.ask

            def paired_ask(method: str, path: str, **rest: Any) -> Any:
                query = urlencode(rest.get("query") or {}, doseq=True)
                alone = [*self._curl, f"{self._base}{path}?{query}"]
                return self._pair(lambda: ask(method, path, **rest), alone)

            transport.ask = paired_ask  # type: ignore[method-assign]
        elif isinstance(scheduler, CommandScheduler):
            runner = scheduler.runner
            run = runner._run

            def paired_run(command: tuple[str, ...], stdin: str = "") -> Any:
                return self._pair(lambda: run(command, stdin), list(command))

            runner._run = paired_run  # type: ignore[method-assign]

    def _pair(self, ours: Callable[[], Any], alone: list[str]) -> Any:
        self.asked += 1
        alone_first = self._luck.random() < 0.5
        if alone_first:
            self._ask(alone)
        began = time.perf_counter()
        answer = ours()
        self.waited += time.perf_counter() - began
        if not alone_first:
            self._ask(alone)
        return answer

    def _ask(self, alone: list[str]) -> None:
        began = time.perf_counter()
        subprocess.run(alone, check=True, env=self._environ, stdout=subprocess.DEVNULL)
        self.bare += time.perf_counter() - began


# --- around it ------------------------------------------------------------------------------------


def measured(lab: Lab, options: argparse.Namespace, way: str, home: Path) -> tuple[Collected, int]:
    """Run one collection; return it and the peak memory of slurmrestd meanwhile."""
    for what in ("stop", "start"):  # its peak begins anew
        getattr(lab.daemons, what)("slurmrestd")
    command = [sys.executable, "-m", "bench.live", "--state", str(lab.state), "--jobs", str(options.jobs)]
    command += ["--days", str(options.days)]
    process = subprocess.run(
        [*command, "--collect", way, "--home", str(home)], check=True, stdout=subprocess.PIPE, text=True
    )
    return Collected(**json.loads(process.stdout)), lab.daemons.peak_memory_bytes("slurmrestd") or 0


def compare(lab: Lab, home: Path, days: int) -> str:
    """Compare the store with sacct, in words."""
    options = ("-a", "-X", "-D", "-n", "-P", "-S", f"now-{days + 5}days", "-o", "JobID,Submit")
    sacct_rows = lab.run("root", "env", "SLURM_TIME_FORMAT=%s", "sacct", *options, timeout=600).splitlines()
    with open_store(Config(home=home), read_only=True) as store:
        ours = Counter(
            f"{job}|{submit}"
            for frame in store.scan(columns=["job_id", "submit"])
            for job, submit in frame.iter_rows()
        )
    missing, twice = set(sacct_rows) - ours.keys(), sum(ours.values()) - len(ours)
    return f"{len(sacct_rows):,} by sacct, {len(ours):,} by us, {len(missing):,} missing, {twice:,} twice"


def show_history(lab: Lab, options: argparse.Namespace) -> None:
    """Print the table of the long history."""
    load_jobs(lab, options.jobs, options.days)
    rows, found = [], []
    for way, name in (("REST", "curl"), ("sacct", "sacct")):
        with TemporaryDirectory() as folder:
            home = Path(folder)
            got, rest_peak = measured(lab, options, way, home)
            found.append(f"{way}: {compare(lab, home, options.days)}")
        peaks = [got.peaks[0], got.peaks[len(got.peaks) // 2], got.peaks[-1]]
        rest = f"{rest_peak / 1e6:,.0f} MB" if way == "REST" else "-"
        rows.append(
            f"| {way} | {got.asked:,} | {got.received / 1e6:,.0f} MB | {got.seconds:.0f} s "
            f"| {got.waited:.0f} s | {got.bare:.0f} s ({name}) | {got.seconds / got.bare:.2f} | {rest} "
            f"| {', '.join(f'{peak / 1e6:.0f}' for peak in peaks)} MB |"
        )
    print(
        f"\n{options.jobs:,} jobs of {options.days} days, Slurm {options.slurm}. Found: {'; '.join(found)}.\n"
    )
    print(
        "| | requests | received | ours | of it waiting | the same bare | ratio | slurmrestd's peak", end=" "
    )
    print("| our peak after the first tenth, half, all |")
    print("|---|---|---|---|---|---|---|---|---|")
    print("\n".join(rows), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=300_000)
    parser.add_argument("--days", type=int, default=90, help="that these jobs are spread over")
    parser.add_argument("--live-jobs", type=int, default=1_000)
    parser.add_argument("--minutes", type=int, default=5, help="of each of the three phases of the load")
    parser.add_argument("--ends", type=int, nargs="+", default=[10, 60, 200], help="jobs a minute")
    parser.add_argument("--slurm", choices=VERSIONS, default=DEFAULT)
    parser.add_argument("--state", type=Path, help="keep the lab here, up; the one that is up is used")
    parser.add_argument("--only", choices=["history", "load", "ends"])
    parser.add_argument("--collect", choices=["REST", "sacct"], help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.collect:
        got = collect(Lab(options.state), options.collect, options.home, options.jobs, options.days)
        print(json.dumps(asdict(got)))
        return
    with TemporaryDirectory() as folder:
        kept = options.state is not None
        state = options.state or Path(folder)
        is_up = (state / "lab.json").exists() and Lab(state).is_up
        try:
            lab = Lab(state) if is_up else start_lab(options.slurm, state, dies_with_me=not kept)
        except LabMissingError as error:
            print(f"not run: {error}", file=sys.stderr)
            sys.exit(error.exit_code)
        try:
            if options.only in (None, "history"):
                show_history(lab, options)
            if options.only in (None, "load"):
                show_load(lab, options.live_jobs, options.minutes)
            if options.only in (None, "ends"):
                show_ends(lab, options.live_jobs, options.ends, options.minutes)
        finally:
            if not kept:
                lab.down()


if __name__ == "__main__":
    main()
