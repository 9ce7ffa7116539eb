"""What the record of an ended job says of why: its state, its exit code, its steps, its use and limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import ceil

from forewarn.assess.post_mortem.report import FailureEvidence
from forewarn.assess.wording.amounts import duration, memory, percent
from forewarn.job.exit_codes import meaning, signal_in
from forewarn.job.memory import units
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job
from forewarn.job.step_outcomes import EXACT_STATES, StepEnd, outcome_of_steps
from forewarn.job.units import UNLIMITED
from forewarn.sources.slurm.scheduler import StepRecord

# Slurm decides these itself: the state is the cause.
_STATES = {
    Outcome.OUT_OF_MEMORY: ("out_of_memory", "Slurm ended it as out of memory", 0.98),
    Outcome.TIMEOUT: ("time_limit", "Slurm ended it at its time limit", 0.99),
    Outcome.DEADLINE: ("deadline", "Slurm ended it at its deadline", 0.99),
    Outcome.NODE_FAIL: ("node_failure", "Slurm lost a node of it", 0.98),
    Outcome.PREEMPTED: ("preempted", "Slurm gave its nodes to another job, or it was requeued", 0.98),
    Outcome.BOOT_FAIL: ("node_failure", "a node did not boot", 0.98),
    Outcome.CANCELLED: ("cancelled", "it was cancelled", 0.9),
}
# The same, told by a step of a job that Slurm itself calls FAILED.
_STEP_STATES = {
    Outcome.OUT_OF_MEMORY: ("out_of_memory", "Slurm killed a step of it as out of memory", 0.98),
    Outcome.TIMEOUT: ("own_time_limit", "Slurm ended a step of it at the time limit of that step", 0.97),
    Outcome.NODE_FAIL: ("node_failure", "Slurm lost a node of one of its steps", 0.98),
}
_NEAR = 0.95  # of a limit
_HIGH = 0.7  # of the memory: use is sampled, so of a job that was killed the last moment is not seen
_IDLE, _IDLE_SECONDS = 0.02, 600  # of the CPUs' time, and for how long at least
_AT_ONCE = 20  # seconds
_SENT_BY_SLURM = (9, 15)  # signals with which Slurm ends the steps of a job that is over


def of_state(job: Job) -> Iterator[FailureEvidence]:
    """The scheduler's own word, and its reason."""
    if job.outcome is None:
        return
    outcome = Outcome(job.outcome)
    if job.state == "FAILED" and outcome in _STEP_STATES:
        family, words, worth = _STEP_STATES[outcome]
        yield FailureEvidence(source="record", what=words, family=family, worth=worth)
    elif outcome in _STATES:
        family, words, worth = _STATES[outcome]
        if outcome is Outcome.CANCELLED:
            words, family, worth = _cancelled(job, words)
        yield FailureEvidence(source="record", what=words, family=family, worth=worth)
    elif outcome is Outcome.FAILED:
        yield FailureEvidence(source="record", what=f"Slurm calls it {job.state or 'FAILED'}")
        if _never_ran(job):
            yield FailureEvidence(
                source="record",
                what="Slurm failed it before it had a node, as it does with what no node can give",
                family="refused",
                worth=0.8,
            )
    yield from of_reason(job)


def _never_ran(job: Job) -> bool:
    """Whether it ended without a node: then its exit code is Slurm's, which means nothing."""
    return job.start is None and job.end is not None and not job.nodes


def _cancelled(job: Job, words: str) -> tuple[str, str, float]:
    limit, ran = job.time_limit, job.run_time
    if limit is not None and ran is not None and limit > 0 and limit <= ran:
        # Logs without a time-out state call it so.
        return f"it was ended after {duration(ran)}, at its time limit", "time_limit", 0.9
    if job.reason and "Dependency" in job.reason:
        return "it was cancelled since a job it waits for ended otherwise", "dependency", 0.95
    if job.start is None and job.cancelled_by is None and (waited_for := _dependency(job)):
        # Accounting keeps no reason, but who cancelled a job: Slurm itself is nobody.
        return f"nobody cancelled it while it waited for another job ({waited_for})", "dependency", 0.85
    who = (
        ""
        if job.cancelled_by is None
        else " by its user"
        if job.cancelled_by == job.user
        else " by somebody else"
    )
    when = "while it waited" if job.start is None else f"after it had run for {duration(ran or 0)}"
    return f"{words}{who}, {when}", "cancelled", 0.97


_DEPENDENCY = re.compile(r"\s(?:-d|--dependency)[=\s]*(\S+)")


def _dependency(job: Job) -> str | None:
    """What it waited for, as far as its record tells."""
    found = _DEPENDENCY.search(job.submit_line or "")
    return job.dependency or (found[1] if found else None)


_REASONS = {
    "OutOfMemory": ("out_of_memory", "Slurm's reason is OutOfMemory", 0.95),
    "TimeLimit": ("time_limit", "Slurm's reason is TimeLimit", 0.9),
    "NodeDown": ("node_failure", "Slurm's reason is NodeDown", 0.95),
    "JobLaunchFailure": ("launch", "Slurm's reason is JobLaunchFailure: it could not be started", 0.9),
    "SystemFailure": ("node_failure", "Slurm's reason is SystemFailure", 0.8),
    "FailedToLaunch": ("launch", "Slurm's reason is FailedToLaunch", 0.9),
    "Prolog": ("launch", "Slurm's reason is its prolog", 0.8),
    "BadConstraints": ("refused", "Slurm's reason is BadConstraints: no node fits what it asks for", 0.97),
    "InactiveLimit": (
        "time_limit",
        "Slurm's reason is InactiveLimit: nothing happened in it for too long",
        0.9,
    ),
    "DeadLine": ("deadline", "Slurm's reason is its deadline", 0.9),
    "DependencyNeverSatisfied": ("dependency", "Slurm's reason is DependencyNeverSatisfied", 0.97),
    "RaisedSignal:53": ("launch", "Slurm could not open its output file or its folder", 0.85),
}


def of_reason(job: Job) -> Iterator[FailureEvidence]:
    """Slurm's reason, which for an ended job tells how it ended."""
    for begin, (family, words, worth) in _REASONS.items():
        if job.reason and job.reason.startswith(begin):
            if begin == "JobLaunchFailure" and job.exit_signal not in (None, 0, 53):
                continue  # 22.05 says so of a script that a signal ended
            yield FailureEvidence(source="record", what=words, family=family, worth=worth)


def of_exit(job: Job) -> Iterator[FailureEvidence]:
    """Its exit code and signal, where they say anything."""
    if job.outcome not in (Outcome.COMPLETED, Outcome.FAILED, Outcome.OUT_OF_MEMORY) or _never_ran(job):
        return  # they tell how it was ended, not why
    said = meaning(job.exit_code, job.exit_signal)
    if said is not None and (job.exit_code or job.exit_signal):
        yield FailureEvidence(source="exit code", what=said.words, family=said.family, worth=said.worth)
    if job.derived_exit_code and job.derived_exit_code != job.exit_code:
        said = meaning(job.derived_exit_code, 0)
        assert said is not None
        yield FailureEvidence(
            source="exit code",
            what=f"of its steps, the highest is {said.words}",
            family=said.family,
            worth=said.worth / 2,
        )


def of_steps(job: Job, steps: Sequence[StepRecord]) -> Iterator[FailureEvidence]:
    """Steps that did not go well."""
    bad = [step for step in steps if step.state not in (None, "COMPLETED", "RUNNING", "PENDING")]
    if not bad:
        return
    decided = outcome_of_steps([StepEnd(step.name, step.state) for step in steps])
    for step in bad[:3]:
        said = meaning(step.exit_code, step.exit_signal) if step.exit_code or step.exit_signal else None
        words = f"step {step.name}" + (f" ({step.command})" if step.command else "")
        words += f" is {step.state}" + (f", {said.words}" if said else "")
        words += f", on {step.nodes}" if step.nodes else ""
        family, worth = (said.family, 0.6 * said.worth) if said else (None, 0.0)
        exact = EXACT_STATES.get(step.state or "")
        if exact is not None:
            family = _STEP_STATES[exact][0]
            worth = 0.95 if decided is exact else 0.6  # else the script went on after it
        elif step.name == "batch" or (step.state == "CANCELLED" and not _died_by_itself(job, step)):
            family, worth = None, 0.0  # the script's exit code is the job's own; others ended with the job
        yield FailureEvidence(source="steps", what=words, family=family, worth=worth)
    if len(bad) > 3:
        yield FailureEvidence(source="steps", what=f"{len(bad)} of {len(steps)} steps did not go well")


def _died_by_itself(job: Job, step: StepRecord) -> bool:
    """Whether a step that Slurm calls cancelled was ended by a signal of its own, as a crash is."""
    return job.outcome == Outcome.FAILED and step.exit_signal not in (None, 0, *_SENT_BY_SLURM)


def memory_of_a_node(job: Job) -> float | None:
    """Bytes that it had on a node, as far as the record tells."""
    nodes = job.nodes_given or job.nodes_asked or 1
    if job.memory_given:
        return job.memory_given / nodes
    cpus, gpus = job.cpus_given or job.cpus_asked, job.gpus_given or job.gpus_asked
    if not job.memory_asked or (job.memory_per == "gpu" and not gpus):
        return None
    return job.memory_asked * units(job.memory_per, nodes=nodes, cpus=cpus, gpus=gpus) / nodes


def of_use(job: Job) -> Iterator[FailureEvidence]:
    """What it used against what it had."""
    ran, limit = job.run_time, job.time_limit
    if ran is not None and limit and limit < UNLIMITED:
        at_limit = ran >= limit
        yield FailureEvidence(
            source="use",
            what=f"it ran for {duration(ran)} of the {duration(limit)} that it had",
            family="time_limit" if at_limit and job.outcome != Outcome.COMPLETED else None,
            worth=0.5 if at_limit else 0.0,
        )
    elif ran is not None:
        yield FailureEvidence(source="use", what=f"it ran for {duration(ran)}")
    had = memory_of_a_node(job)
    if job.max_memory is not None and had:
        # The record tells of the largest task only: those beside it on the node may have used as much.
        beside = ceil((job.tasks_asked or 1) / (job.nodes_given or job.nodes_asked or 1))
        used = job.max_memory * beside
        share = used / had
        near = share >= _NEAR
        killed = signal_in(job.exit_code, job.exit_signal) in (9, 125) or job.outcome == Outcome.OUT_OF_MEMORY
        worth = (0.8 if killed else 0.3) if near else 0.3 if killed and share >= _HIGH else 0.0
        yield FailureEvidence(
            source="use",
            what=f"its largest task used {memory(job.max_memory)} of the {memory(had)} that it had on a node "
            f"({percent(share)})"
            if beside == 1
            else f"its largest task used {memory(job.max_memory)}: {beside} such tasks are "
            f"{percent(share)} of the {memory(had)} that it had on a node",
            family="out_of_memory" if worth and job.outcome != Outcome.COMPLETED else None,
            worth=worth,
        )
    yield from _idle(job)


def at_once(job: Job, steps: Sequence[StepRecord]) -> Iterator[FailureEvidence]:
    """What a failure right after the start tells, where nothing else tells the cause."""
    ran, killed = job.run_time, any(step.exit_signal for step in steps)
    if ran is not None and ran <= _AT_ONCE and job.outcome == Outcome.FAILED and not killed:
        yield FailureEvidence(
            source="use",
            what=f"it failed within {duration(ran)}: usually something it needs at its beginning is missing",
        )


def _idle(job: Job) -> Iterator[FailureEvidence]:
    cpus, ran = job.cpus_given or job.cpus_asked, job.run_time
    if job.cpu_time is None or not cpus or ran is None or ran < _IDLE_SECONDS:
        return
    share = job.cpu_time / (cpus * ran)
    if share < _IDLE:
        yield FailureEvidence(
            source="use",
            what=f"its {cpus} CPUs were busy {percent(share)} of the time: it waited for something",
        )
