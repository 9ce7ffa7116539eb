"""What a steady cluster is asked for: by nobody, by `forewarn collect`, by one `squeue` a minute.

slurmctld and slurmdbd count their calls and the time in them (`sdiag`, `sacctmgr show stats`): both are set
to nothing before each phase, and read after it. The row of nobody is what Slurm does by itself.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.cluster import Lab
from lab.jobs import wait_until

CALLS = re.compile(r"^\s+(\w+)\s+\(\s*\d+\)\s+count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)", re.MULTILINE)
OURSELVES = {"REQUEST_STATS_INFO", "REQUEST_STATS_RESET", "DBD_GET_STATS", "DBD_CLEAR_STATS"}
SUBMIT = """
for n in $(seq {count}); do
  sbatch -Q {where} -J "job$((n % 17))" -t $((60 + n % 50)) -c $((2 + n % 4)) --mem=100 \
    --comment="number $n" -D /tmp -o /dev/null --wrap 'sleep 36000'
done
"""


Calls = dict[str, tuple[int, float]]  # RPC, or user: how many, seconds in all


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a daemon has counted since it was last set to nothing."""

    calls: Calls
    users: Calls


@dataclass(frozen=True, slots=True)
class Phase:
    """What was asked in one phase, and what it cost the daemons."""

    name: str
    requests: int
    received: int
    controller: Calls
    database: Calls
    note: str = ""


def show_load(lab: Lab, count: int, minutes: int) -> None:
    """Print the table of the steady cluster."""
    fill(lab, count)
    running = len(lab.run("root", "squeue", "-h", "-t", "R").splitlines())
    phases = [
        phase(lab, "nobody", lambda: nobody(minutes)),
        phase(lab, "`forewarn collect`", lambda: collector(lab, minutes)),
        phase(lab, "`squeue`, all fields, once a minute", lambda: squeue(lab, minutes)),
        phase(lab, "`squeue`, its default, once a minute", lambda: squeue(lab, minutes, full=False)),
    ]
    print(f"\n{live(lab):,} live jobs, {running} of them running, each phase {minutes} minutes.\n")
    print("| asks | requests a minute | received a minute | slurmctld: calls, ms a minute", end=" ")
    print("| slurmdbd: calls, ms a minute | |\n|---|---|---|---|---|---|")
    for one in phases:
        print(
            f"| {one.name} | {one.requests / minutes:.1f} | {one.received / minutes / 1e6:.2f} MB "
            f"| {per_minute(one.controller, minutes)} | {per_minute(one.database, minutes)} | {one.note} |"
        )
    print("\nOf it, in all the minutes:\n\n| asks | daemon | call | count | ms |\n|---|---|---|---|---|")
    for one in phases:
        for daemon, calls in (("slurmctld", one.controller), ("slurmdbd", one.database)):
            for call, (times, seconds) in sorted(calls.items(), key=lambda item: -item[1][1])[:5]:
                print(f"| {one.name} | {daemon} | {call} | {times} | {seconds * 1000:.1f} |")
    sys.stdout.flush()
    lab.run("root", "scancel", "-u", "alice")


def fill(lab: Lab, count: int, leave: str = "") -> None:
    """Submit so many jobs that run or wait all the time; none of them on the node to leave free."""
    where = f"-x {leave}" if leave else ""
    lab.run("alice", "bash", "-c", SUBMIT.format(count=count, where=where), timeout=1800)
    wait_until(lambda: live(lab) >= count, 120, f"{count} jobs are live")


def live(lab: Lab, user: str | None = None) -> int:
    """Count the pending and running jobs."""
    whose = () if user is None else ("-u", user)
    return len(lab.run("root", "squeue", "-h", "-o", "%i", *whose).splitlines())


def reset(lab: Lab) -> None:
    """Set what the daemons count to nothing."""
    lab.run("root", "sdiag", "-r")
    lab.run("root", "sacctmgr", "-i", "clear", "stats")


def statistics(lab: Lab) -> tuple[Statistics, Statistics]:
    """Return the counters of slurmctld and slurmdbd since their reset."""
    return _counted(lab.run("root", "sdiag")), _counted(lab.run("root", "sacctmgr", "show", "stats"))


def _counted(text: str) -> Statistics:
    calls, users = text.split("statistics by message type")[1].split("statistics by user")
    return Statistics(calls_of(calls), calls_of(users.split("Pending RPC")[0]))


def phase(lab: Lab, name: str, do: Callable[[], tuple[int, int, str]]) -> Phase:
    """Do something, and see what it cost."""
    reset(lab)
    print(f"load: {name}", file=sys.stderr)
    requests, received, note = do()
    controller, database = statistics(lab)
    return Phase(name, requests, received, controller.calls, database.calls, note)


def calls_of(text: str) -> Calls:
    """Return the calls that a daemon counts, by type or by user, without those of reading the counters."""
    found = {name: (int(count), int(time_) / 1e6) for name, count, time_ in CALLS.findall(text)}
    return {name: calls for name, calls in found.items() if name not in OURSELVES}


def per_minute(calls: Calls, minutes: int) -> str:
    """Format a rate per minute."""
    count, seconds = sum(c for c, _ in calls.values()), sum(s for _, s in calls.values())
    return f"{count / minutes:.1f}, {seconds * 1000 / minutes:.1f} ms"


def nobody(minutes: int) -> tuple[int, int, str]:
    """Leave it alone."""
    time.sleep(minutes * 60)
    return 0, 0, ""


def collector(lab: Lab, minutes: int) -> tuple[int, int, str]:
    """Let a collector run that has collected all there is, as people start it."""
    with TemporaryDirectory() as home, collecting(lab, Path(home)) as rounds_so_far:
        reset(lab)
        time.sleep(minutes * 60)
        rounds = rounds_so_far()
    assert not any(done["troubles"] for done in rounds), rounds
    changes = sum(done["changed_jobs"] + done["new_jobs"] for done in rounds[1:])
    note = f"{len(rounds)} rounds, {changes} observations written after the first"
    return sum(r["requests"] for r in rounds), sum(r["received"] for r in rounds), note


@contextmanager
def collecting(lab: Lab, home: Path) -> Iterator[Callable[[], list[Any]]]:
    """Run a collector that has read all history and continues; yield its rounds so far."""
    settings = {"FOREWARN_HOME": str(home), "FOREWARN_SLURMRESTD": lab.rest_url}
    settings |= {"FOREWARN_SLURM_USER": "root", "SLURM_JWT": lab.token("root", 36000)}
    others = {k: v for k, v in os.environ.items() if not k.startswith(("FOREWARN", "SLURM"))}
    command = [sys.executable, "-c", "from forewarn.serve.cli.main import main; main()", "collect"]
    begin = ("--since", "now-1hour")
    subprocess.run([*command, "--once", *begin], env=others | settings, check=True)
    printed = home / "rounds"
    with printed.open("w") as output:
        running = subprocess.Popen([*command, "--json"], env=others | settings, stdout=output)
        try:
            yield lambda: [json.loads(text) for text in json_texts(printed.read_text())]
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait()


def json_texts(text: str) -> list[str]:
    """Split objects printed one after the other, without one that is still being printed."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(text.rstrip()):
        try:
            _, end = decoder.raw_decode(text, at)
        except ValueError:
            break
        found.append(text[at:end])
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return found


def squeue(lab: Lab, minutes: int, *, full: bool = True) -> tuple[int, int, str]:
    """Run squeue once a minute; return the calls and the bytes received."""
    received = 0
    for _ in range(minutes):
        began = time.monotonic()
        received += len(lab.run("root", "squeue", *(("-a", "-o", "%all") if full else ())))
        time.sleep(max(0.0, 60 - (time.monotonic() - began)))
    return minutes, received, ""
