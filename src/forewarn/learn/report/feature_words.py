"""What a feature is, in words, from the parts of its name."""

from __future__ import annotations

import re

_WHOSE = {
    "user_name_request": "the user's jobs of this name and request",
    "user_request": "the user's jobs with this request",
    "user_name": "the user's jobs of this name",
    "user_dir": "the user's jobs from this folder",
    "user_cpus": "the user's jobs of this size",
    "user_partition": "the user's jobs in this partition",
    "user": "the user's jobs",
    "group": "the group's jobs",
    "account": "the account's jobs",
    "name": "anyone's jobs of this name",
    "script": "anyone's jobs with this script or program",
    "partition": "the partition's jobs",
    "request": "anyone's jobs with this request",
    "array": "the array's tasks",
}
_HISTORY = {
    "last": "how the last of {} ended",
    "streak": "how many of {} ended the same way in a row",
    "ended": "how many of {} have ended",
    "in_flight": "how many of {} are pending or running",
    "running": "how many of {} are running",
    "rate3": "failure rate of {}, the last few",
    "rate15": "failure rate of {}, about the last 15",
    "rate100": "failure rate of {}, about the last 100",
    "since_end": "time since one of {} ended",
    "since_fail": "time since one of {} failed",
    "since_submit": "time since one of {} was submitted",
    "limit15": "how often {} ran to their limit",
    "memory15": "how often {} were killed for memory",
    "run_time": "usual run time of {}",
    "limit_ratio": "time limit against the run time of {}",
    "memory_ratio": "memory asked for against the use of {}",
    "running_elapsed": "how long those of {} that run have been running",
    "last_hit": "whether the last of {} ran to its limit",
    "limit_fail_ratio": "time limit against how long failures of {} ran",
    "newest_stage": "where the newest of {} is: pending, running, ended well or badly",
    "newest_elapsed": "how long the newest of {} has been running",
    "newest_ratio": "how long the newest of {} has been running, against their usual failure",
    "flight_risk": "mean risk of those of {} that are in flight",
    "last_run_time": "run time of the last of {} that ended",
    "limit_change": "time limit against the last of {} that ended",
    "cpus_change": "CPUs against the last of {} that ended",
    "pending": "pending jobs of the partition",
    "pending_cpus": "CPUs that wait in the partition",
    "running_cpus": "CPUs in use in the partition",
    "wait": "usual wait in the partition",
}
_PLAIN = {
    "online": "the online regression over all histories, as log odds",
    "online_entities": "the online regression: whose job it is",
    "online_states": "the online regression: how recent jobs went",
    "online_at_submit": "the online regression as of the submit",
    "same_request_as_last": "the same request as the user's last ended job",
    "burst_position": "place in a burst of submits",
    "similar_rate": "failure rate of the user's most similar jobs",
    "similar_best": "how similar the most similar job is",
    "similar_jobs": "how many similar jobs there are",
    "similar_limit_ratio": "time limit against the run time of similar jobs",
    "similar_memory_ratio": "memory asked for against the use of similar jobs",
    "hour": "hour of the day",
    "weekday": "day of the week",
    "cpus": "CPUs asked for",
    "nodes": "nodes asked for",
    "tasks": "tasks asked for",
    "gpus": "GPUs asked for",
    "memory": "memory asked for",
    "time_limit": "time limit asked for",
    "wait": "time it waited",
    "queue_pending": "pending jobs of the cluster",
    "queue_running": "running jobs of the cluster",
    "queue_pending_cpus": "CPUs that wait in the cluster",
    "queue_running_cpus": "CPUs in use in the cluster",
    "queue_wait": "usual wait in the cluster",
    "limit_in_hours": "whether the time limit is a whole number of hours",
    "defaulted": "how many options were left to the site",
    "user_ended_since_submit": "the user's jobs that ended while this one waited",
    "user_failed_since_submit": "the user's jobs that failed while this one waited",
    "node_rate_max": "highest failure rate of the nodes given",
    "node_rate_mean": "mean failure rate of the nodes given",
    "node_seen": "share of the nodes given that have a history",
    "node_since_fail": "time since a job failed on the nodes given",
    "submits_10m": "submits of the last ten minutes",
    "ends_10m": "ends of the last ten minutes",
}
_CONTEXTS = {
    "lasts": "after such last outcomes",
    "outcomes": "after such a run of outcomes",
    "user_lasts": "of the user after such last outcomes",
    "user_same_last": "of the user with the last request again",
    "user_streak": "of the user after such a streak",
    "user_outcomes": "of the user after such a run of outcomes",
    "request_last": "of this request after its last outcome",
    "name_last": "of this name after its last outcome",
    "user_hour": "of the user at this hour",
}
_BACKOFF = {"request": "the cluster down to this request", "name": "the cluster down to this name"}
_AGO = {"10m": "ten minutes", "1h": "hour", "1d": "day"}


def in_words(name: str) -> str:
    """What a feature is, or nothing where its name says it all.

    >>> in_words("user_request_rate15")
    "failure rate of the user's jobs with this request, about the last 15"
    >>> in_words("posthoc_run_time"), in_words("qos")
    ('run time: known only at the end', '')
    """
    if name in _PLAIN:
        return _PLAIN[name]
    if found := re.fullmatch(r"posthoc_(.+)", name):
        return f"{found[1].replace('_', ' ')}: known only at the end"
    if found := re.fullmatch(r"fail_rate_(10m|1h|1d)", name):
        return f"failure rate of the cluster over the last {_AGO[found[1]]}"
    if found := re.fullmatch(r"backoff_(request|name)_(\d+)", name):
        return f"failure rate from {_BACKOFF[found[1]]}, about {found[2]} jobs"
    if name.startswith("context_"):
        return f"failure rate {_CONTEXTS.get(name.removeprefix('context_'), 'in such a situation')}"
    for whose, words in _WHOSE.items():
        measure = name.removeprefix(f"{whose}_")
        if measure != name and measure in _HISTORY:
            return _HISTORY[measure].format(words)
    return ""
