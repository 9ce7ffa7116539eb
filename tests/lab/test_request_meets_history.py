"""A request meets its own history: whatever its jobs were read from, and whoever asks about it.

Real jobs of varied requests run and end. Their history is read in each way that there is, into a store of
its own; then the same requests are asked about in each way that there is. Each time the features must count
exactly the jobs that its user ran with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forewarn.assess.assessor import Assessor
from forewarn.assess.champions import Champions
from forewarn.assess.script import LocalHost
from forewarn.config import Config
from forewarn.features.snapshot import bring_up_to_date
from forewarn.job.outcomes import POLICIES
from forewarn.job.phase import Phase
from forewarn.job.record import Job
from forewarn.learn.data.table import JobTable
from forewarn.learn.registry.serving import Serving
from forewarn.operate.collector import Collector
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.operate.one_shot import read_own_history, stored_assessor
from forewarn.operate.predict import LiveJobSelection, assess_live
from forewarn.operate.script_check import SubmissionContext, check
from forewarn.sources.base import SourceOptions, open_source
from forewarn.sources.commands import CommandScheduler
from forewarn.sources.commands.runner import Runner
from forewarn.sources.commands.scheduler import FIELDS
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.sources.slurmrestd.address import Address
from forewarn.sources.slurmrestd.client import SlurmrestdScheduler
from forewarn.sources.slurmrestd.session import RestSession
from forewarn.sources.slurmrestd.tokens import from_text
from forewarn.sources.slurmrestd.transport import Transport
from forewarn.store.base import ClusterFacts, Store
from forewarn.store.filters import Equal, Missing
from forewarn.store.opening import open_store
from lab.cluster import Lab
from lab.jobs import wait_ended
from lab.synthetic import FIRST_JOB, delete_jobs, load_jobs
from lab.versions import DEFAULT, VERSIONS
from tests.lab.conftest import LABS, one_version
from tests.lab.site import EXECUTABLE, Site
from tests.lab.test_features_live import waiting

USER = "erin"
# Options in the script. Each asks for something that no other test does: a person's own history has all that
# they ran in earlier tests.
REQUESTS = {
    "defaults": "-c 3",  # partition, time limit and memory are the site's
    "memory": "-c 3 -p main -t 5 --mem=130",
    "per-cpu": "-n 2 -c 3 -t 7 --mem-per-cpu=30",
    "tasks": "-n 5 -t 5",
    "nodes": "-N 2 --ntasks-per-node=3 -t 6 --mem=90",
    "array": "-c 3 -t 8 --array=0-1",
    "short": "-c 3 -p short",  # its time limit is the partition's largest
    "whole-node": "-c 3 -t 9 --mem=0",
    "rounded": "-c 3 -t 0:90 --mem=20000K",
    "wrap": "-c 5 -t 4 -J wrap",
}
SOURCES = ("sacct text", "sacct JSON", "slurmrestd file", "collected by REST", "collected by commands")
CASES = [
    pytest.param(version, source, marks=LABS[version].marks, id=f"{version}-{source}")
    for version in VERSIONS
    for source in (SOURCES if version == DEFAULT else SOURCES[::3])
]
REST_VERSIONS = {"22.05": "v0.0.38", "24.11": "v0.0.42", "26.05": "v0.0.44"}


@dataclass(frozen=True)
class Ran:
    """The jobs that ran, those that wait, and how to read them."""

    lab: Lab
    since: int
    ended: dict[str, int]  # how many of each request
    pending: dict[str, int]  # the id of one more of each
    scripts: dict[str, Path]
    rest: Scheduler
    commands: Scheduler
    path: str  # where Slurm's commands are found


@pytest.fixture(scope="module")
def ran(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    folder, since = tmp_path_factory.mktemp("met"), int(time.time())
    scripts = {name: folder / f"{name}.sh" for name in REQUESTS}
    for name, script in scripts.items():
        script.write_text(f"#!/bin/sh\n#SBATCH {REQUESTS[name]}\ntrue\n")
    times = {name: 1 + place % 3 for place, name in enumerate(REQUESTS)}
    wait_ended(lab, [submitted(lab, scripts[name]) for name in REQUESTS for _ in range(times[name])])
    path = f"{lab.state / 'bin'}:{os.environ['PATH']}"
    session = RestSession(
        Transport(Address.read(lab.rest_url)), from_text(lab.token("root"), "the lab"), user="root"
    )
    rest = SlurmrestdScheduler(session, cluster="lab")
    commands = CommandScheduler(Runner(environ=os.environ | {"PATH": path}), cluster="lab")
    with waiting(lab):
        tasks = {name: 2 if "--array" in options else 1 for name, options in REQUESTS.items()}
        ended = {name: times[name] * tasks[name] for name in REQUESTS}
        pending = {name: submitted(lab, script) for name, script in scripts.items()}
        yield Ran(lab, since, ended, pending, scripts, rest, commands, path)
        lab.run(USER, "scancel", "-u", USER)
    rest.close()


def submitted(lab: Lab, script: Path) -> int:
    """As a person would: a file in their home, or a command by --wrap; the job's id."""
    command = f"cat > ~/{script.name} && sbatch --parsable ~/{script.name}"
    if script.stem == "wrap":
        command = "sbatch --parsable -c 5 -t 4 --wrap true"
    output = lab.run(USER, "sh", "-c", command, text=script.read_text())
    return int(output.strip().split(";")[0])


@pytest.mark.parametrize(("lab", "source"), CASES, indirect=["lab"], scope="session")
def test_every_asker_meets_the_history(
    ran: Ran, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Assessor, "table", counting := Counting(Assessor.table))
    with open_store(Config(home=tmp_path / "home")) as store:
        read(ran, source, store)
        there = known(ran, store)
        met = {"check": by_check(ran, store, counting)}
        for session, scheduler in (("predict", ran.rest), ("advise", ran.commands)):
            met[session] = by_live(ran, store, scheduler, counting, full=session == "advise")
    missed = {
        f"{name} by {session}": f"{counts[name]} of {there[name]}"
        for session, counts in met.items()
        for name in REQUESTS
        if counts[name] != there[name]
    }
    assert not missed


@one_version
def test_a_person_on_a_login_node_meets_their_own(
    ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Assessor, "table", counting := Counting(Assessor.table))
    monkeypatch.setenv("PATH", ran.path)
    config = Config(home=tmp_path / "own", known_delay=0, cluster="lab")
    with open_store(Config(home=read_own_history(config, USER))) as store:
        assert by_check(ran, store, counting) == known(ran, store)


@one_version
def test_what_the_readme_says_to_type(
    ran: Ran, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sacct` into a file, `ingest`, `train`, `check`; and a model whose fields are read otherwise later."""
    load_jobs(ran.lab, 2500, days=14)
    # What fails is told by the time limit: a model beats each simple rule, and serves.
    ending = "state = IF(timelimit = 10, 5, 3), exit_code = IF(timelimit = 10, 256, 0)"
    ran.lab.sql(f"UPDATE lab_job_table SET {ending} WHERE id_job > {FIRST_JOB};")
    try:
        history = tmp_path / "history.txt"
        history.write_text(saved(ran, "sacct text", since=int(time.time()) - 17 * 86400))
    finally:
        delete_jobs(ran.lab)
    site.run("ingest", f"sacct:{history}")
    site.run("train", "--family", "online")
    assert checked(site, ran.scripts["per-cpu"])["route"]["model"] == "lab.submit.generic"
    monkeypatch.setattr(Assessor, "table", counting := Counting(Assessor.table))
    with open_store(Config(home=site.home)) as store:
        assert by_check(ran, store, counting) == known(ran, store)
        with store.writing() as writer:
            writer.describe_cluster("lab", ClusterFacts())
    route = checked(site, ran.scripts["per-cpu"])["route"]
    assert route["model"] != "lab.submit.generic"
    assert "trained when fields were read differently" in route["passed"][0]


def checked(site: Site, script: Path) -> Any:
    command = [str(EXECUTABLE), "check", str(script), "-u", USER, "--no-test-only", "--json"]
    done = subprocess.run(command, env=site.environment, capture_output=True, text=True, check=False)
    assert done.returncode < 3, done.stderr  # it may warn of the time that it needs
    return json.loads(done.stdout)


# --- sources ---------------------------------------------------------------------------------------


def read(ran: Ran, source: str, store: Store) -> None:
    if source.startswith("collected"):
        scheduler = ran.rest if source.endswith("REST") else ran.commands
        list(Collector(store, scheduler, since=ran.since).once())
        return
    file = ran.scripts["wrap"].with_name(source)
    file.write_text(saved(ran, source, since=ran.since))
    scheme = "slurmrestd" if source.startswith("slurmrestd") else "sacct"
    report = ingest(store, open_source(f"{scheme}:{file}", SourceOptions(cluster="lab")))
    review_missing_fields(store, report.clusters)


def saved(ran: Ran, source: str, *, since: int) -> str:
    asked = ("sacct", "-a", "-D", "-S", f"uts{since}")
    if source == "sacct JSON":
        return ran.lab.run("root", *asked, "--json")
    if source == "sacct text":
        there = {name.lower() for name in ran.lab.run("root", "sacct", "--helpformat").split()}
        fields = ",".join(name for name in FIELDS if name.lower() in there)
        return ran.lab.run("root", "env", "SLURM_TIME_FORMAT=%s", *asked, "-P", "-o", fields)
    version = REST_VERSIONS[ran.lab.settings.version]
    request = urllib.request.Request(
        f"{ran.lab.rest_url}/slurmdb/{version}/jobs?start_time=uts{since}",
        headers={"X-SLURM-USER-NAME": "root", "X-SLURM-USER-TOKEN": ran.lab.token("root")},
    )
    with urllib.request.urlopen(request) as answer:
        return str(answer.read().decode())


def known(ran: Ran, store: Store) -> dict[str, int]:
    """How many jobs of each request a store knows as ended, by the name of their script."""
    over = ~Missing("outcome") & ~Equal("outcome", "cancelled")  # of the pending ones before
    frames = store.scan(columns=["name", "user", "outcome"], where=Equal("user", USER) & over)
    names = {name if name == "wrap" else f"{name}.sh": name for name in REQUESTS}
    counted = Counter(names[name] for frame in frames for name in frame["name"] if name in names)
    # More where this test runs for the second time.
    assert all(counted[name] >= ran.ended[name] for name in REQUESTS), counted
    return {name: counted[name] for name in REQUESTS}


# --- askers ----------------------------------------------------------------------------------------


class Counting:
    """`Assessor.table`, which remembers how many earlier jobs with its request each job was seen to have."""

    def __init__(self, table: object) -> None:
        self._table = table
        self.met: dict[str, int] = {}  # by job id; of an array by the array's

    def __get__(self, assessor: Assessor, _: type) -> object:
        def table(phase: Phase, jobs: Sequence[Job]) -> JobTable:
            job_table: JobTable = self._table(assessor, phase, jobs)  # type: ignore[operator]
            for job, count in zip(jobs, job_table.column("user_request_ended"), strict=True):
                # Advice asks again of the job with changes.
                self.met.setdefault(str(job.array_job_id or job.job_id), int(count))
            return job_table

        return table


def by_check(ran: Ran, store: Store, counting: Counting) -> dict[str, int]:
    policy, now, found = POLICIES["wasted"], int(time.time()), {}
    bring_up_to_date(store, "lab", policy)
    for name, script in ran.scripts.items():
        assessor = stored_assessor(store, Champions("lab", None), now)
        submission = SubmissionContext(
            host=LocalHost(),
            cluster="lab",
            user=USER,
            at=now,
            work_dir=script.parent,
            assessor=assessor,
            ask_slurm=False,
        )
        check(script.read_bytes(), script, submission)
        found[name] = counting.met.pop("")
    return found


def by_live(
    ran: Ran, store: Store, scheduler: Scheduler, counting: Counting, *, full: bool
) -> dict[str, int]:
    wanted = LiveJobSelection(job_ids=[str(job) for job in ran.pending.values()])
    serving = Serving(ran.scripts["wrap"].with_name("no models"))
    assess_live(store, scheduler, serving, wanted, at=int(time.time()), full=full)
    return {name: counting.met.pop(str(job)) for name, job in ran.pending.items()}
