"""Jobs on a lab: submit them as a person would, see what became of them, wait for it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.nodes import node_states

if TYPE_CHECKING:
    from lab.cluster import Lab

ENDLESS = frozenset({"PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING"})
"""States in which a job is still in flight."""


@dataclass(frozen=True, slots=True)
class Record:
    """What sacct says of one job, array task, or earlier run of a requeued job."""

    job_id: str
    state: str
    """Its first word: `CANCELLED` also where sacct adds by whom."""
    exit_code: str
    ended: bool
    whole: bool
    """Whether slurmdbd has the job's own record. 22.05 hears of a short job's step and end first: until up to
    some seconds later such a row says nothing that was asked for, and a window of time does not show it."""


def submit(lab: Lab, user: str, *options: str, script: str) -> int:
    """Submit a script with options of sbatch, from the user's home; the job's id."""
    output = lab.run(user, "sbatch", "--parsable", *options, text=f"#!/bin/bash\n{script}\n")
    return int(output.strip().split(";")[0])


def records(lab: Lab, jobs: Iterable[int]) -> list[Record]:
    """Return the accounting records of jobs, with earlier runs of requeued ones, oldest first."""
    ids = ",".join(map(str, jobs))
    options = ("-a", "-X", "-D", "-n", "-P", "-o", "JobID,State,ExitCode,End,Partition", "-j", ids)
    rows = [line.split("|") for line in lab.run("root", "sacct", *options).splitlines()]
    return [
        Record(job, state.split()[0], code, end != "Unknown", partition != "")
        for job, state, code, end, partition in rows
    ]


def live_state(lab: Lab, job: int) -> str | None:
    """Return the state of a job that slurmctld still has, such as RUNNING; None if it does not."""
    result = lab.try_run("root", "scontrol", "-o", "show", "job", str(job))
    for word in result.stdout.split():
        if word.startswith("JobState="):
            return word.removeprefix("JobState=")
    return None


def wait_until(done: Callable[[], bool], timeout: float, what: str, *, every: float = 0.5) -> None:
    """Ask again and again; a LabError that says what did not come after so many seconds."""
    deadline = time.monotonic() + timeout
    while not done():
        if time.monotonic() > deadline:
            raise LabError(f"after {timeout:g} s still not: {what}")
        time.sleep(every)


def wait_running(lab: Lab, job: int, timeout: float = 60) -> None:
    """Wait until a job runs."""
    wait_until(lambda: live_state(lab, job) == "RUNNING", timeout, f"job {job} is running", every=0.2)


def wait_ended(lab: Lab, jobs: Iterable[int], timeout: float = 180) -> None:
    """Wait until accounting has all of every job, of every task of an array, of the last run of each."""
    waited = list(jobs)

    def all_ended() -> bool:
        try:
            found = records(lab, waited)
            incomplete = lab.sql(
                f"SELECT COUNT(*) FROM {lab.settings.cluster}_job_table "
                f"WHERE `partition` = '' AND id_job >= {min(waited, default=0)};"
            )
        except LabError:  # slurmdbd may be on its way back
            return False
        if incomplete.strip() != "0":  # a task whose row does not name its array yet
            return False
        known = {int(re.split("[_+]", record.job_id)[0]) for record in found}  # 7_1, 7+1
        return known == set(waited) and all(r.ended and r.whole and r.state not in ENDLESS for r in found)

    wait_until(all_ended, timeout, f"accounting has the ends of {waited}", every=1)


def wait_quiet(lab: Lab, timeout: float = 120) -> None:
    """Wait until no job is on a node, the nodes are idle again, and slurmctld has told slurmdbd all."""
    on_nodes = ("squeue", "-h", "-t", "running,completing,configuring,suspended,stopped", "-o", "%i")

    def is_quiet() -> bool:
        try:
            busy = lab.run("root", *on_nodes).split()
            queue_is_empty = "DBD Agent queue size: 0" in lab.run("root", "sdiag")
            return not busy and queue_is_empty and set(node_states(lab).values()) == {"idle"}
        except LabError:  # a daemon may be on its way back
            return False

    wait_until(is_quiet, timeout, "no job is on a node, the nodes are idle, accounting has been told")
