"""English for post mortems: evidence, causes and advice that carry the job's own numbers.

Texts without numbers stand in tables of their own: families of causes (`cause_families.py`), lines of a log
(`patterns/`), reasons of pending jobs (`pending_reason_table.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from forewarn.formatting import byte_size, count, duration, percent, rough_duration
from forewarn.job.outcomes import Outcome

COMPLETED = "The job did not fail: its state in Slurm is COMPLETED"
SET_E = (
    "Slurm knows only the exit code of the script's last command: `set -e` at the beginning of the script "
    "makes it fail at the first error."
)
CHECK_PROGRESS = (
    "Check whether it still makes progress; if not, cancel it, so that it does not use up its time."
)
CAUSE_UNKNOWN = "The record does not show the cause: see the output of the job"
READ_THE_OUTPUT = (
    "Read the last lines of its output. `forewarn explain JOBID --log FILE` reads a log that is not where "
    "Slurm says."
)
REFUSED = "Slurm failed it before it had a node, as it does when no node can satisfy the request"
NO_START_ESTIMATE = "Slurm has no estimate of its start"
REQUEUED = "the job was requeued: this is its last run"
_RULE_OF_THUMB = "how much it needs is unknown, and twice that is a rule of thumb"

# States that Slurm decides itself: the state is the cause.
STATES: Mapping[Outcome, str] = MappingProxyType(
    {
        Outcome.OUT_OF_MEMORY: "state OUT_OF_MEMORY in Slurm",
        Outcome.TIMEOUT: "Slurm ended it at its time limit",
        Outcome.DEADLINE: "Slurm ended it at its deadline",
        Outcome.NODE_FAIL: "one of its nodes failed",
        Outcome.PREEMPTED: "Slurm preempted or requeued it",
        Outcome.BOOT_FAIL: "a node did not boot",
    }
)
STEP_STATES: Mapping[Outcome, str] = MappingProxyType(
    {
        Outcome.OUT_OF_MEMORY: "Slurm killed one of its steps as out of memory",
        Outcome.TIMEOUT: "Slurm ended one of its steps at the time limit of that step",
        Outcome.NODE_FAIL: "a node of one of its steps failed",
    }
)
# Slurm's reasons of ended jobs, by their beginning.
REASONS: Mapping[str, str] = MappingProxyType(
    {
        "OutOfMemory": "Slurm's reason is OutOfMemory",
        "TimeLimit": "Slurm's reason is TimeLimit",
        "NodeDown": "Slurm's reason is NodeDown",
        "JobLaunchFailure": "Slurm's reason is JobLaunchFailure: the job could not be started",
        "SystemFailure": "Slurm's reason is SystemFailure",
        "FailedToLaunch": "Slurm's reason is FailedToLaunch",
        "Prolog": "Slurm's reason is Prolog: the prolog failed",
        "BadConstraints": "Slurm's reason is BadConstraints: no node satisfies the request",
        "InactiveLimit": "Slurm's reason is InactiveLimit: it was inactive for too long",
        "DeadLine": "Slurm's reason is DeadLine",
        "DependencyNeverSatisfied": "Slurm's reason is DependencyNeverSatisfied",
        "RaisedSignal:53": "Slurm could not open its output file or its work folder",
    }
)


# --- the record --------------------------------------------------------------------------------------------


def state(name: str | None) -> str:
    """State the job's state in Slurm."""
    return f"its state in Slurm is {name or 'FAILED'}"


def ended_at_limit(run_time: float) -> str:
    """Describe a job that Slurm calls cancelled but that ran to its time limit."""
    return f"it was ended after {duration(run_time)}, at its time limit"


def dependency_failed(awaited: str | None = None) -> str:
    """Describe a job that Slurm cancelled because of a job that it depends on."""
    if awaited is None:
        return "it was cancelled because a job that it depends on did not end as required"
    return f"cancelled by Slurm: it depended on another job ({awaited})"


def cancelled(*, by_owner: bool | None, run_time: float | None) -> str:
    """Describe a cancelled job.

    >>> cancelled(by_owner=True, run_time=None)
    'it was cancelled by its user, while pending'
    """
    who = "" if by_owner is None else " by its user" if by_owner else " by somebody else"
    when = "while pending" if run_time is None else f"after running for {duration(run_time)}"
    return f"it was cancelled{who}, {when}"


def highest_exit_code_of_steps(meaning: str) -> str:
    """Describe the highest exit code of the job's steps."""
    return f"the highest of its steps is {meaning}"


def step(
    name: str, command: str | None, step_state: str | None, meaning: str | None, nodes: str | None
) -> str:
    """Describe a step that did not complete.

    >>> step("0", "solver", "FAILED", "exit code 1", "n1")
    'step 0 (solver): FAILED, exit code 1, on n1'
    """
    text = f"step {name}" + (f" ({command})" if command else "")
    text += f": {step_state}" + (f", {meaning}" if meaning else "")
    return text + (f", on {nodes}" if nodes else "")


def more_steps(failed: int, steps: int) -> str:
    """Count the steps that did not complete."""
    return f"{failed} of {steps} steps did not complete"


def run_time(seconds: float, limit: float | None) -> str:
    """Compare the run time with the limit; a limit of None is not known.

    >>> run_time(4962, 21600), run_time(4962, None)
    ('run time 1:22:42 of a limit of 6:00:00 (23%)', 'run time 1:22:42')
    """
    text = f"run time {duration(seconds)}"
    return f"{text} of a limit of {duration(limit)} ({percent(seconds / limit)})" if limit else text


def memory_use(largest_task: float, tasks: int, allocated: float) -> str:
    """Compare the memory of the largest task with that of a node; others beside it may have used as much.

    >>> memory_use(2 << 30, 4, 10 << 30)
    'its largest task used 2 GiB: 4 such tasks are 80% of the 10 GiB allocated per node'
    """
    share = percent(largest_task * tasks / allocated)
    if tasks == 1:
        used = f"its largest task used {byte_size(largest_task)}, {share}"
    else:
        used = f"its largest task used {byte_size(largest_task)}: {tasks} such tasks are {share}"
    return f"{used} of the {byte_size(allocated)} allocated per node"


def failed_at_once(seconds: float) -> str:
    """Describe a failure right after the start."""
    return (
        f"it failed within {count(seconds, 'second')}: typically something it needs at its start is missing"
    )


def idle(cpus: int, efficiency: float) -> str:
    """Describe a job whose CPUs were hardly used."""
    return f"CPU efficiency {percent(efficiency)} on {count(cpus, 'CPU')}: it waited for something"


# --- other jobs and nodes ----------------------------------------------------------------------------------


def node_became(nodes: str, node_state: str, reason: str) -> str:
    """Describe nodes that went out of service."""
    return f"{nodes} became {node_state} during the run or shortly after" + (f": {reason}" if reason else "")


def node_rebooted(nodes: str) -> str:
    """Describe nodes that rebooted."""
    return f"{nodes} rebooted during the run or shortly after"


def failures_on_its_nodes(seconds: float, failed: int, ended: int, users: int) -> str:
    """Count the failures of other jobs on the same nodes."""
    text = (
        f"{failed} of {count(ended, 'other job')} on the same nodes failed within {rough_duration(seconds)}"
    )
    return f"{text} of its end" + (f", of {count(users, 'other user')}" if users else "")


def some_failures_on_its_nodes(seconds: float) -> str:
    """State without numbers that other jobs failed on the same nodes."""
    return f"Other jobs on the same nodes failed within {rough_duration(seconds)} of its end"


def some_system_failures_on_its_nodes(seconds: float) -> str:
    """State without numbers that other jobs had system failures on the same nodes."""
    return f"Other jobs on the same nodes had system failures within {rough_duration(seconds)} of its end"


def system_failures_on_its_nodes(seconds: float, here: int, elsewhere: int) -> str:
    """Count the system's failures on the same nodes, and elsewhere."""
    text = f"{count(here, 'other job')} on the same nodes had system failures"
    return f"{text} within {rough_duration(seconds)} of its end, elsewhere {elsewhere}"


NOT_READ = "the service reads no files of jobs; send it (`forewarn explain --log FILE`)"
SOME_BURST = "Jobs of other users that had run for a while failed within a minute of its end"


def burst(jobs: int, users: int, typical: float) -> str:
    """Describe many failures of several users within a minute."""
    many = f"{count(jobs, 'job')} of {count(users, 'other user')}"
    return f"{many} that had run for a while failed within a minute of its end; typically {typical:.1f}"


# --- causes ------------------------------------------------------------------------------------------------


def cause(family: str, detail: str | None) -> str:
    """State the cause of a failure, by the words of its family and the most exact evidence."""
    return f"The job {family}" + (f": {detail}" if detail else "")


def error_although_completed(error: str) -> str:
    """Describe an error in the log of a job that Slurm calls completed."""
    return f"Its state in Slurm is COMPLETED, but its log has an error: {error}"


def pending(reason: str) -> str:
    """State why a job is pending."""
    return f"The job is pending: {reason}"


def running(error: str | None) -> str:
    """State that a job is running, and the error in its log, if any."""
    return "The job is running" + (f", but its log has an error: {error}" if error else "")


def pending_reason(reason: str | None) -> str:
    """State Slurm's own reason."""
    return f"Slurm's reason: {reason or 'none'}"


def pending_for(seconds: float) -> str:
    """State how long a job has been pending."""
    return f"pending for {rough_duration(seconds)}"


def start_estimate(seconds: float) -> str:
    """State when Slurm expects to start a job."""
    return f"Slurm's own estimate of its start: in {rough_duration(seconds)} (squeue --start)"


def risk_of_failure(risk: float) -> str:
    """State the risk of a job that has not ended."""
    return f"{percent(risk)} risk of failure"


def unknown_cause(*details: str) -> str:
    """State that the cause is not known, with what is known."""
    return "; ".join([CAUSE_UNKNOWN, *details])


# --- advice ------------------------------------------------------------------------------------------------


def more_memory(had: float, needed: float | None, option: str) -> str:
    """Advise to request more memory; `needed` is a forecast for 95% of such jobs, if there is one."""
    why = _RULE_OF_THUMB if needed is None else f"{byte_size(needed)} is sufficient for 95% of jobs like this"
    return f"It had {byte_size(had)} per node; {why}: `#SBATCH {option}`."


def more_time(limit: float, needed: float | None, option: str) -> str:
    """Advise to request more time; `needed` is a forecast for 90% of such jobs, if there is one."""
    why = _RULE_OF_THUMB if needed is None else f"{duration(needed)} is sufficient for 90% of jobs like this"
    return f"Its time limit was {duration(limit)}; {why}: `#SBATCH {option}`."


def exclude_nodes(nodes: str) -> str:
    """Advise to exclude nodes."""
    return f"If it happens there again: `#SBATCH --exclude={nodes}`."


# --- notes about the search --------------------------------------------------------------------------------


def parts_of_job(number: int, parts: int, incomplete: int, live: int, chosen: str) -> str:
    """Say which part of an array or heterogeneous job is explained."""
    text = f"job {number} has {count(parts, 'part')}: {incomplete} did not complete, {live} have not ended"
    return f"{text}; this is {chosen}"


def slurm_unreachable(error: object) -> str:
    """Say that Slurm could not be queried."""
    return f"Slurm could not be queried: {error}"


def slurm_refused(error: object) -> str:
    """Say that Slurm refused to answer."""
    return f"Slurm refused to answer: {error}"
