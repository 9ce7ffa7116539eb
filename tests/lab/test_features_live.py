"""Features of real jobs, computed live, are those that accounting gives later: by each way that there is.

What was seen live is in one store, as it was at that moment; what accounting tells afterwards, in another.
Every field that differs is in `features.slurm_field_differences.DIFFERENT`; those that stay do so of two jobs
here, on purpose.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl
import pytest

from forewarn.config import Config
from forewarn.features.batch import Jobs, columns_at, inputs_of
from forewarn.features.slurm_field_differences import DIFFERENT, EXPLAINED
from forewarn.features.table import feature_frames
from forewarn.job.columns import record_schema
from forewarn.job.outcomes import POLICIES
from forewarn.job.phase import Phase
from forewarn.operate.collector import Collector
from forewarn.operate.history import read_accounting
from forewarn.sources.commands import CommandScheduler
from forewarn.sources.commands.runner import Runner
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.sources.slurmrestd.address import Address
from forewarn.sources.slurmrestd.client import SlurmrestdScheduler
from forewarn.sources.slurmrestd.session import RestSession
from forewarn.sources.slurmrestd.tokens import from_text
from forewarn.sources.slurmrestd.transport import Transport
from forewarn.store.base import Store
from forewarn.store.opening import open_store
from lab.cluster import Lab
from lab.jobs import live_state, submit, wait_ended, wait_quiet, wait_until
from lab.users import ACCOUNTS

WAYS = ("REST", "commands")
# What was asked: fields up to `priority`. Times, result and use carry their own moments.
ASKED = list(record_schema("job"))[: list(record_schema("job")).index("priority") + 1]
ASKED.remove("nodes")
GIVEN = ("nodes", "nodes_given", "cpus_given", "memory_given", "gpus_given", "tres_given")
REQUESTS: dict[str, tuple[str, ...]] = {
    "defaults": (),
    "again": (),
    "all said": ("-t", "7", "-c", "2", "--mem=120", "-p", "short", "-A", ACCOUNTS[1], "-D", "/tmp"),
    "for a cpu": ("-n", "4", "--mem-per-cpu=30", "-t", "1:00:00"),
    "two nodes": ("-N", "2", "-n", "4", "--mem-per-cpu=25"),
    "array": ("--array=0-2%2", "-t", "5"),
    "depends": ("--dependency=afterany:1", "-C", ""),
    "longer": ("-t", "5", "-c", "3"),
    "either": ("-p", "main,short", "-t", "9"),
}
CHANGED = {"longer": "time_limit", "either": "partition"}  # by `scontrol update`, and by being placed


@dataclass
class Seen:
    """One way of reading Slurm: its live store, and what that gave at the moments that count."""

    scheduler: Scheduler
    store: Store
    since: int
    features: dict[str, pl.DataFrame] = field(default_factory=dict)

    def look(self) -> None:
        list(Collector(self.store, self.scheduler, since=self.since).once())


@pytest.fixture
def seen(lab: Lab, tmp_path: Path) -> Iterator[dict[str, Seen]]:
    since = int(time.time())
    path = f"{lab.state / 'bin'}:{os.environ['PATH']}"
    session = RestSession(
        Transport(Address.read(lab.rest_url)), from_text(lab.token("root"), "the lab"), user="root"
    )
    schedulers: dict[str, Scheduler] = {
        "REST": SlurmrestdScheduler(session, cluster="lab"),
        "commands": CommandScheduler(Runner(environ=os.environ | {"PATH": path}), cluster="lab"),
    }
    seen_by_way = {way: Seen(schedulers[way], open_store(Config(home=tmp_path / way)), since) for way in WAYS}
    yield seen_by_way
    for one in seen_by_way.values():
        one.store.close()
        one.scheduler.close()


def test_live_is_later(lab: Lab, seen: dict[str, Seen], tmp_path: Path) -> None:
    wait_quiet(lab)
    since = seen["REST"].since
    ended = [submit(lab, "erin", script=f"exit {code}") for code in (1, 0)]
    wait_ended(lab, ended)
    # What a job's steps used comes some moments after its end: from then on it counts.
    wait_until(lambda: len(used(lab, ended)) == 2, 30, "accounting has what they used")
    for one in seen.values():
        one.look()
    with waiting(lab):
        jobs = {
            name: submit(lab, "erin", "-J", name, *asked, script="sleep 6")
            for name, asked in REQUESTS.items()
        }
        for one in seen.values():
            one.look()
            one.features["submit"] = features(one.store, since, "submit")
        lab.run("root", "scontrol", "update", f"jobid={jobs['longer']}", "timelimit=20")
        for one in seen.values():
            one.look()
    running = [job for name, job in jobs.items() if name != "array"]
    wait_until(lambda: {live_state(lab, job) for job in running} == {"RUNNING"}, 60, "all run", every=0.2)
    for one in seen.values():
        one.look()
        one.features["start"] = features(one.store, since, "start")
    wait_ended(lab, jobs.values())
    for one in seen.values():
        one.look()

    for way, later in (("REST", "slurmdb"), ("commands", "sacct")):
        with open_store(Config(home=tmp_path / later)) as store:
            read_accounting(store, seen[way].scheduler, since)
            for live in WAYS:
                check(seen[live], store, {str(jobs[name]): CHANGED[name] for name in CHANGED})


def used(lab: Lab, jobs: list[int]) -> list[str]:
    """The memory of each job's batch step, as far as accounting has it."""
    asked = ("-a", "-n", "-P", "-o", "JobID,MaxRSS", "-j", ",".join(map(str, jobs)))
    rows = [line.split("|") for line in lab.run("root", "sacct", *asked).splitlines()]
    return [memory for job, memory in rows if job.endswith(".batch") and memory]


@contextmanager
def waiting(lab: Lab) -> Iterator[None]:
    """No job starts: all of them wait, and accounting knows of them, as it does not of held ones."""
    for partition in ("main", "short"):
        lab.run("root", "scontrol", "update", f"partitionname={partition}", "state=down")
    try:
        yield
    finally:
        for partition in ("main", "short"):
            lab.run("root", "scontrol", "update", f"partitionname={partition}", "state=up")


def check(live: Seen, later: Store, changed: dict[str, str]) -> None:
    """Hold what was seen live against what accounting tells."""
    known = asked(live.store, live.since, "submit")
    from_accounting = asked(later, live.since, "submit")
    assert known["job_id"].to_list() == from_accounting["job_id"].to_list()
    assert known.filter(pl.col("user") == "erin").height == 2 + len(REQUESTS) + 2
    for view, fields in (("submit", ASKED), ("start", GIVEN)):
        one, other = asked(live.store, live.since, view), asked(later, live.since, view)
        different = {
            name: (job, *pair)
            for name in fields
            for job, *pair in zip(one["job_id"], one[name], other[name], strict=True)
            if pair[0] != pair[1] and changed.get(job) != name
        }
        unknown = [name for name in different if name not in DIFFERENT]
        stay = [name for name in different if DIFFERENT.get(name, ("",))[0] == EXPLAINED]
        assert not unknown, {name: different[name] for name in unknown}
        assert not stay, {name: different[name] for name in stay}
    for phase in ("submit", "start"):
        afterwards = features(live.store, live.since, phase)
        reconstructed = features(later, live.since, phase, known=live.store, changed=changed)
        assert_same(live.features[phase], afterwards, f"{phase}: of the same store, later")
        assert_same(live.features[phase], reconstructed, f"{phase}: of accounting alone")


def asked(store: Store, since: int, view: str) -> pl.DataFrame:
    frame = pl.concat(store.scan("job", view=view, since=since))  # type: ignore[arg-type]
    return frame.sort("submit", "job_id")


def features(
    store: Store, since: int, phase: str, known: Store | None = None, changed: dict[str, str] | None = None
) -> pl.DataFrame:
    """The table of the jobs since then, with what another store saw of the changed ones and of their ends."""

    def seen_at(view: str, columns: tuple[str, ...]) -> pl.DataFrame:
        frame = pl.concat(store.scan("job", view=view, since=since, columns=columns))  # type: ignore[arg-type]
        if known is not None:
            other = pl.concat(known.scan("job", view=view, since=since, columns=columns))  # type: ignore[arg-type]
            seen = other.select("job_id", "submit", pl.all().exclude("job_id", "submit").name.suffix(" seen"))
            frame = frame.join(seen, on=["job_id", "submit"], how="left", maintain_order="left")
            for name in set((changed or {}).values()) & set(columns):
                jobs = [job for job, field in (changed or {}).items() if field == name]
                frame = frame.with_columns(
                    pl.when(pl.col("job_id").is_in(jobs)).then(f"{name} seen").otherwise(name).alias(name)
                )
            if "known_at" in columns:
                frame = frame.with_columns(known_at="known_at seen")
        return frame.select(columns)

    jobs: Jobs = {view: seen_at(view, columns) for view, columns in columns_at(Phase(phase)).items()}
    inputs = inputs_of([jobs], store.clusters()["lab"], POLICIES["wasted"])
    table = pl.concat(feature_frames(replace(inputs), phase, "generic"))
    return table.sort("submit", "job_id")


def assert_same(live: pl.DataFrame, later: pl.DataFrame, what: str) -> None:
    both = live.join(later, on=["job_id", "submit"], how="left", suffix=" later")
    assert both.height == live.height >= 8
    different = {
        (job, name): (one, other)
        for name in live.columns
        if name not in ("cluster", "job_id", "submit")
        for job, one, other in zip(both["job_id"], both[name], both[f"{name} later"], strict=True)
        if not _equal(one, other)
    }
    assert not different, f"{what}: {different}"


def _equal(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
