"""Scripts as sbatch reads them, and as we do: submitted held, then compared with what slurmctld has.

Fields that no script tells, and that are not compared:

- `account`, `qos`, `memory_asked`, `memory_per` of a job that asks for none: the site's defaults, which are
  in its accounting and its slurm.conf; our reading has None there and names them in `defaulted`;
- `tres_asked`: holds the site's billing weights, and memory by the site's default;
- `priority`, `eligible`, `state`, `reason` and all that is given or used: slurmctld's own;
- what `EXCEPT` lists, each with its reason.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from forewarn.assess.script import LocalHost, ask_sbatch, findings
from forewarn.assess.wording import finding as what
from forewarn.job.columns import to_records
from forewarn.job.record import Job, Partition
from forewarn.job.sbatch.script import read_script
from forewarn.sources.commands import CommandScheduler
from forewarn.sources.commands.runner import Runner
from lab.cluster import Lab
from lab.jobs import wait_until
from lab.versions import VERSIONS
from tests.job.sbatch.corpus import REFUSED, SCRIPTS, idle, script
from tests.lab.conftest import boot

FIELDS = (
    *("name", "account", "partition", "qos", "reservation", "constraint", "nodes_asked", "tasks_asked"),
    *("cpus_asked", "memory_asked", "memory_per", "time_limit", "gpus_asked", "array_tasks", "dependency"),
    *("work_dir", "user"),
)
OF_THE_SITE = {"account", "qos", "memory_asked", "memory_per"}
# (version or None for all, script, fields): why they cannot agree.
EXCEPT: dict[tuple[str | None, str, tuple[str, ...]], str] = {
    (None, "mem_per_gpu", ("memory_asked", "memory_per")): "our reader of scontrol knows nodes and CPUs only",
    (
        None,
        "mem_zero",
        ("memory_asked",),
    ): "`--mem=0` is recorded as what a node has: assess/defaults.py fills it in",
    ("22.05", "cpus_per_gpu", ("cpus_asked",)): "22.05 counts the CPUs of GPUs when the job starts",
    ("22.05", "tasks_per_node_too", ("nodes_asked",)): "22.05 counts the nodes of tasks when the job starts",
    ("26.05", "singleton", ("dependency",)): "26.05 forgets at once a dependency that is fulfilled",
    ("26.05", "job_abbreviated", ("dependency",)): "the same",
}
NOT_IN = {"22.05": {"escaped"}}  # an escaped blank ended a word then: that script was refused
MORE = "GresTypes=gpu,nvme\nAccountingStorageTRES=gres/gpu\n"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            version,
            marks=[pytest.mark.lab, pytest.mark.xdist_group(f"lab-{version}"), pytest.mark.timeout(300)],
        )
        for version in VERSIONS
    ],
)
def richer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab of its own, whose slurmctld believes in GPUs, disks and features: held jobs need no more."""
    lab = boot(request.param, tmp_path_factory.mktemp("lab"))
    config = lab.state / "etc/slurm/slurm.conf"
    nodes = config.read_text().replace(
        " State=UNKNOWN", " Gres=gpu:v100:4,nvme:2000 Feature=skylake,ib State=UNKNOWN"
    )
    config.write_text(nodes + MORE)
    lab.daemons.stop("slurmctld")
    lab.daemons.start("slurmctld")
    when = ("starttime=now+100days", "duration=1:00:00", f"nodes={lab.settings.node_names[0]}", "users=alice")
    wait_until(
        lambda: lab.try_run("root", "scontrol", "create", "reservation=course", *when).returncode == 0,
        30,
        "slurmctld makes a reservation",
    )
    yield lab
    lab.down()
    shutil.rmtree(lab.state)


@pytest.fixture(scope="module")
def target(richer: Lab) -> int:
    """A job to depend on."""
    return held(richer, "target", script("-J target"))


def held(lab: Lab, name: str, text: str, *options: str) -> int:
    """Submit a script from a file of its own, held; the job's number."""
    output = lab.run("alice", "sbatch", "--parsable", "--hold", *options, place(lab, name, text))
    return int(output.strip().split(";")[0])


def place(lab: Lab, name: str, text: str) -> str:
    """Write a script where alice finds it."""
    folder = lab.state / "home/alice/scripts"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(text.encode())
    return f"/home/alice/scripts/{name}"


def filled(text: str, lab: Lab, job: int) -> str:
    nodes = lab.settings.node_names
    text = text.replace("@NODES@", ",".join(nodes[:2])).replace("@NODE@", nodes[0])
    return text.replace("@JOB@", str(job))


def scheduler(lab: Lab) -> CommandScheduler:
    return CommandScheduler(
        Runner(environ=os.environ | {"PATH": f"{lab.state / 'bin'}:{os.environ['PATH']}"})
    )


def seen(lab: Lab) -> dict[int, Job]:
    """What scontrol shows of the jobs that are there, by number."""
    with closing(scheduler(lab)) as commands:
        jobs = [job for batch in commands.live_jobs() for job in to_records(batch.frame, Job)]
    return {int(job.job_id.partition("_")[0].partition("+")[0]): job for job in jobs}


def partitions(lab: Lab) -> tuple[Partition, ...]:
    with closing(scheduler(lab)) as commands:
        return tuple(p for batch in commands.partitions() for p in to_records(batch.frame, Partition))


def unlike(ours: Job, theirs: Job, lab: Lab, name: str) -> dict[str, tuple[Any, Any]]:
    """The fields that differ and should not."""
    mine, shown = asdict(ours), asdict(theirs)
    left = set((ours.defaulted or "").split(","))
    found = {}
    for field in FIELDS:
        if field in OF_THE_SITE and mine[field] is None and {field, "memory_asked"} & left:
            continue
        if any(
            version in (None, lab.settings.version) and script_name == name and field in fields
            for version, script_name, fields in EXCEPT
        ):
            continue
        if field == "array_tasks" and theirs.array_task_id is not None:
            shown[field] = str(theirs.array_task_id)  # an array of one task is shown as that task
        if mine[field] != shown[field]:
            found[field] = (mine[field], shown[field])
    return found


def test_a_hundred_scripts(richer: Lab, target: int) -> None:
    """Each field that a script tells is what slurmctld has."""
    assert len(SCRIPTS) >= 100
    known = partitions(richer)
    version = richer.settings.version
    left_out = NOT_IN.get(version, set())
    texts = {n: filled(text, richer, target) for n, text in SCRIPTS.items() if n not in left_out}
    for name in left_out:
        assert read_script(SCRIPTS[name], slurm=version).problems
    numbers = {name: held(richer, name, text) for name, text in texts.items()}
    jobs = seen(richer)
    differ = {}
    for name, text in texts.items():
        ours = read_script(text, slurm=version)
        assert not [problem for problem in ours.problems if problem.refused], name
        job = ours.job("lab", "alice", 0, "/home/alice", script_name=name, partitions=known)
        if wrong := unlike(job, jobs[numbers[name]], richer, name):
            differ[name] = wrong
    richer.run("root", "scancel", "--user=alice", "--state=PENDING", f"--name={','.join(SCRIPTS)}")
    assert not differ


def test_what_sbatch_refuses(richer: Lab) -> None:
    """We call wrong what sbatch refuses, and say so."""
    accepted, unnoticed = [], []
    for name, text in REFUSED.items():
        path = place(richer, name, text)
        if richer.try_run("alice", "sbatch", "--parsable", "--hold", path).returncode == 0:
            accepted.append(name)
        found = findings(read_script(text, slurm=richer.settings.version), Path("/tmp/x"), LocalHost())
        if not [finding for finding in found if finding.severity == "error"]:
            unnoticed.append(name)
    assert not accepted
    assert not unnoticed


@pytest.mark.parametrize(
    ("lines", "environment", "command_line"),
    [
        (("-n 2", "-t 5"), {"SBATCH_TIMELIMIT": "7"}, ()),
        (("-n 2", "-t 5"), {"SBATCH_TIMELIMIT": "7"}, ("-t", "9")),
        (("-n 2",), {"SBATCH_PARTITION": "low", "SBATCH_ACCOUNT": "teaching"}, ("--partition=main",)),
        (("--mem=400",), {"SBATCH_MEM_PER_NODE": "600"}, ()),
        (("--mem=400",), {}, ("--mem=500",)),
        ((), {"SBATCH_MEM_PER_CPU": "150"}, ("--mem=500",)),
        (("--mem=500",), {"SBATCH_MEM_PER_CPU": "150"}, ()),
        (("-J script",), {"SBATCH_JOB_NAME": "environment"}, ()),
        (("-N 2", "--ntasks-per-node=2"), {}, ("-n", "3")),
        ((), {"SBATCH_GRES": "gpu:2", "SBATCH_CONSTRAINT": "ib"}, ("--constr=skylake",)),
        (("-a 1-3",), {"SBATCH_ARRAY_INX": "1-5%2"}, ()),
    ],
)
def test_who_goes_over_whom(
    richer: Lab,
    lines: tuple[str, ...],
    environment: dict[str, str],
    command_line: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command line over the environment over the script."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    text = script(*lines)
    number = held(richer, "precedence", text, *command_line)
    ours = read_script(
        text, command_line=command_line, environment=environment, slurm=richer.settings.version
    )
    job = ours.job("lab", "alice", 0, "/home/alice", script_name="precedence", partitions=partitions(richer))
    assert not unlike(job, seen(richer)[number], richer, "")
    richer.run("root", "scancel", str(number))


def test_components(richer: Lab) -> None:
    """Of a heterogeneous job each component has its own options."""
    text = script("-n 2", "--mem=50", "hetjob", "-n 3", "--mem=60")
    number = held(richer, "het", text)
    shown = richer.run("root", "scontrol", "-o", "show", "job", str(number)).splitlines()
    richer.run("root", "scancel", str(number))
    tasks = [word.removeprefix("NumTasks=") for line in shown for word in line.split() if "NumTasks=" in word]
    assert [options.value("ntasks") for options in read_script(text).components] == tasks == ["2", "3"]


def test_memory_of_two_kinds(richer: Lab) -> None:
    """The command line does not go over the script's other kind of memory: sbatch refuses both."""
    text = idle("--mem=500")
    path = place(richer, "kinds", text)
    assert richer.try_run("alice", "sbatch", "--hold", "--mem-per-cpu=100", path).returncode != 0
    found = findings(read_script(text, command_line=["--mem-per-cpu=100"]), Path("/tmp/x"), LocalHost())
    assert [finding.rule for finding in found if finding.severity == "error"] == ["conflict"]


def test_sbatch_is_asked(richer: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--test-only` tells what Slurm itself says, all of it, of a script that no file holds."""
    monkeypatch.setenv("LAB_USER", "alice")
    around = os.environ | {"PATH": f"{richer.state / 'bin'}:{os.environ['PATH']}"}
    refused = ask_sbatch(script("-p nowhere").encode(), environment=around)
    assert refused is not None
    assert (refused.accepts, refused.finding.severity) == (False, "error")
    assert "invalid partition specified: nowhere" in what(refused.finding)
    dos = ask_sbatch(b"#!/bin/sh\r\ntrue\r\n", environment=around)
    assert dos is not None
    assert "DOS line breaks" in what(dos.finding)
    assert "instead of expected UNIX line breaks" in what(dos.finding), "both lines of it"


def test_an_answer_that_holds_for_now_only(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all nodes drained `--test-only` turns any job down; submitted, it is taken and waits."""
    monkeypatch.setenv("LAB_USER", "alice")
    around = os.environ | {"PATH": f"{lab.state / 'bin'}:{os.environ['PATH']}"}
    good = ask_sbatch(script("-n 2", "-t 5").encode(), environment=around)
    assert good is not None
    assert good.accepts is True, good
    assert "would start" in what(good.finding)
    nodes = ",".join(lab.settings.node_names)
    lab.run("root", "scontrol", "update", f"nodename={nodes}", "state=drain", "reason=test")
    try:
        answer = ask_sbatch(script("-n 2", "-t 5").encode(), environment=around)
    finally:
        lab.run("root", "scontrol", "update", f"nodename={nodes}", "state=resume")
    assert answer is not None
    assert (answer.accepts, answer.finding.severity) == (None, "warning")


def test_who_makes_the_folder_of_the_output(lab: Lab) -> None:
    """Slurm 22.05 fails the job, newer ones make the folder: what `check` says goes by the version."""
    version = tuple(map(int, lab.settings.version.split(".")))
    where = f"made-{os.getpid()}"
    number = lab.run(
        "alice", "sbatch", "--parsable", "-D", "/home/alice", "-o", f"{where}/deep/%j.out", "--wrap", "true"
    )
    job = int(number.strip().split(";")[0])
    wait_until(lambda: state_of(lab, job) is not None, 60, "the job ends")
    assert state_of(lab, job) == ("FAILED" if version <= (22, 5) else "COMPLETED")


def state_of(lab: Lab, job: int) -> str | None:
    """How a job ended, by accounting; None while it has not."""
    job_state = lab.run("root", "sacct", "-X", "-n", "-P", "-o", "State", "-j", str(job)).strip()
    return job_state if job_state in ("COMPLETED", "FAILED") else None
