"""English names of what is a code elsewhere: verdicts, causes, outcomes, groups of evidence, rules."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from forewarn.assess.assessment import Verdict
from forewarn.features.column_meaning import in_words
from forewarn.job.outcomes import Outcome
from forewarn.learn.evaluation.baselines import rule_label

VERDICTS: Mapping[Verdict, str] = MappingProxyType(
    {
        Verdict.FINE: "fine",
        Verdict.WARNING: "warning",
        Verdict.LIKELY_TO_FAIL: "likely to fail",
        Verdict.CANNOT_SAY: "cannot say",
    }
)
_CAUSES: Mapping[str, str] = {
    Outcome.OUT_OF_MEMORY: "out of memory",
    Outcome.TIMEOUT: "time limit",
    Outcome.FAILED: "program error",
    Outcome.NODE_FAIL: "node failure",
    Outcome.CANCELLED: "cancelled",
    "other": "rare causes",
}
# How several jobs failed, in the order of the text; FAILED says nothing about the cause.
FAILURES: Mapping[str, str] = MappingProxyType(
    {
        Outcome.OUT_OF_MEMORY: "out of memory",
        Outcome.TIMEOUT: "at the time limit",
        Outcome.NODE_FAIL: "by node failure",
        Outcome.DEADLINE: "at the deadline",
        Outcome.BOOT_FAIL: "by boot failure",
    }
)
GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "request": "same request",
        "name": "same name",
        "user": "recent jobs",
        "in_flight": "pending and running jobs",
        "time_limit": "time limit",
        "memory": "memory",
        "size": "request size",
        "partition": "partition",
        "nodes": "allocated nodes",
        "cluster": "cluster",
        "queue": "queue",
        "others": "other users' jobs",
        "time_of_day": "time of day",
        "profile": "job profile",
        "learnt": "online regression",
        "needs": "predicted needs",
        "use": "resource use",
    }
)
_ONLINE = ("online", "context_", "backoff_")  # features that are rates and weights of the online state


def cause(outcome: str) -> str:
    """Name the cause of a failure by the outcome that it leads to."""
    return _CAUSES.get(outcome, outcome)


def outcome_name(outcome: str) -> str:
    """Write an outcome as words.

    >>> outcome_name("out_of_memory")
    'out of memory'
    """
    return outcome.replace("_", " ")


def place(partition: str) -> str:
    """Name a partition; without a name it is the whole cluster."""
    return f"partition {partition}" if partition else "the cluster"


def feature(name: str) -> str:
    """Describe a feature of a model.

    >>> feature("user_request_since_end"), feature("context_user_hour")
    ("time since one of the user's jobs with this request ended", 'what followed such outcomes before')
    """
    if name.startswith(_ONLINE):
        return "what followed such outcomes before"
    return in_words(name) or name.replace("_", " ")


def rule(name: str) -> str:
    """Describe the simple rule that serves in place of a model.

    >>> rule("last_user_request")
    'rule: last outcome of this user with this request'
    """
    return rule_label(name)
