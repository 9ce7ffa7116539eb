"""Names of things that are codes elsewhere: verdicts, causes, outcomes, kinds of evidence, places, rules."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from forewarn.assess.assessment import Verdict
from forewarn.features.column_meaning import in_words
from forewarn.job.outcomes import Outcome
from forewarn.learn.evaluation.baselines import label

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
    Outcome.TIMEOUT: "at its time limit",
    Outcome.FAILED: "by an error of its own",
    Outcome.NODE_FAIL: "by a node failure",
    Outcome.CANCELLED: "cancelled",
    "other": "of a rare cause",
}
# How some jobs failed, in the order in which it is told; of the others it is not known how.
OUTCOMES: Mapping[str, str] = MappingProxyType(
    {
        Outcome.OUT_OF_MEMORY: "out of memory",
        Outcome.TIMEOUT: "at their time limit",
        Outcome.NODE_FAIL: "as a node failed",
        Outcome.DEADLINE: "at their deadline",
        Outcome.BOOT_FAIL: "as a node did not boot",
    }
)
GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "request": "same request",
        "name": "same name",
        "user": "recent jobs",
        "in_flight": "jobs in flight",
        "time_limit": "time limit",
        "memory": "memory",
        "size": "size of the request",
        "partition": "partition",
        "nodes": "nodes given",
        "cluster": "cluster now",
        "queue": "queue",
        "others": "others' jobs",
        "time_of_day": "time of day",
        "profile": "kind of job",
        "learnt": "online regression",
        "needs": "needs",
        "use": "use",
    }
)
_LEARNT = ("online", "context_", "backoff_")  # rates and weights learnt from all that followed such outcomes


def cause(outcome: str) -> str:
    """What a job dies of."""
    return _CAUSES.get(outcome, outcome)


def place(partition: str) -> str:
    """A partition; without a name, the whole cluster."""
    return f"partition {partition}" if partition else "the cluster"


def feature(name: str) -> str:
    """A feature of a model.

    >>> feature("user_request_since_end"), feature("context_user_hour")
    ("time since one of the user's jobs with this request ended", 'what followed such outcomes before')
    """
    if name.startswith(_LEARNT):
        return "what followed such outcomes before"
    return in_words(name) or name.replace("_", " ")


def rule(name: str) -> str:
    """The simple rule that serves in a model's place.

    >>> rule("last_user_request")
    'rule: last outcome of this user with this request'
    """
    return label(name)
