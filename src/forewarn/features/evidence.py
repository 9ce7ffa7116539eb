"""What each column of a model is: which kind of evidence, and its meaning in words.

Made by the same construction as the features of `kernel/layout.py`: a feature that is added there and not
here is a KeyError at import. It stands outside of the kernel's folder, so that another wording does not make
Numba compile again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from forewarn.features.kernel import layout as L  # noqa: N812


class Group(StrEnum):
    """A kind of evidence, in the order in which it is shown where weights are equal."""

    REQUEST = "same_request"  # the user's jobs with this request
    NAME = "same_name"  # the user's jobs of this name or from this folder
    USER = "recent_jobs"  # all of the user's jobs
    IN_FLIGHT = "jobs_in_flight"  # those of the user that wait or run
    TIME_LIMIT = "time_limit"
    MEMORY = "memory"
    SIZE = "size_of_the_request"
    PARTITION = "partition"
    NODES = "nodes_given"
    CLUSTER = "cluster_now"  # how often jobs fail everywhere just now
    QUEUE = "queue"  # how full it is
    OTHERS = "others_jobs"  # in aggregate only
    TIME_OF_DAY = "time_of_day"
    PROFILE = "kind_of_job"
    LEARNT = "online_regression"  # rests on the user's histories: `groups.resolved` says on which
    NEEDS = "needs"  # run time and memory foreseen, against what is asked for: no column of the model's
    USE = "use"  # known only at the end: never served


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a column is."""

    group: Group
    words: str


_PLAIN: Mapping[str, Evidence] = MappingProxyType(
    {
        # the request
        "cpus": Evidence(Group.SIZE, "CPUs asked for"),
        "nodes": Evidence(Group.SIZE, "nodes asked for"),
        "tasks": Evidence(Group.SIZE, "tasks asked for"),
        "gpus": Evidence(Group.SIZE, "GPUs asked for"),
        "priority": Evidence(Group.SIZE, "Slurm's priority of the job"),
        "array_task": Evidence(Group.SIZE, "number of the task in its array"),
        "time_limit": Evidence(Group.TIME_LIMIT, "time limit asked for"),
        "memory_per": Evidence(Group.MEMORY, "what memory is counted by: node, CPU or GPU"),
        "memory": Evidence(Group.MEMORY, "memory asked for"),
        "memory_per_cpu": Evidence(Group.MEMORY, "memory asked for, by CPU"),
        "cpus_per_node": Evidence(Group.SIZE, "CPUs asked for, by node"),
        "is_array": Evidence(Group.SIZE, "whether it is a task of an array"),
        "has_dependency": Evidence(Group.SIZE, "whether it depends on another job"),
        "defaulted": Evidence(Group.SIZE, "how many options were left to the site"),
        "limit_in_hours": Evidence(Group.TIME_LIMIT, "whether the time limit is a whole number of hours"),
        "cpus_power_of_two": Evidence(Group.SIZE, "whether the number of CPUs is a power of two"),
        "hour": Evidence(Group.TIME_OF_DAY, "hour of the day"),
        "weekday": Evidence(Group.TIME_OF_DAY, "day of the week"),
        # the queue
        "queue_pending": Evidence(Group.QUEUE, "pending jobs of the cluster"),
        "queue_running": Evidence(Group.QUEUE, "running jobs of the cluster"),
        "queue_pending_cpus": Evidence(Group.QUEUE, "CPUs that wait in the cluster"),
        "queue_running_cpus": Evidence(Group.QUEUE, "CPUs in use in the cluster"),
        "queue_wait": Evidence(Group.QUEUE, "usual wait in the cluster"),
        "partition_pending": Evidence(Group.QUEUE, "pending jobs of the partition"),
        "partition_running": Evidence(Group.QUEUE, "how many of the partition's jobs are running"),
        "partition_pending_cpus": Evidence(Group.QUEUE, "CPUs that wait in the partition"),
        "partition_running_cpus": Evidence(Group.QUEUE, "CPUs in use in the partition"),
        "partition_wait": Evidence(Group.QUEUE, "usual wait in the partition"),
        "submits_10m": Evidence(Group.QUEUE, "submits of the last ten minutes"),
        "ends_10m": Evidence(Group.QUEUE, "ends of the last ten minutes"),
        "fail_rate_10m": Evidence(Group.CLUSTER, "failure rate of the cluster over the last ten minutes"),
        "fail_rate_1h": Evidence(Group.CLUSTER, "failure rate of the cluster over the last hour"),
        "fail_rate_1d": Evidence(Group.CLUSTER, "failure rate of the cluster over the last day"),
        # what is learnt online
        "online": Evidence(Group.LEARNT, "the online regression over all histories, as log odds"),
        "online_entities": Evidence(Group.LEARNT, "the online regression: whose job it is"),
        "online_states": Evidence(Group.LEARNT, "the online regression: how recent jobs went"),
        "same_request_as_last": Evidence(Group.REQUEST, "the same request as the user's last ended job"),
        "burst_position": Evidence(Group.IN_FLIGHT, "place in a burst of submits"),
        "similar_rate": Evidence(Group.REQUEST, "failure rate of the user's most similar jobs"),
        "similar_best": Evidence(Group.REQUEST, "how similar the most similar job is"),
        "similar_jobs": Evidence(Group.REQUEST, "how many similar jobs there are"),
        "similar_limit_ratio": Evidence(Group.TIME_LIMIT, "time limit against the run time of similar jobs"),
        "similar_memory_ratio": Evidence(Group.MEMORY, "memory asked for against the use of similar jobs"),
        # the start
        "wait": Evidence(Group.QUEUE, "time it waited"),
        "cpus_given": Evidence(Group.SIZE, "CPUs given"),
        "nodes_given": Evidence(Group.SIZE, "nodes given"),
        "memory_given": Evidence(Group.MEMORY, "memory given"),
        "online_at_submit": Evidence(Group.LEARNT, "the online regression as of the submit"),
        "user_ended_since_submit": Evidence(Group.USER, "the user's jobs that ended while this one waited"),
        "user_failed_since_submit": Evidence(Group.USER, "the user's jobs that failed while this one waited"),
        "node_rate_max": Evidence(Group.NODES, "highest failure rate of the nodes given"),
        "node_rate_mean": Evidence(Group.NODES, "mean failure rate of the nodes given"),
        "node_seen": Evidence(Group.NODES, "share of the nodes given that have a history"),
        "node_since_fail": Evidence(Group.NODES, "time since a job failed on the nodes given"),
    }
)
# Whose history, and the kind of evidence that it is.
_WHOSE: Mapping[str, Evidence] = MappingProxyType(
    {
        "user": Evidence(Group.USER, "the user's jobs"),
        "user_request": Evidence(Group.REQUEST, "the user's jobs with this request"),
        "user_name": Evidence(Group.NAME, "the user's jobs of this name"),
        "user_dir": Evidence(Group.NAME, "the user's jobs from this folder"),
        "user_name_request": Evidence(Group.REQUEST, "the user's jobs of this name and request"),
        "user_cpus": Evidence(Group.REQUEST, "the user's jobs of this size"),
        "user_partition": Evidence(Group.PARTITION, "the user's jobs in this partition"),
        "group": Evidence(Group.OTHERS, "the group's jobs"),
        "account": Evidence(Group.OTHERS, "the account's jobs"),
        "name": Evidence(Group.OTHERS, "anyone's jobs of this name"),
        "script": Evidence(Group.OTHERS, "anyone's jobs with this script or program"),
        "partition": Evidence(Group.PARTITION, "the partition's jobs"),
        "request": Evidence(Group.OTHERS, "anyone's jobs with this request"),
        "array": Evidence(Group.OTHERS, "the array's tasks"),
    }
)
# What of it; where that tells of something else than how those jobs ended, the kind of evidence.
_MEASURES: Mapping[str, tuple[str, Group | None]] = MappingProxyType(
    {
        "last": ("how the last of {} ended", None),
        "streak": ("how many of {} ended the same way in a row", None),
        "ended": ("how many of {} have ended", None),
        "in_flight": ("how many of {} are pending or running", Group.IN_FLIGHT),
        "rate3": ("failure rate of {}, the last few", None),
        "rate15": ("failure rate of {}, about the last 15", None),
        "rate100": ("failure rate of {}, about the last 100", None),
        "since_end": ("time since one of {} ended", None),
        "since_fail": ("time since one of {} failed", None),
        "since_submit": ("time since one of {} was submitted", Group.IN_FLIGHT),
        "running": ("how many of {} are running", Group.IN_FLIGHT),
        "limit15": ("how often {} ran to their limit", Group.TIME_LIMIT),
        "memory15": ("how often {} were killed for memory", Group.MEMORY),
        "run_time": ("usual run time of {}", Group.TIME_LIMIT),
        "limit_ratio": ("time limit against the run time of {}", Group.TIME_LIMIT),
        "memory_ratio": ("memory asked for against the use of {}", Group.MEMORY),
        "newest_stage": (
            "where the newest of {} is: pending, running, ended well or badly",
            Group.IN_FLIGHT,
        ),
        "newest_elapsed": ("how long the newest of {} has been running", Group.IN_FLIGHT),
        "newest_ratio": (
            "how long the newest of {} has been running, against their usual failure",
            Group.IN_FLIGHT,
        ),
        "flight_risk": ("mean risk of those of {} that are in flight", Group.IN_FLIGHT),
        "running_elapsed": ("how long those of {} that run have been running", Group.IN_FLIGHT),
        "last_run_time": ("run time of the last of {} that ended", Group.TIME_LIMIT),
        "last_hit": ("whether the last of {} ran to its limit", Group.TIME_LIMIT),
        "limit_change": ("time limit against the last of {} that ended", Group.TIME_LIMIT),
        "cpus_change": ("CPUs against the last of {} that ended", Group.SIZE),
        "limit_fail_ratio": ("time limit against how long failures of {} ran", Group.TIME_LIMIT),
    }
)
_BACKOFF: Mapping[str, Evidence] = MappingProxyType(
    {
        "request": Evidence(Group.REQUEST, "the cluster down to this request"),
        "name": Evidence(Group.NAME, "the cluster down to this name"),
    }
)
_CONTEXTS: Mapping[str, Evidence] = MappingProxyType(
    {
        "lasts": Evidence(Group.USER, "after such last outcomes"),
        "outcomes": Evidence(Group.USER, "after such a run of outcomes"),
        "user_lasts": Evidence(Group.USER, "of the user after such last outcomes"),
        "user_same_last": Evidence(Group.REQUEST, "of the user with the last request again"),
        "user_streak": Evidence(Group.USER, "of the user after such a streak"),
        "user_outcomes": Evidence(Group.USER, "of the user after such a run of outcomes"),
        "request_last": Evidence(Group.REQUEST, "of this request after its last outcome"),
        "name_last": Evidence(Group.NAME, "of this name after its last outcome"),
        "user_hour": Evidence(Group.TIME_OF_DAY, "of the user at this hour"),
    }
)
# What models see beside the features: `learn/encoders.py`.
_CATEGORIES: Mapping[str, Evidence] = MappingProxyType(
    {
        "partition": Evidence(Group.PARTITION, "partition"),
        "qos": Evidence(Group.PARTITION, "quality of service"),
        "script_language": Evidence(Group.OTHERS, "language of the script"),
        "script_launcher": Evidence(Group.OTHERS, "how the script starts its programs"),
        "script_modules": Evidence(Group.OTHERS, "modules that the script loads"),
    }
)
# Columns of which there are as many as a model has: the number or the quantity follows.
_PROFILE, _POSTHOC = "profile_", "posthoc_"


def _columns() -> Iterator[tuple[str, Evidence]]:
    for feature in (*L.STATIC, *L.QUEUE, *L.AT_START):
        yield feature.name, _PLAIN[feature.name]
    for entity in L.ENTITIES:
        whose = _WHOSE[entity]
        for measure in L.BRIEF + L.MORE if entity in L.FULL else L.BRIEF:
            words, group = _MEASURES[measure]
            if group is Group.IN_FLIGHT and not entity.startswith("user"):  # not the user's own
                group = Group.QUEUE if entity == "partition" else None
            yield f"{entity}_{measure}", Evidence(group or whose.group, words.format(whose.words))
    for feature in L.ENCODED:
        kind, _, what = feature.name.partition("_")
        if kind == "backoff":
            chain, _, jobs = what.partition("_")
            of = _BACKOFF[chain]
            yield feature.name, Evidence(of.group, f"failure rate from {of.words}, about {jobs} jobs")
        elif kind == "context":
            of = _CONTEXTS[what]
            yield feature.name, Evidence(of.group, f"failure rate {of.words}")
        else:
            yield feature.name, _PLAIN[feature.name]
    yield from _CATEGORIES.items()


EVIDENCE: Mapping[str, Evidence] = MappingProxyType(dict(_columns()))


def evidence_of(column: str) -> Evidence:
    """Tell what a column of a model is; KeyError for one that no model of this version has.

    >>> evidence_of("user_request_rate15").words
    "failure rate of the user's jobs with this request, about the last 15"
    """
    if column in EVIDENCE:
        return EVIDENCE[column]
    if column.startswith(_POSTHOC):
        quantity = column.removeprefix(_POSTHOC).replace("_", " ")
        return Evidence(Group.USE, f"{quantity}: known only at the end")
    if column.startswith(_PROFILE):
        return Evidence(Group.PROFILE, f"how far it is of kind {column.removeprefix(_PROFILE)}")
    raise KeyError(f"{column}: of no kind of evidence: features/evidence.py does not have it")


def in_words(column: str) -> str:
    """Tell in words what a column is; nothing where it is not known, as of a model of another version.

    >>> in_words("posthoc_run_time"), in_words("gone")
    ('run time: known only at the end', '')
    """
    try:
        return evidence_of(column).words
    except KeyError:
        return ""
