"""`forewarn explain` on real endings: it names the cause that each of them had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Lab
from lab.endings import Ending
from lab.jobs import submit, wait_ended

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


class Explainer:
    """Somebody who asks for an explanation beside a lab, without a store."""

    def __init__(self, lab: Lab, home: Path) -> None:
        self.lab = lab
        others = {k: v for k, v in os.environ.items() if not k.startswith(("FOREWARN", "SLURM"))}
        self._base = others | {"FOREWARN_HOME": str(home), "FOREWARN_CLUSTER": lab.settings.cluster}
        self._rest = {
            "FOREWARN_SLURMRESTD": lab.rest_url,
            "FOREWARN_SLURM_USER": "root",
            "SLURM_JWT": lab.token("root", 3600),
        }
        self._commands = {"PATH": f"{lab.state / 'bin'}:{others['PATH']}", "FOREWARN_SCHEDULER": "commands"}

    def __call__(self, job: object, *args: object, commands: bool = False) -> Any:
        how = self._commands if commands else self._rest
        done = subprocess.run(
            [*COMMAND, str(job), "--json", *map(str, args)],
            env=self._base | how,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def explainer(lab: Lab, tmp_path: Path) -> Explainer:
    return Explainer(lab, tmp_path / "home")


def test_every_ending_has_its_cause(explainer: Explainer, endings: dict[str, Ending]) -> None:
    wrong = {}
    for name, expected in CAUSES.items():
        said = explainer(endings[name].job_id)
        if (said["phase"], said["family"]) != expected:
            wrong[name] = (said["phase"], said["family"], said["cause"])
    assert not wrong
    held = explainer(endings["held"].job_id)
    assert "held by its user" in held["cause"]
    assert f"scontrol release {endings['held'].job_id}" in held["what_to_do"][0]
    array = explainer(endings["array"].job_id)
    assert array["job_id"] == f"{endings['array'].job_id}_1", "the task that failed"


def test_commands_say_the_same(explainer: Explainer, endings: dict[str, Ending]) -> None:
    for name in ("signal", "out_of_memory", "timeout", "held", "node_fail"):
        by_rest, by_commands = (explainer(endings[name].job_id, commands=how) for how in (False, True))
        for field in ("family", "cause", "confidence", "phase"):
            assert by_commands[field] == by_rest[field], (name, field)
    assert explainer(endings["steps"].job_id, commands=True)["steps"]


def test_the_output_is_found_and_read(explainer: Explainer, endings: dict[str, Ending]) -> None:
    """As the user sees it: a path of the lab is not one of this machine, so it is named by hand."""
    lab, killed = explainer.lab, endings["out_of_memory"]
    said = explainer(killed.job_id)
    inside = [file["path"] for file in said["logs"]]
    assert inside == [f"/home/alice/out_of_memory.{killed.job_id}_4294967294.out"]
    with_log = explainer(killed.job_id, "--log", f"{lab.state}{inside[0]}")
    assert with_log["family"] == "out_of_memory"
    # Some versions write why into the output, of others it has only the shell's word.
    assert with_log["log"][0]["pattern"] in ("slurm-oom-kill", "shell-killed"), with_log["log"]
    assert with_log["confidence"] == "certain"


def test_mistakes_are_read_from_the_output(explainer: Explainer) -> None:
    lab = explainer.lab
    jobs = {
        name: submit(lab, "bob", "-J", name, "--mem=60", "-t", "2", "-o", "mistake.%x.out", script=script)
        for name, (script, _, _) in MISTAKES.items()
    }
    wait_ended(lab, jobs.values())
    for name, (_, family, quoted) in MISTAKES.items():
        path = lab.state / f"home/bob/mistake.{name}.out"
        said = explainer(jobs[name], "--log", path)
        assert said["family"] == family, (name, said["cause"], path.read_text())
        lines = path.read_text().splitlines()
        first = said["log"][0]
        assert quoted in first["text"], (name, said["log"])
        assert lines[first["line"] - 1] == first["text"], "quoted from the line that it names"
        assert said["confidence"] in ("likely", "very likely", "certain")
