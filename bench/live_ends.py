"""What `forewarn collect` asks of Slurm where jobs end: so many a minute, each of them a real one.

A person submits jobs of a second, one by one, at an even pace; meanwhile a collector runs that has collected
all there was. slurmdbd (`sacctmgr show stats`) and slurmctld (`sdiag`) count the time that they spend on each
user, and on each kind of call. Of slurmdbd only the collector asks as root; of slurmctld the nodes do too,
but nobody else asks for information. They count from when the collector has been at it for some minutes, so
that it reads as much as it will for ever.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.live_load import Calls, collecting, fill, live, reset, statistics
from forewarn.config import Config
from forewarn.store.opening import open_store
from lab.cluster import Lab
from lab.jobs import wait_until
from tests.lab.site import by_sacct

USER, WATCHER = "bob", "carol"  # who submits jobs that end, and who types squeue
SETTLING = 200  # seconds after which each round of a collector reads as much as the one before
SQUEUES = 10
# A script of its own for each. They end within a second, on a node that others leave free.
SUBMIT = """
for n in $(seq {count}); do
  sbatch -w {node} -J "end$((n % 17))" -t 2 --mem=50 -o /dev/null --parsable --wrap "true # $n" &
  sleep {pause}
done
wait
"""


@dataclass(frozen=True, slots=True)
class Ends:
    """What one rate of ends cost, in so many minutes."""

    minutes: float
    ended: int  # jobs, as accounting has it
    rounds: int
    received: int
    controller: tuple[int, float]  # calls of the collector, seconds
    database: tuple[int, float]
    squeue: float  # seconds of slurmctld for one
    found: str
    calls: Calls  # of slurmdbd, of all users


def show_ends(lab: Lab, count: int, rates: Sequence[int], minutes: int) -> None:
    """Print the table of a cluster where jobs end."""
    *_, free = lab.settings.node_names
    fill(lab, count, leave=free)
    measured = [at_rate(lab, rate, minutes, free) for rate in rates]
    print(f"\n{live(lab):,} other live jobs, {minutes} minutes of each rate, of the collector alone:\n")
    print("| ends a minute | received a minute | slurmctld: calls, ms a minute | one `squeue`", end=" ")
    print("| slurmdbd: calls, ms a minute | nothing lost |\n|---|---|---|---|---|---|")
    for one in measured:
        print(
            f"| {one.ended / one.minutes:.0f} | {one.received / one.minutes / 1e6:.2f} MB "
            f"| {_a_minute(one.controller, one.minutes)} | {one.squeue * 1000:.1f} ms "
            f"| {_a_minute(one.database, one.minutes)} | {one.found} |"
        )
    print("\nslurmdbd by call, of everybody:\n\n| ends a minute | call | a minute | ms a minute |")
    print("|---|---|---|---|")
    for one in measured:
        for call, (times, seconds) in sorted(one.calls.items(), key=lambda item: -item[1][1])[:8]:
            a_minute = f"{times / one.minutes:.1f} | {seconds * 1000 / one.minutes:.1f}"
            print(f"| {one.ended / one.minutes:.0f} | {call} | {a_minute} |")
    sys.stdout.flush()
    lab.run("root", "scancel", "-u", "alice")


def at_rate(lab: Lab, rate: int, minutes: int, node: str) -> Ends:
    """Let so many jobs end a minute, and see what a collector costs meanwhile."""
    print(f"ends: {rate} a minute", file=sys.stderr)
    count = int(rate * (minutes + SETTLING / 60 + 1))
    submit = SUBMIT.format(count=count, node=node, pause=round(60 / rate, 3))
    outputs: list[str] = []
    submitter = threading.Thread(
        target=lambda: outputs.append(lab.run(USER, "bash", "-c", submit, timeout=3600)), daemon=True
    )
    with TemporaryDirectory() as home, collecting(lab, Path(home)) as rounds:
        submitter.start()
        time.sleep(SETTLING)
        before = rounds()
        reset(lab)
        began = time.time()
        time.sleep(minutes * 60)
        after = rounds()[len(before) :]
        controller, database = statistics(lab)
        took = time.time() - began
        squeue = _one_squeue(lab)  # now: slurmctld shows it, too, what has ended within MinJobAge
        submitter.join()
        jobs = [int(word) for word in outputs[0].split()]
        wait_until(lambda: live(lab, USER) == 0, 300, "all have ended")
        time.sleep(SETTLING)
        found = _found(lab, Path(home), jobs)
    assert not any(done["troubles"] for done in after), after
    window = ("-S", f"uts{int(began)}", "-E", f"uts{int(began + took)}", "-s", "COMPLETED,FAILED")
    ended = lab.run("root", "sacct", "-u", USER, "-X", "-n", "-P", "-o", "JobID,End", *window).splitlines()
    return Ends(
        took / 60,
        len(ended),
        len(after),
        sum(done["received"] for done in after),
        _information(controller.calls),
        database.users.get("root", (0, 0.0)),
        squeue,
        found,
        database.calls,
    )


def _information(calls: Calls) -> tuple[int, float]:
    asked = [both for name, both in calls.items() if "_INFO" in name]
    return sum(count for count, _ in asked), sum(seconds for _, seconds in asked)


def _a_minute(calls: tuple[int, float], minutes: float) -> str:
    return f"{calls[0] / minutes:.1f}, {calls[1] * 1000 / minutes:.1f} ms"


def _one_squeue(lab: Lab) -> float:
    """Seconds of slurmctld for one, as a person types it."""
    reset(lab)
    for _ in range(SQUEUES):
        lab.run(WATCHER, "squeue")
    return statistics(lab)[0].users[WATCHER][1] / SQUEUES


def _found(lab: Lab, home: Path, jobs: list[int]) -> str:
    """Compare the jobs of a collector that was never stopped with sacct, in words."""
    theirs = by_sacct(lab, jobs)
    with open_store(Config(home=home), read_only=True) as store:
        columns = ["job_id", "submit", "outcome", "cpu_time"]
        rows = [row for frame in store.scan(columns=columns) for row in frame.iter_rows()]
    ours = Counter((job, at, outcome or "") for job, at, outcome, _ in rows if int(job.split("_")[0]) in jobs)
    used = sum(cpu is not None for job, _, _, cpu in rows if int(job.split("_")[0]) in jobs)
    return f"{theirs.total()} by sacct, {(theirs - ours).total()} missing, {used} with what they used"
