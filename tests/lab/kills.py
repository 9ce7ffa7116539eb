"""A collector killed at any moment, slurmrestd restarted under it: nothing missing, nothing twice.

    python -m tests.lab.kills --kills 50 --slurm 24.11      # as root: boots a lab of its own

`tests/lab/test_end_to_end.py` does it in short.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.cluster import start_lab
from lab.errors import LabMissingError
from lab.jobs import submit, wait_ended
from lab.versions import DEFAULT, VERSIONS
from tests.lab.site import EXECUTABLE, Site, by_sacct

RESTARTS = 4  # of so many kills, one finds slurmrestd on its way back


def kill_again_and_again(
    site: Site, times: int, *, seed: int = 7, say: Callable[[str], None] = lambda _: None
) -> list[int]:
    """Kill a collector at any moment, slurmrestd restarted in between; the jobs that there were meanwhile."""
    luck = random.Random(seed)
    jobs = [submit(site.lab, "carol", "--array=0-3", script="exit $((SLURM_ARRAY_TASK_ID % 2))")]
    command = [str(EXECUTABLE), "collect", "--since", "now-1hour", "--interval", "1"]
    for turn in range(times):
        jobs.append(submit(site.lab, "carol", script=f"sleep {turn % 3}; exit {turn % 2}"))
        running = subprocess.Popen(command, env=site.environment, stderr=subprocess.DEVNULL)
        time.sleep(luck.uniform(0.5, 4))
        if turn % RESTARTS == RESTARTS - 1:
            site.lab.daemons.kill("slurmrestd")
            time.sleep(luck.uniform(0, 1))
            site.lab.daemons.start("slurmrestd")
            time.sleep(luck.uniform(0, 1.5))
        running.send_signal(signal.SIGKILL)
        running.wait()
        say(f"{turn + 1} kills")
    wait_ended(site.lab, jobs)
    site.run("collect", "--once")
    return jobs


def main() -> int:
    """Do it at length, on a lab of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--slurm", choices=VERSIONS, default=DEFAULT)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        try:
            lab = start_lab(options.slurm, Path(folder) / "lab", dies_with_me=True)
        except LabMissingError as error:
            print(f"not run: {error}", file=sys.stderr)
            return error.exit_code
        try:
            site = Site(lab, Path(folder) / "home")
            say = partial(print, file=sys.stderr)
            jobs = kill_again_and_again(site, options.kills, seed=options.seed, say=say)
            ours, theirs = site.has(jobs), by_sacct(lab, jobs)
        finally:
            lab.down()
    missing, more = theirs - ours, Counter({job: n for job, n in ours.items() if n > 1}) + (ours - theirs)
    print(
        f"Slurm {options.slurm}: {options.kills} kills, {options.kills // RESTARTS} restarts of slurmrestd, "
        f"{theirs.total()} jobs by sacct, {ours.total()} by us: "
        f"{missing.total()} missing or different, {more.total()} twice or unknown to sacct"
    )
    return int(ours != theirs)


if __name__ == "__main__":
    sys.exit(main())
