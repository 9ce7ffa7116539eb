"""The evidence of each group, derived from the features of a job.

Other users' jobs appear in aggregate only: as rates over a partition or the cluster, never as single jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from forewarn.assess.codes import ReasonCode
from forewarn.assess.explanation.feature_values import Features, feature_value, first_value
from forewarn.assess.explanation.groups import EvidenceGroup
from forewarn.assess.explanation.histories import history, streak
from forewarn.evidence import Statement, Value

CROWD = 30  # jobs of others below which a rate would reveal single jobs
LEAST_SHARE = 0.01  # least share of earlier jobs at a limit that is reported
_CROWDS = ("group", "account", "name", "script", "request", "array")
_STAGES = {1: "pending", 2: "running", 3: "completed", 4: "failed"}
_SIZES = ("nodes", "cpus", "gpus", "tasks")
_NARROW = ("request", "name")  # the user's jobs with this request or name, most similar first


def _request(features: Features) -> Statement:
    found = history(features, "user_request")
    if found is not None:
        return Statement(ReasonCode.REQUEST, found)
    rate, similar = feature_value(features, "similar_rate"), feature_value(features, "similar_jobs")
    enough = rate is not None and similar is not None and similar >= 0.5
    return Statement(ReasonCode.FIRST_REQUEST, {"similar_failure_rate": rate} if enough else {})


def _name(features: Features) -> Statement:
    for code, entity in ((ReasonCode.NAME, "user_name"), (ReasonCode.FOLDER, "user_dir")):
        found = history(features, entity)
        if found is not None:
            return Statement(code, found)
    return Statement(ReasonCode.FIRST_NAME)


def _user(features: Features) -> Statement:
    found = history(features, "user")
    if found is None:
        return Statement(ReasonCode.FIRST_USER)
    ended = feature_value(features, "user_ended_since_submit")
    failed = feature_value(features, "user_failed_since_submit")
    if ended:
        found |= {"ended_since_submit": int(ended), "failed_since_submit": int(failed or 0)}
    return Statement(ReasonCode.USER, found)


def _in_flight(features: Features) -> Statement:
    values: dict[str, Value] = _present(
        features, in_flight="user_in_flight", running="user_running", since_submit="user_since_submit"
    )
    stage = feature_value(features, "user_request_newest_stage")
    if stage in _STAGES:
        values["newest_with_request"] = _STAGES[int(stage)]
        if stage == 2:
            values |= _present(features, newest_elapsed="user_request_newest_elapsed")
    return Statement(ReasonCode.IN_FLIGHT, values)


def _time_limit(features: Features) -> Statement:
    limit = feature_value(features, "time_limit")
    values: dict[str, Value] = {"limit": limit}
    if limit is not None:
        columns = {of: f"user_{of}_limit_ratio" for of in _NARROW}
        columns |= {"similar": "similar_limit_ratio", "user": "user_limit_ratio"}
        if found := first_value(features, columns):
            of, ratio = found[0], 2.0 ** found[1]
            values |= {"ratio": ratio, "ratio_of": of, "run_time": limit / ratio}
    return Statement(ReasonCode.TIME_LIMIT, values | _at_limit(features, "limit15"))


def _memory(features: Features) -> Statement:
    values: dict[str, Value] = {
        "asked": feature_value(features, "memory")
    }  # 0: the whole memory of its nodes
    columns = {of: f"user_{of}_memory_ratio" for of in _NARROW}
    columns |= {"similar": "similar_memory_ratio", "user": "user_memory_ratio"}
    if found := first_value(features, columns):
        values |= {"ratio": 2.0 ** found[1], "ratio_of": found[0]}
    return Statement(ReasonCode.MEMORY, values | _at_limit(features, "memory15"))


def _at_limit(features: Features, measure: str) -> dict[str, Value]:
    """Return the share of recent jobs that ended at a limit, in the narrowest history that has any."""
    for of in _NARROW:
        share = feature_value(features, f"user_{of}_{measure}")
        if share is not None and share >= LEAST_SHARE:
            return {"at_limit": share, "at_limit_of": of}
    return {}


def _size(features: Features) -> Statement:
    values: dict[str, Value] = {
        name: value for name in _SIZES if (value := feature_value(features, name)) is not None and value > 0
    }
    values |= {name: True for name in ("is_array", "has_dependency") if feature_value(features, name)}
    change = feature_value(features, "user_cpus_change")
    if change is not None and abs(change) >= 0.5:
        values["cpus_ratio"] = 2.0**change
    return Statement(ReasonCode.SIZE, values)


def _partition(features: Features) -> Statement:
    values: dict[str, Value] = {}
    if (feature_value(features, "partition_ended") or 0) >= CROWD:
        values |= _present(features, failure_rate="partition_rate100")
    return Statement(ReasonCode.PARTITION, values | (streak(features, "user_partition") or {}))


def _nodes(features: Features) -> Statement:
    values = _present(features, worst_failure_rate="node_rate_max", since_failure="node_since_fail")
    return Statement(ReasonCode.NODES, values)


def _cluster(features: Features) -> Statement:
    rates = {"1h": "fail_rate_1h", "1d": "fail_rate_1d"}
    if (feature_value(features, "ends_10m") or 0) >= 10:  # with fewer, ten minutes may be one job
        rates = {"10m": "fail_rate_10m"} | rates
    return Statement(
        ReasonCode.CLUSTER, _present(features, **{f"rate_{of}": name for of, name in rates.items()})
    )


def _queue(features: Features) -> Statement:
    values = _present(features, pending="queue_pending", running="queue_running", wait="wait")
    return Statement(ReasonCode.QUEUE, values)


def _others(features: Features) -> Statement:
    enough = [name for name in _CROWDS if (feature_value(features, f"{name}_ended") or 0) >= CROWD]
    return Statement(ReasonCode.OTHERS, _present(features, **{name: f"{name}_rate100" for name in enough}))


def _time_of_day(features: Features) -> Statement:
    values = _present(features, hour="hour", weekday="weekday", failure_rate="context_user_hour")
    return Statement(ReasonCode.TIME_OF_DAY, values)


def _present(features: Features, **columns: str) -> dict[str, Value]:
    """Return the features that are not missing, under new names."""
    values = {name: feature_value(features, column) for name, column in columns.items()}
    return {name: value for name, value in values.items() if value is not None}


_OF_GROUP: Mapping[EvidenceGroup, Callable[[Features], Statement]] = {
    EvidenceGroup.REQUEST: _request,
    EvidenceGroup.NAME: _name,
    EvidenceGroup.USER: _user,
    EvidenceGroup.IN_FLIGHT: _in_flight,
    EvidenceGroup.TIME_LIMIT: _time_limit,
    EvidenceGroup.MEMORY: _memory,
    EvidenceGroup.SIZE: _size,
    EvidenceGroup.PARTITION: _partition,
    EvidenceGroup.NODES: _nodes,
    EvidenceGroup.CLUSTER: _cluster,
    EvidenceGroup.QUEUE: _queue,
    EvidenceGroup.OTHERS: _others,
    EvidenceGroup.TIME_OF_DAY: _time_of_day,
    EvidenceGroup.NEEDS: lambda _: Statement(ReasonCode.NEEDS),
    EvidenceGroup.USE: lambda _: Statement(ReasonCode.USE),
}


def evidence(
    group: EvidenceGroup,
    features: Features,
    *,
    categories: Mapping[str, str] = {},
    profile: str | None = None,
) -> Statement:
    """State the evidence of one group.

    Parameters
    ----------
    features
        All features of the job, including those that the model does not use.
    categories
        The job's partition and QOS, where they occurred in training.
    profile
        The name of the nearest job profile.

    >>> evidence(EvidenceGroup.REQUEST, {"user_request_ended": 6.0, "user_request_streak": 4.0}).values
    {'streak': 4, 'ended': 6}
    """
    if group is EvidenceGroup.PROFILE:
        return Statement(ReasonCode.PROFILE, {"profile": profile})
    found = _OF_GROUP[group](features)
    if group is EvidenceGroup.PARTITION and categories:
        named: dict[str, Value] = {"fields": tuple(categories), "names": tuple(categories.values())}
        return Statement(found.code, {**named, **found.values})
    return found
