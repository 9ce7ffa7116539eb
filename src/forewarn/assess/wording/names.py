"""English names of what is a code elsewhere: verdicts, ends of several jobs, groups of evidence, rules."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from forewarn.assess.assessment import Verdict
from forewarn.features.column_meaning import in_words
from forewarn.job.outcomes import Outcome
from forewarn.learn.evaluation.rule_labels import rule_label

VERDICTS: Mapping[Verdict, str] = MappingProxyType(
    {
        Verdict.FINE: "fine",
        Verdict.WARNING: "warning",
        Verdict.LIKELY_TO_FAIL: "likely to fail",
        Verdict.CANNOT_SAY: "cannot say",
    }
)
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


def place(partition: str) -> str:
    """Name a partition; without a name it is the whole cluster."""
    return f"partition {partition}" if partition else "the cluster"


def feature(name: str) -> str:
    """Describe a feature of a model.

    >>> feature("user_request_since_end")
    "time since one of the user's jobs with this request ended"
    """
    return in_words(name) or name.replace("_", " ")


def is_of_online_state(name: str) -> bool:
    """Check whether a feature is a rate or weight of the online state: what followed such outcomes before.

    >>> is_of_online_state("context_user_lasts"), is_of_online_state("user_request_since_end")
    (True, False)
    """
    return name.startswith(_ONLINE)


def rule(name: str) -> str:
    """Describe the simple rule that serves in place of a model.

    >>> rule("last_user_request")
    'rule: last outcome of this user with this request'
    """
    return rule_label(name)
