"""The same job by every version of slurmrestd, by sacct and by scontrol: equal in what they share."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from forewarn.job.columns import KEYS, record_schema
from forewarn.sources.commands import CommandScheduler
from forewarn.sources.commands.runner import Runner
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.sources.slurmrestd.address import Address
from forewarn.sources.slurmrestd.client import SlurmrestdScheduler
from forewarn.sources.slurmrestd.session import RestSession
from forewarn.sources.slurmrestd.tokens import from_text
from forewarn.sources.slurmrestd.transport import Transport
from lab.cgroups import can_limit_memory
from lab.cluster import Lab
from lab.endings import GROW
from lab.jobs import records, submit, wait_ended, wait_until

RecordsByWay = dict[str, dict[tuple[Any, ...], dict[str, Any]]]  # by way and key of the job
# What docs/sources.md says that they tell differently.
DIFFERENT = {"reason", "exit_signal", "memory_asked", "memory_per", "defaulted", "cpu_time"}
KILLED = "killed"  # of which a step ran out of memory, while the script ends with a code of its own
NUMBERS = {"v0.0.36": {"user", "group"}, "v0.0.37": {"group"}}


@pytest.fixture
def jobs(lab: Lab) -> Iterator[list[int]]:
    ended = [
        submit(lab, "bob", "-J", "good", "-t", "5", "-c", "2", "--mem=50", script="true"),
        submit(lab, "bob", "-J", "bad", "--comment=a b=c", script="exit 3"),
        submit(lab, "carol", "-J", "many", "--array=0-2%2", "-D", "/tmp", script="exit $SLURM_ARRAY_TASK_ID"),
        submit(lab, "carol", "-J", "steps", "-N", "2", "-n", "4", script="srun true"),
        submit(lab, "carol", "-J", KILLED, "--mem=50", script=f"srun {GROW} || exit 1"),
    ]
    held = submit(lab, "bob", "-J", "held", "--hold", "--dependency=afterany:1", script="true")
    # Accounting may hear of the last task of an array before it hears of the others.
    wait_until(lambda: len(records(lab, ended)) == 7, 120, "accounting has every task")
    wait_ended(lab, ended)
    time.sleep(2)  # slurmctld cleans up after a job has ended
    yield [*ended, held]
    lab.run("bob", "scancel", str(held))


def test_equal_in_what_they_share(lab: Lab, jobs: list[int]) -> None:
    begin = int(time.time()) - 600
    all_records: RecordsByWay = {}
    for way, scheduler in ways(lab):
        with closing(scheduler):
            live = [batch.frame for batch in scheduler.live_jobs()]
            past = [piece.batch.frame for piece in scheduler.history(begin)]
        for area, frames in (("live", live), ("past", past)):
            all_records[f"{way} {area}"] = {
                tuple(row[name] for name in KEYS["job"]): row
                for frame in frames
                for row in frame.iter_rows(named=True)
                if int(re.split("[_+]", row["job_id"])[0]) in jobs  # array tasks, parts of het jobs
            }
    assert len(all_records) >= 6
    keys = next(iter(all_records.values())).keys()
    assert len(keys) == 8
    held = {key for key in keys if key[1] == str(jobs[-1])}
    for way, rows in all_records.items():
        # A job that was never eligible overlaps no window of accounting's.
        assert keys - rows.keys() <= (held if way.endswith("past") else set()), way
    differ = {
        (key[1], field): by_way
        for key in keys
        for field in record_schema("job").keys() - DIFFERENT
        if len(set((by_way := values(all_records, key, field)).values())) > 1
    }
    assert not differ
    killed = {way: row for way, rows in all_records.items() for row in rows.values() if row["name"] == KILLED}
    by_step = "out_of_memory" if can_limit_memory() else "failed"
    assert {way: (row["state"], row["outcome"]) for way, row in killed.items()} == dict.fromkeys(
        all_records, ("FAILED", by_step)
    )


def values(all_records: RecordsByWay, key: tuple[Any, ...], field: str) -> dict[str, Any]:
    """What each way tells of a field, those that tell it."""
    return {
        way: rows[key][field]
        for way, rows in all_records.items()
        if key in rows and rows[key][field] is not None and field not in NUMBERS.get(way.split()[0], ())
    }


def ways(lab: Lab) -> Iterator[tuple[str, Scheduler]]:
    def client() -> SlurmrestdScheduler:
        transport = Transport(Address.read(lab.rest_url))
        session = RestSession(transport, from_text(lab.token("root", 600), "the lab"), user="root")
        return SlurmrestdScheduler(session)

    with closing(client()) as first:
        served = first.session.served
    for version in served.versions:
        one = client()
        for other in served.versions:
            if other != version:
                one.session._served = (one.session._served or served).without(other)
        yield version, one
    path = f"{lab.state / 'bin'}:{os.environ['PATH']}"
    yield "commands", CommandScheduler(Runner(environ=os.environ | {"PATH": path}))
