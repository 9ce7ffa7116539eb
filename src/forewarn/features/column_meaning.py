"""The meaning of each column of a model: its group of evidence, and a description.

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


class EvidenceGroup(StrEnum):
    """A group of evidence, in the order in which groups of equal weight are shown."""

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
    NEEDS = "needs"  # forecast run time and memory against the request: no column of the model
    USE = "use"  # known only at the end: never served


@dataclass(frozen=True, slots=True)
class ColumnMeaning:
    """What a column of a model means."""

    group: EvidenceGroup
    words: str


_PLAIN: Mapping[str, ColumnMeaning] = MappingProxyType(
    {
        # the request
        "cpus": ColumnMeaning(EvidenceGroup.SIZE, "CPUs requested"),
        "nodes": ColumnMeaning(EvidenceGroup.SIZE, "nodes requested"),
        "tasks": ColumnMeaning(EvidenceGroup.SIZE, "tasks requested"),
        "gpus": ColumnMeaning(EvidenceGroup.SIZE, "GPUs requested"),
        "priority": ColumnMeaning(EvidenceGroup.SIZE, "Slurm's priority of the job"),
        "array_task": ColumnMeaning(EvidenceGroup.SIZE, "number of the task in its array"),
        "time_limit": ColumnMeaning(EvidenceGroup.TIME_LIMIT, "time limit requested"),
        "memory_per": ColumnMeaning(EvidenceGroup.MEMORY, "what memory is counted by: node, CPU or GPU"),
        "memory": ColumnMeaning(EvidenceGroup.MEMORY, "memory requested"),
        "memory_per_cpu": ColumnMeaning(EvidenceGroup.MEMORY, "memory requested, by CPU"),
        "cpus_per_node": ColumnMeaning(EvidenceGroup.SIZE, "CPUs requested, by node"),
        "is_array": ColumnMeaning(EvidenceGroup.SIZE, "whether it is a task of an array"),
        "has_dependency": ColumnMeaning(EvidenceGroup.SIZE, "whether it depends on another job"),
        "defaulted": ColumnMeaning(EvidenceGroup.SIZE, "how many options were left to the site"),
        "limit_in_hours": ColumnMeaning(
            EvidenceGroup.TIME_LIMIT, "whether the time limit is a whole number of hours"
        ),
        "cpus_power_of_two": ColumnMeaning(
            EvidenceGroup.SIZE, "whether the number of CPUs is a power of two"
        ),
        "hour": ColumnMeaning(EvidenceGroup.TIME_OF_DAY, "hour of the day"),
        "weekday": ColumnMeaning(EvidenceGroup.TIME_OF_DAY, "day of the week"),
        # the queue
        "queue_pending": ColumnMeaning(EvidenceGroup.QUEUE, "pending jobs of the cluster"),
        "queue_running": ColumnMeaning(EvidenceGroup.QUEUE, "running jobs of the cluster"),
        "queue_pending_cpus": ColumnMeaning(EvidenceGroup.QUEUE, "CPUs of pending jobs in the cluster"),
        "queue_running_cpus": ColumnMeaning(EvidenceGroup.QUEUE, "CPUs in use in the cluster"),
        "queue_wait": ColumnMeaning(EvidenceGroup.QUEUE, "typical wait in the cluster"),
        "partition_pending": ColumnMeaning(EvidenceGroup.QUEUE, "pending jobs of the partition"),
        "partition_running": ColumnMeaning(
            EvidenceGroup.QUEUE, "how many of the partition's jobs are running"
        ),
        "partition_pending_cpus": ColumnMeaning(EvidenceGroup.QUEUE, "CPUs of pending jobs in the partition"),
        "partition_running_cpus": ColumnMeaning(EvidenceGroup.QUEUE, "CPUs in use in the partition"),
        "partition_wait": ColumnMeaning(EvidenceGroup.QUEUE, "typical wait in the partition"),
        "submits_10m": ColumnMeaning(EvidenceGroup.QUEUE, "submits of the last ten minutes"),
        "ends_10m": ColumnMeaning(EvidenceGroup.QUEUE, "ends of the last ten minutes"),
        "fail_rate_10m": ColumnMeaning(
            EvidenceGroup.CLUSTER, "failure rate of the cluster over the last ten minutes"
        ),
        "fail_rate_1h": ColumnMeaning(
            EvidenceGroup.CLUSTER, "failure rate of the cluster over the last hour"
        ),
        "fail_rate_1d": ColumnMeaning(EvidenceGroup.CLUSTER, "failure rate of the cluster over the last day"),
        # what is learned online
        "online": ColumnMeaning(
            EvidenceGroup.LEARNT, "the online regression over all histories, as log odds"
        ),
        "online_entities": ColumnMeaning(
            EvidenceGroup.LEARNT, "the online regression: by user, name and request"
        ),
        "online_states": ColumnMeaning(
            EvidenceGroup.LEARNT, "the online regression: outcomes of recent jobs"
        ),
        "same_request_as_last": ColumnMeaning(
            EvidenceGroup.REQUEST, "the same request as the user's last ended job"
        ),
        "burst_position": ColumnMeaning(EvidenceGroup.IN_FLIGHT, "position in a burst of submissions"),
        "similar_rate": ColumnMeaning(EvidenceGroup.REQUEST, "failure rate of the user's most similar jobs"),
        "similar_best": ColumnMeaning(EvidenceGroup.REQUEST, "how similar the most similar job is"),
        "similar_jobs": ColumnMeaning(EvidenceGroup.REQUEST, "how many similar jobs there are"),
        "similar_limit_ratio": ColumnMeaning(
            EvidenceGroup.TIME_LIMIT, "time limit against the run time of similar jobs"
        ),
        "similar_memory_ratio": ColumnMeaning(
            EvidenceGroup.MEMORY, "memory requested against the use of similar jobs"
        ),
        # the start
        "wait": ColumnMeaning(EvidenceGroup.QUEUE, "time it waited"),
        "cpus_given": ColumnMeaning(EvidenceGroup.SIZE, "CPUs allocated"),
        "nodes_given": ColumnMeaning(EvidenceGroup.SIZE, "nodes allocated"),
        "memory_given": ColumnMeaning(EvidenceGroup.MEMORY, "memory allocated"),
        "online_at_submit": ColumnMeaning(EvidenceGroup.LEARNT, "the online regression as of the submit"),
        "user_ended_since_submit": ColumnMeaning(
            EvidenceGroup.USER, "the user's jobs that ended while this one waited"
        ),
        "user_failed_since_submit": ColumnMeaning(
            EvidenceGroup.USER, "the user's jobs that failed while this one waited"
        ),
        "node_rate_max": ColumnMeaning(EvidenceGroup.NODES, "highest failure rate of the allocated nodes"),
        "node_rate_mean": ColumnMeaning(EvidenceGroup.NODES, "mean failure rate of the allocated nodes"),
        "node_seen": ColumnMeaning(EvidenceGroup.NODES, "share of the allocated nodes that have a history"),
        "node_since_fail": ColumnMeaning(
            EvidenceGroup.NODES, "time since a job failed on the allocated nodes"
        ),
    }
)
# Whose history, and the kind of evidence that it is.
_WHOSE: Mapping[str, ColumnMeaning] = MappingProxyType(
    {
        "user": ColumnMeaning(EvidenceGroup.USER, "the user's jobs"),
        "user_request": ColumnMeaning(EvidenceGroup.REQUEST, "the user's jobs with this request"),
        "user_name": ColumnMeaning(EvidenceGroup.NAME, "the user's jobs of this name"),
        "user_dir": ColumnMeaning(EvidenceGroup.NAME, "the user's jobs from this folder"),
        "user_name_request": ColumnMeaning(EvidenceGroup.REQUEST, "the user's jobs of this name and request"),
        "user_cpus": ColumnMeaning(EvidenceGroup.REQUEST, "the user's jobs of this size"),
        "user_partition": ColumnMeaning(EvidenceGroup.PARTITION, "the user's jobs in this partition"),
        "group": ColumnMeaning(EvidenceGroup.OTHERS, "the group's jobs"),
        "account": ColumnMeaning(EvidenceGroup.OTHERS, "the account's jobs"),
        "name": ColumnMeaning(EvidenceGroup.OTHERS, "anyone's jobs of this name"),
        "script": ColumnMeaning(EvidenceGroup.OTHERS, "anyone's jobs with this script or program"),
        "partition": ColumnMeaning(EvidenceGroup.PARTITION, "the partition's jobs"),
        "request": ColumnMeaning(EvidenceGroup.OTHERS, "anyone's jobs with this request"),
        "array": ColumnMeaning(EvidenceGroup.OTHERS, "the array's tasks"),
    }
)
# What of it; where that tells of something else than how those jobs ended, the kind of evidence.
_MEASURES: Mapping[str, tuple[str, EvidenceGroup | None]] = MappingProxyType(
    {
        "last": ("how the last of {} ended", None),
        "streak": ("how many of {} ended the same way in a row", None),
        "ended": ("how many of {} have ended", None),
        "in_flight": ("how many of {} are pending or running", EvidenceGroup.IN_FLIGHT),
        "rate3": ("failure rate of {}, the last few", None),
        "rate15": ("failure rate of {}, about the last 15", None),
        "rate100": ("failure rate of {}, about the last 100", None),
        "since_end": ("time since one of {} ended", None),
        "since_fail": ("time since one of {} failed", None),
        "since_submit": ("time since one of {} was submitted", EvidenceGroup.IN_FLIGHT),
        "running": ("how many of {} are running", EvidenceGroup.IN_FLIGHT),
        "limit15": ("how often {} reached their time limit", EvidenceGroup.TIME_LIMIT),
        "memory15": ("how often {} ran out of memory", EvidenceGroup.MEMORY),
        "run_time": ("typical run time of {}", EvidenceGroup.TIME_LIMIT),
        "limit_ratio": ("time limit against the run time of {}", EvidenceGroup.TIME_LIMIT),
        "memory_ratio": ("memory requested against the use of {}", EvidenceGroup.MEMORY),
        "newest_stage": (
            "where the newest of {} is: pending, running, completed or failed",
            EvidenceGroup.IN_FLIGHT,
        ),
        "newest_elapsed": ("how long the newest of {} has been running", EvidenceGroup.IN_FLIGHT),
        "newest_ratio": (
            "how long the newest of {} has been running, against their typical failure",
            EvidenceGroup.IN_FLIGHT,
        ),
        "flight_risk": ("mean risk of those of {} that are pending or running", EvidenceGroup.IN_FLIGHT),
        "running_elapsed": ("how long those of {} that run have been running", EvidenceGroup.IN_FLIGHT),
        "last_run_time": ("run time of the last of {} that ended", EvidenceGroup.TIME_LIMIT),
        "last_hit": ("whether the last of {} reached its time limit", EvidenceGroup.TIME_LIMIT),
        "limit_change": ("time limit against the last of {} that ended", EvidenceGroup.TIME_LIMIT),
        "cpus_change": ("CPUs against the last of {} that ended", EvidenceGroup.SIZE),
        "limit_fail_ratio": ("time limit against how long failures of {} ran", EvidenceGroup.TIME_LIMIT),
    }
)
_BACKOFF: Mapping[str, ColumnMeaning] = MappingProxyType(
    {
        "request": ColumnMeaning(EvidenceGroup.REQUEST, "this request"),
        "name": ColumnMeaning(EvidenceGroup.NAME, "this name"),
    }
)
_SHRUNK = "shrunk towards the user's and the cluster's"
_CONTEXTS: Mapping[str, ColumnMeaning] = MappingProxyType(
    {
        "lasts": ColumnMeaning(EvidenceGroup.USER, "after the same last outcomes"),
        "outcomes": ColumnMeaning(EvidenceGroup.USER, "after the same sequence of outcomes"),
        "user_lasts": ColumnMeaning(EvidenceGroup.USER, "of the user after the same last outcomes"),
        "user_same_last": ColumnMeaning(EvidenceGroup.REQUEST, "when the user repeats the last request"),
        "user_streak": ColumnMeaning(EvidenceGroup.USER, "of the user after the same streak"),
        "user_outcomes": ColumnMeaning(EvidenceGroup.USER, "of the user after the same sequence of outcomes"),
        "request_last": ColumnMeaning(EvidenceGroup.REQUEST, "of this request after its last outcome"),
        "name_last": ColumnMeaning(EvidenceGroup.NAME, "of this name after its last outcome"),
        "user_hour": ColumnMeaning(EvidenceGroup.TIME_OF_DAY, "of the user at this hour"),
    }
)
# What models see beside the features: `learn/data/encoders.py`.
_CATEGORIES: Mapping[str, ColumnMeaning] = MappingProxyType(
    {
        "partition": ColumnMeaning(EvidenceGroup.PARTITION, "partition"),
        "qos": ColumnMeaning(EvidenceGroup.PARTITION, "quality of service"),
        "script_language": ColumnMeaning(EvidenceGroup.OTHERS, "language of the script"),
        "script_launcher": ColumnMeaning(EvidenceGroup.OTHERS, "how the script starts its programs"),
        "script_modules": ColumnMeaning(EvidenceGroup.OTHERS, "modules that the script loads"),
    }
)
# Columns of which there are as many as a model has: the number or the quantity follows.
_PROFILE, _POSTHOC = "profile_", "posthoc_"


def _columns() -> Iterator[tuple[str, ColumnMeaning]]:
    for feature in (*L.STATIC, *L.QUEUE, *L.AT_START):
        yield feature.name, _PLAIN[feature.name]
    for entity in L.ENTITIES:
        whose = _WHOSE[entity]
        for measure in L.BRIEF + L.MORE if entity in L.FULL else L.BRIEF:
            words, group = _MEASURES[measure]
            if group is EvidenceGroup.IN_FLIGHT and not entity.startswith("user"):  # not the user's own
                group = EvidenceGroup.QUEUE if entity == "partition" else None
            yield f"{entity}_{measure}", ColumnMeaning(group or whose.group, words.format(whose.words))
    for feature in L.ENCODED:
        kind, _, what = feature.name.partition("_")
        if kind == "backoff":
            chain, _, jobs = what.partition("_")
            of = _BACKOFF[chain]
            yield (
                feature.name,
                ColumnMeaning(of.group, f"failure rate of {of.words}, {_SHRUNK} (about {jobs} jobs)"),
            )
        elif kind == "context":
            of = _CONTEXTS[what]
            yield feature.name, ColumnMeaning(of.group, f"failure rate {of.words}")
        else:
            yield feature.name, _PLAIN[feature.name]
    yield from _CATEGORIES.items()


EVIDENCE: Mapping[str, ColumnMeaning] = MappingProxyType(dict(_columns()))


def evidence_of(column: str) -> ColumnMeaning:
    """Return the meaning of a column; KeyError for a column that no model of this version has.

    >>> evidence_of("user_request_rate15").words
    "failure rate of the user's jobs with this request, about the last 15"
    """
    if column in EVIDENCE:
        return EVIDENCE[column]
    if column.startswith(_POSTHOC):
        quantity = column.removeprefix(_POSTHOC).replace("_", " ")
        return ColumnMeaning(EvidenceGroup.USE, f"{quantity}: known only at the end")
    if column.startswith(_PROFILE):
        return ColumnMeaning(EvidenceGroup.PROFILE, f"membership in profile {column.removeprefix(_PROFILE)}")
    raise KeyError(f"{column}: of no kind of evidence: features/column_meaning.py does not have it")


def in_words(column: str) -> str:
    """Describe a column; empty if unknown, as for a model of another version.

    >>> in_words("posthoc_run_time"), in_words("gone")
    ('run time: known only at the end', '')
    """
    try:
        return evidence_of(column).words
    except KeyError:
        return ""
