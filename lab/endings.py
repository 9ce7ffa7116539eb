"""One real job of every ending there is, each with what accounting must say of it; two minutes for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.cgroups import can_limit_memory
from lab.jobs import live_state, records, submit, wait_ended, wait_running, wait_until
from lab.nodes import fail_node, revive_node, wait_for_nodes

if TYPE_CHECKING:
    from lab.cluster import Lab

USER = "alice"

GROW = """\
python3 -c '
import time
kept = []
while True:
    kept.append(bytearray(4 << 20))
    time.sleep(0.02)
'"""
AFTER_RESTART = 'test -n "$SLURM_RESTART_COUNT" || sleep 600'


@dataclass(frozen=True, slots=True)
class Ending:
    """A job and what accounting says of it: a line for each array task and each earlier run."""

    name: str
    job_id: int
    expected: tuple[str, ...]
    found: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether accounting says what was expected, of state and, where one is expected, exit code."""
        return len(self.found) == len(self.expected) and all(
            want in (line, line.split()[0]) for want, line in zip(self.expected, self.found, strict=True)
        )


# State and exit code of each line, in the order of sacct. TIMEOUT takes the longest: limits are whole
# minutes, and slurmctld looks at them every half minute. An exit code that is left out means nothing there,
# and is another in each version.
EXPECTED: dict[str, tuple[str, ...]] = {
    "completed": ("COMPLETED 0:0",),
    "steps": ("COMPLETED 0:0",),
    "exit_code": ("FAILED 3:0",),
    "signal": ("FAILED 0:11",),
    "out_of_memory": ("OUT_OF_MEMORY 0:125",) if can_limit_memory() else ("FAILED 0:9",),
    "timeout": ("TIMEOUT 0:0",),
    "deadline": ("DEADLINE",),
    "cancelled_pending": ("CANCELLED 0:0",),
    "cancelled_running": ("CANCELLED 0:0",),
    "array": ("COMPLETED 0:0", "FAILED 1:0", "COMPLETED 0:0"),
    "dependency": ("COMPLETED 0:0",),
    "dependency_never": ("CANCELLED 0:0",),
    "held": ("PENDING 0:0",),
    "released": ("COMPLETED 0:0",),
    "requeued": ("REQUEUED 0:0", "COMPLETED 0:0"),
    "preempted": ("PREEMPTED 0:0",),
    "node_fail": ("NODE_FAIL",),
}


def run_every_ending(lab: Lab) -> list[Ending]:
    """Submit a job of every ending, do to them what must be done, wait until accounting has them all."""
    jobs = _submit(lab)
    try:
        _interfere(lab, jobs)
        wait_ended(lab, [job for name, job in jobs.items() if name != "held"])
    except BaseException:
        lab.try_run("root", "scancel", *map(str, jobs.values()))  # else they would hold whole nodes for long
        raise
    return [
        Ending(name, jobs[name], expected, _found(lab, jobs[name])) for name, expected in EXPECTED.items()
    ]


def _submit(lab: Lab) -> dict[str, int]:
    _, full, preempting, failing = lab.settings.node_names

    def job(name: str, *options: str, script: str = "true") -> int:
        # Jobs that need no node of their own stay away from those that others need whole.
        where = () if "-w" in options or "-N" in options else ("-x", f"{full},{preempting},{failing}")
        usual = ("-J", name, "--mem=50", "-t", "5", "-o", "%x.%A_%a.out")
        return submit(lab, USER, *usual, *where, *options, script=script)

    jobs = {
        # Whole nodes first, while they are free.
        "node_fail": job("node_fail", "-w", failing, "--exclusive", "--no-requeue", script="sleep 600"),
        "preempted": job("preempted", "-p", "low", "-w", preempting, "--exclusive", script="sleep 600"),
        "cancelled_running": job("cancelled_running", "-w", full, "--exclusive", script="sleep 600"),
    }
    # Before others are there: on a busy machine these could be first on such a node, or preempt too early.
    for whole in jobs.values():
        wait_running(lab, whole)
    jobs |= {
        # It waits for a node that does not become free in time.
        "deadline": job("deadline", "-t", "1", "-w", full, "--deadline=now+65seconds"),
        "timeout": job("timeout", "-t", "1", script="sleep 600"),
        "completed": job("completed", script="hostname"),
        "steps": job("steps", "-N", "2", "-n", "4", script="srun -n 4 hostname; srun -n 2 true"),
        "exit_code": job("exit_code", script="echo 'no such parameter' >&2; exit 3"),
        "signal": job("signal", script="kill -SEGV $$"),
        "out_of_memory": job("out_of_memory", script=GROW),
        "cancelled_pending": job("cancelled_pending", "--begin=now+1hour"),
        "array": job("array", "--array=0-2", script="exit $((SLURM_ARRAY_TASK_ID % 2))"),
        "held": job("held", "--hold"),
        "released": job("released", "--hold"),
        "requeued": job("requeued", "--requeue", script=AFTER_RESTART),
    }
    failed = jobs["exit_code"]
    jobs["dependency"] = job("dependency", f"--dependency=afterany:{failed}")
    jobs["dependency_never"] = job(
        "dependency_never", f"--dependency=afterok:{failed}", "--kill-on-invalid-dep=yes"
    )
    return jobs


def _interfere(lab: Lab, jobs: dict[str, int]) -> None:
    """Do to jobs what people, operators and faults do."""
    *_, preempting, failing = lab.settings.node_names
    lab.run(USER, "scancel", str(jobs["cancelled_pending"]))
    lab.run(USER, "scontrol", "release", str(jobs["released"]))
    fail_node(lab, failing)
    revive_node(lab, failing)
    submit(lab, USER, "-J", "preempting", "-w", preempting, "--exclusive", "-t", "5", script="true")
    wait_running(lab, jobs["requeued"])
    lab.run(USER, "scontrol", "requeue", str(jobs["requeued"]))
    deadline = jobs["deadline"]
    wait_until(lambda: live_state(lab, deadline) == "DEADLINE", 180, f"job {deadline} is past its deadline")
    lab.run(USER, "scancel", str(jobs["cancelled_running"]))
    wait_for_nodes(lab)


def _found(lab: Lab, job: int) -> tuple[str, ...]:
    return tuple(f"{record.state} {record.exit_code}" for record in records(lab, [job]))
