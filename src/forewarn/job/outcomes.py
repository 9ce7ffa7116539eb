"""Outcomes of jobs, the kind of failure that each is, and the policies that decide what counts as failure.

The outcome comes from the scheduler's state, never from the exit code alone: an out-of-memory kill can have
0:125, and a job that traps its signal can have 0:0.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from forewarn.job.exit_codes import signal_in
from forewarn.job.record import Job


class Outcome(StrEnum):
    """The outcome of a job that has ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    NODE_FAIL = "node_fail"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    BOOT_FAIL = "boot_fail"
    UNKNOWN = "unknown"


# The words of output for people; JSON keeps the values. An outcome is named as sacct names its state, a cause
# by what went wrong: FAILED and TIMEOUT are ends, not causes.
_OUTCOME_NAMES: Mapping[str, str] = MappingProxyType(
    {Outcome.NODE_FAIL: "node failure", Outcome.BOOT_FAIL: "boot failure"}
)
_CAUSE_NAMES: Mapping[str, str] = MappingProxyType(
    {Outcome.FAILED: "program error", Outcome.TIMEOUT: "time limit", "other": "rare causes"}
)


def outcome_name(outcome: str) -> str:
    """Write an outcome as words.

    >>> outcome_name("out_of_memory"), outcome_name("node_fail"), outcome_name("timeout")
    ('out of memory', 'node failure', 'timeout')
    """
    return _OUTCOME_NAMES.get(outcome, outcome.replace("_", " "))


def cause_name(outcome: str) -> str:
    """Name the cause of a failure by the outcome that it leads to.

    >>> cause_name("failed"), cause_name("timeout"), cause_name("node_fail"), cause_name("other")
    ('program error', 'time limit', 'node failure', 'rare causes')
    """
    return _CAUSE_NAMES.get(outcome) or outcome_name(outcome)


class FailureKind(StrEnum):
    """The side that caused a failure: the user, the system, or a limit."""

    USER = "user"
    SYSTEM = "system"
    LIMIT = "limit"


# Slurm's base states (slurm.h, enum job_states) that end a job.
OUTCOME_OF_STATE: Mapping[str, Outcome] = MappingProxyType(
    {
        "COMPLETED": Outcome.COMPLETED,
        "FAILED": Outcome.FAILED,
        "OUT_OF_MEMORY": Outcome.OUT_OF_MEMORY,
        "TIMEOUT": Outcome.TIMEOUT,
        "NODE_FAIL": Outcome.NODE_FAIL,
        "PREEMPTED": Outcome.PREEMPTED,
        "CANCELLED": Outcome.CANCELLED,
        "DEADLINE": Outcome.DEADLINE,
        "BOOT_FAIL": Outcome.BOOT_FAIL,
        "LAUNCH_FAILED": Outcome.BOOT_FAIL,
        # A run that was taken off its nodes and requeued: in accounting (sacct -D) a record of its own. The
        # controller shows REQUEUED only as a flag beside PENDING, which decides.
        "REQUEUED": Outcome.PREEMPTED,
        "REVOKED": Outcome.CANCELLED,  # a federated sibling that another cluster took
    }
)

# Base states and flags of a job that has not ended.
LIVE_STATES = frozenset(
    {"PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "POWER_UP_NODE", "RECONFIG_FAIL"}
    | {"REQUEUE_FED", "REQUEUE_HOLD", "RESIZING", "RESV_DEL_HOLD", "SIGNALING", "STOPPED"}
    | {"SPECIAL_EXIT", "STAGE_OUT", "UPDATE_DB", "EXPEDITING"}
)


class UnknownStateWarning(UserWarning):
    """A state that this version of Forewarn does not know; its jobs end as `unknown`."""


_warned: set[str] = set()


def outcome_of_state(state: str | None) -> Outcome | None:
    """Return the outcome of a scheduler's state, or None for a job that has not ended.

    >>> outcome_of_state("OUT_OF_MEMORY"), outcome_of_state("RUNNING")
    (<Outcome.OUT_OF_MEMORY: 'out_of_memory'>, None)
    """
    if state is None or state in LIVE_STATES:
        return None
    found = OUTCOME_OF_STATE.get(state)
    if found is None:
        if state not in _warned:
            _warned.add(state)
            warnings.warn(
                f"unknown job state {state!r}: its jobs are kept with outcome `unknown`",
                UnknownStateWarning,
                stacklevel=2,
            )
        return Outcome.UNKNOWN
    return found


# Exit codes that are errno values of a lost file system or network: not the job's own fault.
# 107 (transport endpoint is not connected) is a third of the system failures in papers/003.
SYSTEM_EXIT_CODES = frozenset({5, 100, 101, 102, 103, 104, 107, 108, 110, 112, 113, 116, 121})
# 125 is Slurm's own code for an out-of-memory step; 124 is that of `timeout`, a limit set by the script.
LIMIT_EXIT_CODES = frozenset({124, 125})
# Signals by which a limit ends a program: SIGXCPU, SIGXFSZ, SIGKILL as the out-of-memory killer sends it, and
# 125, which is no signal but how Slurm shows an out-of-memory step (0:125).
LIMIT_SIGNALS = frozenset({9, 24, 25, 125})
SYSTEM_SIGNALS = frozenset({7, 30})  # SIGBUS (a page lost with its file system), SIGPWR
_KIND_OF_OUTCOME: Mapping[Outcome, FailureKind | None] = MappingProxyType(
    {
        Outcome.COMPLETED: None,
        Outcome.UNKNOWN: None,
        Outcome.OUT_OF_MEMORY: FailureKind.LIMIT,
        Outcome.TIMEOUT: FailureKind.LIMIT,
        Outcome.DEADLINE: FailureKind.LIMIT,
        Outcome.NODE_FAIL: FailureKind.SYSTEM,
        Outcome.BOOT_FAIL: FailureKind.SYSTEM,
        Outcome.PREEMPTED: FailureKind.SYSTEM,
    }
)


def failure_kind(
    outcome: Outcome | None,
    exit_code: int | None = None,
    exit_signal: int | None = None,
    *,
    ran_to_limit: bool = False,
) -> FailureKind | None:
    """Classify a failure: caused by the user, the system or a limit. None for no failure.

    `ran_to_limit` is for logs without a timeout state (SWF): a job that ended at or after its time limit was
    ended by it.

    >>> [failure_kind(Outcome.FAILED, *end).value for end in [(107, 0), (0, 9), (1, 0)]]
    ['system', 'limit', 'user']
    """
    if outcome is None:
        return None
    if outcome in _KIND_OF_OUTCOME:
        return _KIND_OF_OUTCOME[outcome]
    if ran_to_limit:
        return FailureKind.LIMIT
    if outcome is Outcome.CANCELLED:  # whatever signal scancel ended it with
        return FailureKind.USER
    signal = signal_in(exit_code, exit_signal)
    if signal in LIMIT_SIGNALS or exit_code in LIMIT_EXIT_CODES:
        return FailureKind.LIMIT
    if signal in SYSTEM_SIGNALS or exit_code in SYSTEM_EXIT_CODES:
        return FailureKind.SYSTEM
    return FailureKind.USER


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """The choice of outcomes that count as failure, and of those that do not belong to the population."""

    name: str
    failures: frozenset[Outcome]
    left_out: frozenset[Outcome] = frozenset({Outcome.UNKNOWN})
    # A cancelled job that had reached its limit was not cancelled by its user (SWF has no timeout state).
    cancelled_at_limit_fails: bool = False

    def fails(self, outcome: Outcome | None, *, ran_to_limit: bool = False) -> bool | None:
        """Check whether an outcome is a failure; None where the job does not belong to the population.

        >>> POLICIES["wasted"].fails(Outcome.CANCELLED), POLICIES["papers"].fails(Outcome.CANCELLED)
        (None, True)
        """
        if outcome is None:
            return None
        if outcome is Outcome.CANCELLED and ran_to_limit and self.cancelled_at_limit_fails:
            return True
        if outcome in self.left_out:
            return None
        return outcome in self.failures

    def failed(self, job: Job) -> bool | None:
        """Check whether a job failed; None, too, for one that has not ended."""
        outcome = None if job.outcome is None else Outcome(job.outcome)
        return self.fails(outcome, ran_to_limit=job.ran_to_limit)


POLICIES: Mapping[str, FailurePolicy] = MappingProxyType(
    {
        # Everything but completed, as the published tables count.
        "papers": FailurePolicy("papers", frozenset(Outcome) - {Outcome.COMPLETED, Outcome.UNKNOWN}),
        # Without preempted and user-cancelled jobs, which operators do not count as failures.
        "wasted": FailurePolicy(
            "wasted",
            frozenset(Outcome) - {Outcome.COMPLETED, Outcome.UNKNOWN, Outcome.PREEMPTED, Outcome.CANCELLED},
            left_out=frozenset({Outcome.UNKNOWN, Outcome.PREEMPTED, Outcome.CANCELLED}),
            cancelled_at_limit_fails=True,
        ),
    }
)
