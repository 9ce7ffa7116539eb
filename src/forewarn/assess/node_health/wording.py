"""The English of the evidence on nodes."""

from __future__ import annotations

from collections.abc import Iterable

from forewarn.formatting import count, number, percent

_FAILURES = {
    "system": "failed like a lost file system, network or memory",
    "broke": "failed (time-outs and out-of-memory excluded)",
    "lost": "lost the node",
}


def out_of_service(states: Iterable[str], reason: str) -> str:
    """Describe a node that Slurm has taken out of service.

    >>> out_of_service({"DOWN", "NOT_RESPONDING"}, "power supply")
    'state down and not responding, reason: power supply'
    """
    names = " and ".join(sorted(state.lower().replace("_", " ") for state in states))
    return f"state {names}, {_reason(reason)}"


def drained(reason: str) -> str:
    """Describe a drained node.

    >>> drained("")
    'drained, no reason given'
    """
    return f"drained, {_reason(reason)}"


def _reason(reason: str) -> str:
    return f"reason: {reason}" if reason else "no reason given"


def boots(times: int, days: int) -> str:
    """Describe a node that boots often.

    >>> boots(3, 14)
    'booted 3 times in the last 14 days'
    """
    return f"booted {times} times in the last {days} days"


SOME_JOB_FAILURES = "more jobs failed there than expected"


def job_failures(
    way: str, *, failed: int, jobs: int, days: float, expected: float, users: int, campaigns: int, q: float
) -> str:
    """Describe a node on which more jobs failed than expected.

    >>> job_failures("lost", failed=3, jobs=9, days=1, expected=0.21, users=1, campaigns=3, q=0.01)[43:]
    '0.2 expected as on other nodes; 1 user, 3 campaigns; false alarms: 1%'
    """
    usual = "fewer than 0.1" if expected < 0.05 else f"{expected:.1f}"
    span = "day" if days == 1 else f"{days:g} days"
    basis = "as on other nodes" if way == "lost" else "from the same work on other nodes"
    return (
        f"{number(failed)} of {count(jobs, 'job')} {_FAILURES[way]} in the last {span}, "
        f"{usual} expected {basis}; "
        f"{count(users, 'user')}, {count(campaigns, 'campaign')}; "
        f"false alarms: {percent(q)}"
    )
