"""`forewarn explain` on real endings: it names the cause that each of them had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from forewarn.assess.post_mortem.explain import explain
from forewarn.assess.post_mortem.find_job import find_job
from forewarn.assess.post_mortem.report import PostMortem
from forewarn.config import Config
from forewarn.sources.slurm.connect import connect
from forewarn.sources.slurm.scheduler import Scheduler
from lab.cluster import Lab
from lab.endings import Ending
from lab.jobs import submit, wait_ended, wait_until

COMMAND = (sys.executable, "-c", "from forewarn.serve.cli.main import main; main()", "explain")
# Of each ending the phase and the family of its cause; None: nothing failed, or only its output could tell.
CAUSES: dict[str, tuple[str, str | None]] = {
    "completed": ("ended", None),
    "steps": ("ended", None),
    "exit_code": ("ended", None),
    "signal": ("ended", "crash"),
    "out_of_memory": ("ended", "out_of_memory"),
    "timeout": ("ended", "time_limit"),
    "deadline": ("ended", "deadline"),
    "cancelled_pending": ("ended", "cancelled"),
    "cancelled_running": ("ended", "cancelled"),
    "dependency": ("ended", None),
    "dependency_never": ("ended", "dependency"),
    "held": ("pending", None),
    "released": ("ended", None),
    "requeued": ("ended", None),
    "preempted": ("ended", "preempted"),
    "node_fail": ("ended", "node_failure"),
}
# What people get wrong, and what is then found in their output.
MISTAKES = {
    "command": ("set -e\necho begin\nno_such_solver --fast", "command_missing", "no_such_solver"),
    "package": ("python3 -c 'import no_such_package'", "python_package", "No module named 'no_such_package'"),
    "file": ("set -e\ncat /no/such/input.dat\nsrun true", "file_missing", "/no/such/input.dat"),
    "step": ("srun -n 64 hostname", "step_launch", "Unable to create step"),
    "memory": ("python3 -c 'bytearray(1 << 50)'", "out_of_memory", "MemoryError"),
}


@dataclass(frozen=True)
class Explainer:
    """Somebody who asks for an explanation beside a lab, without a store."""

    lab: Lab
    by_rest: Scheduler
    by_commands: Scheduler

    def __call__(self, job: object, log: Path | None = None, *, commands: bool = False) -> PostMortem:
        scheduler = self.by_commands if commands else self.by_rest
        found = find_job(str(job), None, scheduler)
        return explain(found.job, details=found.details, log=log)


@pytest.fixture
def environment(lab: Lab, tmp_path: Path) -> dict[str, str]:
    others = {k: v for k, v in os.environ.items() if not k.startswith(("FOREWARN", "SLURM"))}
    return others | {
        "FOREWARN_HOME": str(tmp_path / "home"),
        "FOREWARN_CLUSTER": lab.settings.cluster,
        "FOREWARN_SLURMRESTD": lab.rest_url,
        "FOREWARN_SLURM_USER": "root",
        "SLURM_JWT": lab.token("root", 3600),
        "PATH": f"{lab.state / 'bin'}:{others['PATH']}",
    }


@pytest.fixture
def explainer(lab: Lab, environment: dict[str, str]) -> Iterator[Explainer]:
    config = Config(
        cluster=lab.settings.cluster, slurmrestd=lab.rest_url, slurm_user="root", scheduler="slurmrestd"
    )
    with (
        closing(connect(config, environ=environment)) as by_rest,
        closing(connect(replace(config, scheduler="commands"), environ=environment)) as by_commands,
    ):
        yield Explainer(lab, by_rest, by_commands)


def test_every_ending_has_its_cause(explainer: Explainer, endings: dict[str, Ending]) -> None:
    wrong = {}
    for name, expected in CAUSES.items():
        report = explainer(endings[name].job_id)
        if (report.phase, report.family) != expected:
            wrong[name] = (report.phase, report.family, report.cause)
    assert not wrong
    held = explainer(endings["held"].job_id)
    assert "held by its user" in held.cause
    assert f"scontrol release {endings['held'].job_id}" in held.what_to_do[0]
    array = explainer(endings["array"].job_id)
    assert array.job_id == f"{endings['array'].job_id}_1", "the task that failed"
    assert [step.name for step in array.steps] == ["batch"], "with what there is to know of this task"


def test_commands_say_the_same(explainer: Explainer, endings: dict[str, Ending]) -> None:
    for name in ("signal", "out_of_memory", "timeout", "held", "node_fail"):
        by_rest, by_commands = (explainer(endings[name].job_id, commands=how) for how in (False, True))
        for field in ("family", "cause", "confidence", "phase"):
            assert getattr(by_commands, field) == getattr(by_rest, field), (name, field)
    assert explainer(endings["steps"].job_id, commands=True).steps


def test_the_output_is_found_and_read(explainer: Explainer, endings: dict[str, Ending]) -> None:
    """As the user sees it: a path of the lab is not one of this machine, so it is named by hand."""
    killed = endings["out_of_memory"]
    (log,) = explainer(killed.job_id).logs
    path = f"/home/alice/out_of_memory.{killed.job_id}_4294967294.out"
    # What the controller has forgotten, accounting does not tell in 22.05.
    assert log.path == path or (log.guessed and explainer.lab.settings.version == "22.05")
    with_log = explainer(killed.job_id, Path(f"{explainer.lab.state}{path}"))
    assert (with_log.family, with_log.confidence) == ("out_of_memory", "certain")
    # Some versions write why into the output, of others it has only the shell's word.
    assert with_log.log[0].pattern in ("slurm-oom-kill", "shell-killed"), with_log.log


def test_mistakes_are_read_from_the_output(explainer: Explainer) -> None:
    lab = explainer.lab
    jobs = {
        name: submit(lab, "bob", "-J", name, "--mem=60", "-t", "2", "-o", "mistake.%x.out", script=script)
        for name, (script, _, _) in MISTAKES.items()
    }
    wait_ended(lab, jobs.values())
    for name, (_, family, quoted) in MISTAKES.items():
        path = lab.state / f"home/bob/mistake.{name}.out"
        report = explainer(jobs[name], path)
        assert report.family == family, (name, report.cause, path.read_text())
        lines = path.read_text().splitlines()
        assert quoted in report.log[0].text, (name, report.log)
        assert lines[report.log[0].line - 1] == report.log[0].text, "quoted from the line that it names"
        assert report.confidence in ("likely", "very likely", "certain")


def test_what_slurm_refused(explainer: Explainer) -> None:
    """It keeps a record of it as of a failed job, with an exit code that is none."""
    lab = explainer.lab
    report = lab.try_run("bob", "sbatch", "-J", "refused", "-t", "1", "--mem=900G", "--wrap", "true")
    assert report.returncode != 0
    listed = ("sacct", "-a", "-X", "-n", "-P", "-o", "JobID", "--name", "refused")
    wait_until(lambda: bool(lab.run("root", *listed).strip()), 60, "accounting has the refused job")
    number = lab.run("root", *listed).split()[-1]
    for commands in (False, True):
        refused = explainer(number, commands=commands)
        assert refused.family == "refused", refused.cause
        assert not any(fact.source == "exit code" for fact in refused.evidence)


def test_the_command(endings: dict[str, Ending], environment: dict[str, str]) -> None:
    asked = str(endings["timeout"].job_id)
    done = subprocess.run([*COMMAND, asked, "--json"], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["family"] == "time_limit"
