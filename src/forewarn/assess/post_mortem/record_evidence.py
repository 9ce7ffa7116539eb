"""Evidence in the record of an ended job: its state, exit code, steps, resource use and limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import ceil

from forewarn.assess.post_mortem import wording
from forewarn.assess.post_mortem.report import FailureEvidence
from forewarn.job.exit_codes import meaning, signal_in
from forewarn.job.memory import units
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job
from forewarn.job.step_outcomes import EXACT_STATES, StepEnd, outcome_of_steps
from forewarn.job.units import UNLIMITED
from forewarn.sources.slurm.scheduler import StepRecord

# States that Slurm decides itself, so that the state is the cause: its family and its weight.
_STATES = {
    Outcome.OUT_OF_MEMORY: ("out_of_memory", 0.98),
    Outcome.TIMEOUT: ("time_limit", 0.99),
    Outcome.DEADLINE: ("deadline", 0.99),
    Outcome.NODE_FAIL: ("node_failure", 0.98),
    Outcome.PREEMPTED: ("preempted", 0.98),
    Outcome.BOOT_FAIL: ("node_failure", 0.98),
}
# The same for a step of a job whose own state is FAILED.
_STEP_STATES = {
    Outcome.OUT_OF_MEMORY: ("out_of_memory", 0.98),
    Outcome.TIMEOUT: ("own_time_limit", 0.97),
    Outcome.NODE_FAIL: ("node_failure", 0.98),
}
_NEAR = 0.95  # share of the memory
_HIGH = 0.7  # share of the memory: use is sampled, so the last seconds before a kill are not recorded
_IDLE, _IDLE_SECONDS = 0.02, 600  # CPU efficiency, and the shortest run time
_AT_ONCE = 20  # seconds
_SENT_BY_SLURM = (9, 15)  # signals with which Slurm ends the steps of a job that is over


def of_state(job: Job) -> Iterator[FailureEvidence]:
    """Yield the evidence of the job's state and of Slurm's reason."""
    if job.outcome is None:
        return
    outcome = Outcome(job.outcome)
    if job.state == "FAILED" and outcome in _STEP_STATES:
        family, worth = _STEP_STATES[outcome]
        yield FailureEvidence(source="record", what=wording.STEP_STATES[outcome], family=family, worth=worth)
    elif outcome in _STATES:
        family, worth = _STATES[outcome]
        yield FailureEvidence(source="record", what=wording.STATES[outcome], family=family, worth=worth)
    elif outcome is Outcome.CANCELLED:
        yield _cancelled(job)
    elif outcome is Outcome.FAILED:
        yield FailureEvidence(source="record", what=wording.state(job.state))
        if _never_ran(job):
            yield FailureEvidence(
                source="record",
                what=wording.REFUSED,
                family="refused",
                worth=0.8,
            )
    yield from of_reason(job)


def _never_ran(job: Job) -> bool:
    """Check whether it ended without a node: then its exit code is Slurm's, which means nothing."""
    return job.start is None and job.end is not None and not job.nodes


def _cancelled(job: Job) -> FailureEvidence:
    limit, run_time = job.time_limit, job.run_time
    if limit is not None and run_time is not None and limit > 0 and limit <= run_time:
        # Job logs that have no state for time-outs call them cancelled.
        text, family, worth = wording.ended_at_limit(run_time), "time_limit", 0.9
    elif job.reason and "Dependency" in job.reason:
        text, family, worth = wording.dependency_failed(), "dependency", 0.95
    elif job.start is None and job.cancelled_by is None and (awaited := _dependency(job)):
        # Accounting keeps no reason, but who cancelled a job: that field is empty for Slurm itself.
        text, family, worth = wording.dependency_failed(awaited), "dependency", 0.85
    else:
        by_owner = None if job.cancelled_by is None else job.cancelled_by == job.user
        text = wording.cancelled(by_owner=by_owner, run_time=None if job.start is None else run_time or 0)
        family, worth = "cancelled", 0.97
    return FailureEvidence(source="record", what=text, family=family, worth=worth)


_DEPENDENCY = re.compile(r"\s(?:-d|--dependency)[=\s]*(\S+)")


def _dependency(job: Job) -> str | None:
    """Return the dependency of the job, where the record or its submit line has it."""
    found = _DEPENDENCY.search(job.submit_line or "")
    return job.dependency or (found[1] if found else None)


# Slurm's reasons by their beginning: the family of causes and the weight as evidence.
_REASONS = {
    "OutOfMemory": ("out_of_memory", 0.95),
    "TimeLimit": ("time_limit", 0.9),
    "NodeDown": ("node_failure", 0.95),
    "JobLaunchFailure": ("launch", 0.9),
    "SystemFailure": ("node_failure", 0.8),
    "FailedToLaunch": ("launch", 0.9),
    "Prolog": ("launch", 0.8),
    "BadConstraints": ("refused", 0.97),
    "InactiveLimit": ("time_limit", 0.9),
    "DeadLine": ("deadline", 0.9),
    "DependencyNeverSatisfied": ("dependency", 0.97),
    "RaisedSignal:53": ("launch", 0.85),
}


def of_reason(job: Job) -> Iterator[FailureEvidence]:
    """Yield the evidence of Slurm's reason, which for an ended job is how it ended."""
    for begin, (family, worth) in _REASONS.items():
        if job.reason and job.reason.startswith(begin):
            if begin == "JobLaunchFailure" and job.exit_signal not in (None, 0, 53):
                continue  # Slurm 22.05 gives this reason for a script that a signal ended
            yield FailureEvidence(source="record", what=wording.REASONS[begin], family=family, worth=worth)


def of_exit(job: Job) -> Iterator[FailureEvidence]:
    """Yield the evidence of exit code and signal, where they mean anything."""
    if job.outcome not in (Outcome.COMPLETED, Outcome.FAILED, Outcome.OUT_OF_MEMORY) or _never_ran(job):
        return  # they show how it was ended, not why
    exit_code = meaning(job.exit_code, job.exit_signal)
    if exit_code is not None and (job.exit_code or job.exit_signal):
        yield FailureEvidence(
            source="exit code", what=exit_code.words, family=exit_code.family, worth=exit_code.weight
        )
    if job.derived_exit_code and job.derived_exit_code != job.exit_code:
        exit_code = meaning(job.derived_exit_code, 0)
        assert exit_code is not None
        yield FailureEvidence(
            source="exit code",
            what=wording.highest_exit_code_of_steps(exit_code.words),
            family=exit_code.family,
            worth=exit_code.weight / 2,
        )


def of_steps(job: Job, steps: Sequence[StepRecord]) -> Iterator[FailureEvidence]:
    """Yield the evidence of steps that did not complete."""
    failed = [step for step in steps if step.state not in (None, "COMPLETED", "RUNNING", "PENDING")]
    if not failed:
        return
    decided = outcome_of_steps([StepEnd(step.name, step.state) for step in steps])
    for step in failed[:3]:
        exit_code = meaning(step.exit_code, step.exit_signal) if step.exit_code or step.exit_signal else None
        text = wording.step(
            step.name, step.command, step.state, exit_code.words if exit_code else None, step.nodes
        )
        family, worth = (exit_code.family, 0.6 * exit_code.weight) if exit_code else (None, 0.0)
        exact = EXACT_STATES.get(step.state or "")
        if exact is not None:
            family = _STEP_STATES[exact][0]
            worth = 0.95 if decided is exact else 0.6  # else the script continued after it
        elif step.name == "batch" or (step.state == "CANCELLED" and not _died_by_itself(job, step)):
            family, worth = None, 0.0  # the script's exit code is the job's own; others ended with the job
        yield FailureEvidence(source="steps", what=text, family=family, worth=worth)
    if len(failed) > 3:
        yield FailureEvidence(source="steps", what=wording.more_steps(len(failed), len(steps)))


def _died_by_itself(job: Job, step: StepRecord) -> bool:
    """Check whether a step that Slurm calls cancelled was ended by a signal of its own, as in a crash."""
    return job.outcome == Outcome.FAILED and step.exit_signal not in (None, 0, *_SENT_BY_SLURM)


def memory_of_a_node(job: Job) -> float | None:
    """Return the bytes allocated or requested per node; None where the record does not have them."""
    nodes = job.nodes_given or job.nodes_asked or 1
    if job.memory_given:
        return job.memory_given / nodes
    cpus, gpus = job.cpus_given or job.cpus_asked, job.gpus_given or job.gpus_asked
    if not job.memory_asked or (job.memory_per == "gpu" and not gpus):
        return None
    return job.memory_asked * units(job.memory_per, nodes=nodes, cpus=cpus, gpus=gpus) / nodes


def of_use(job: Job) -> Iterator[FailureEvidence]:
    """Yield the evidence of resource use, compared with the allocation."""
    run_time, limit = job.run_time, job.time_limit
    if run_time is not None and limit and limit < UNLIMITED:
        at_limit = run_time >= limit
        yield FailureEvidence(
            source="use",
            what=wording.run_time(run_time, limit),
            family="time_limit" if at_limit and job.outcome != Outcome.COMPLETED else None,
            worth=0.5 if at_limit else 0.0,
        )
    elif run_time is not None:
        yield FailureEvidence(source="use", what=wording.run_time(run_time, None))
    had = memory_of_a_node(job)
    if job.max_memory is not None and had:
        # The record has the largest task only: those beside it on the node may have used as much.
        beside = ceil((job.tasks_asked or 1) / (job.nodes_given or job.nodes_asked or 1))
        share = job.max_memory * beside / had
        near = share >= _NEAR
        killed = signal_in(job.exit_code, job.exit_signal) in (9, 125) or job.outcome == Outcome.OUT_OF_MEMORY
        worth = (0.8 if killed else 0.3) if near else 0.3 if killed and share >= _HIGH else 0.0
        yield FailureEvidence(
            source="use",
            what=wording.memory_use(job.max_memory, beside, had),
            family="out_of_memory" if worth and job.outcome != Outcome.COMPLETED else None,
            worth=worth,
        )
    yield from _idle(job)


def at_once(job: Job, steps: Sequence[StepRecord]) -> Iterator[FailureEvidence]:
    """Yield the evidence of a failure right after the start, for jobs without any other."""
    run_time, killed = job.run_time, any(step.exit_signal for step in steps)
    if run_time is not None and run_time <= _AT_ONCE and job.outcome == Outcome.FAILED and not killed:
        yield FailureEvidence(source="use", what=wording.failed_at_once(run_time))


def _idle(job: Job) -> Iterator[FailureEvidence]:
    cpus, run_time = job.cpus_given or job.cpus_asked, job.run_time
    if job.cpu_time is None or not cpus or run_time is None or run_time < _IDLE_SECONDS:
        return
    efficiency = job.cpu_time / (cpus * run_time)
    if efficiency < _IDLE:
        yield FailureEvidence(source="use", what=wording.idle(cpus, efficiency))
