"""Which kind of evidence each column of a model is: every column belongs to exactly one.

A person asks about their jobs with this request, the time limit, the memory, how the cluster fares: not
about two hundred columns. The parts of a feature's name say what it is about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum


class Group(StrEnum):
    """A kind of evidence, in the order in which it is shown where weights are equal."""

    REQUEST = "same request"  # the user's jobs with this request
    NAME = "same name"  # the user's jobs of this name or from this folder
    USER = "recent jobs"  # all of the user's jobs
    IN_FLIGHT = "jobs in flight"  # those of the user that wait or run
    TIME_LIMIT = "time limit"
    MEMORY = "memory"
    SIZE = "size of the request"
    PARTITION = "partition"
    NODES = "nodes given"
    CLUSTER = "cluster now"  # how often jobs fail everywhere just now
    QUEUE = "queue"  # how full it is
    OTHERS = "others' jobs"  # in aggregate only
    TIME_OF_DAY = "time of day"
    PROFILE = "kind of job"
    LEARNT = "online regression"  # rests on the user's histories: `resolved` says on which
    NEEDS = "needs"  # run time and memory foreseen, against what is asked for: no column of the model's
    USE = "use"  # known only at the end: never served


_SIZE = (
    *("cpus", "nodes", "tasks", "gpus", "priority", "array_task", "is_array", "has_dependency", "defaulted"),
    *("cpus_per_node", "cpus_power_of_two", "cpus_given", "nodes_given"),
)
_OF_THE_USER = "user|user_request|user_name"
_GROWING = (
    "in_flight|running|since_submit|newest_stage|newest_elapsed|newest_ratio|flight_risk|running_elapsed"
)
_LIMIT = "limit15|run_time|limit_ratio|last_run_time|last_hit|limit_change|limit_fail_ratio"
# The first that matches the whole name decides.
_RULES: tuple[tuple[str, Group], ...] = (
    (r"posthoc_.+", Group.USE),
    (r"online(_entities|_states|_at_submit)?", Group.LEARNT),
    (r"profile_\d+", Group.PROFILE),
    (r"fail_rate_.+", Group.CLUSTER),
    (r"hour|weekday|context_user_hour", Group.TIME_OF_DAY),
    (r"node_.+", Group.NODES),
    (rf"time_limit|limit_in_hours|similar_limit_ratio|({_OF_THE_USER})_({_LIMIT})", Group.TIME_LIMIT),
    (r"memory(_per|_per_cpu|_given)?|similar_memory_ratio", Group.MEMORY),
    (rf"({_OF_THE_USER})_memory(15|_ratio)", Group.MEMORY),
    (rf"({'|'.join(_SIZE)})|({_OF_THE_USER})_cpus_change", Group.SIZE),
    (rf"(user|user_(request|name|dir|name_request|cpus|partition))_({_GROWING})", Group.IN_FLIGHT),
    (r"burst_position", Group.IN_FLIGHT),
    (r"queue_.+|partition_((pending|running)(_cpus)?|wait|in_flight)|(submits|ends)_10m|wait", Group.QUEUE),
    (r"partition|qos|partition_.+|user_partition_.+", Group.PARTITION),
    (r"user_(request|name_request|cpus)_.+|backoff_request_\d+", Group.REQUEST),
    (r"context_(request_last|user_same_last)|same_request_as_last|similar_(rate|best|jobs)", Group.REQUEST),
    (r"user_(name|dir)_.+|backoff_name_\d+|context_name_last", Group.NAME),
    (r"user_.+|context_.+", Group.USER),
    (r"(group|account|name|script|request|array)_.+", Group.OTHERS),
)
_COMPILED = tuple((re.compile(rule), group) for rule, group in _RULES)


def group_of(column: str) -> Group:
    """The kind of evidence that a column of a model is.

    >>> group_of("user_request_streak"), group_of("similar_limit_ratio"), group_of("script_rate15")
    (<Group.REQUEST: 'same request'>, <Group.TIME_LIMIT: 'time limit'>, <Group.OTHERS: "others' jobs">)
    """
    for rule, group in _COMPILED:
        if rule.fullmatch(column):
            return group
    raise KeyError(f"{column}: of no kind of evidence: groups.py has no rule for it")


def resolved(group: Group, values: Mapping[str, float]) -> Group:
    """Where a column's contribution is told: the online regression's with what it rests on for this job.

    That is the narrowest history there is: its weights are those of the user, the request, the name and
    their latest outcomes.

    >>> resolved(Group.LEARNT, {"user_ended": 12.0, "user_request_ended": 0.0})
    <Group.USER: 'recent jobs'>
    """
    if group is not Group.LEARNT:
        return group
    for whose, history in (
        ("user_request", Group.REQUEST),
        ("user_name", Group.NAME),
        ("user", Group.USER),
    ):
        if values.get(f"{whose}_ended", 0.0) > 0:
            return history
    return Group.OTHERS
