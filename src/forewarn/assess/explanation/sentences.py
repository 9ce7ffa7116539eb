"""A sentence for each kind of evidence, made of the values that the job has.

What others did is told in aggregate only: rates over a partition or the cluster, never a job or a name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from forewarn.assess.explanation.amounts import count, duration, known, memory, percent, times
from forewarn.assess.explanation.groups import Group
from forewarn.assess.explanation.histories import history, streak

Values = Mapping[str, float]
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
CROWD = 30  # jobs of others below which a rate would tell of single ones
_CROWDS = (
    ("group", "of the group's"),
    ("account", "of the account's"),
    ("name", "of those of this name"),
    ("script", "of those with this script or program"),
    ("request", "of those with this request"),
    ("array", "of this array's tasks"),
)
_STAGES = {1: "waits", 2: "runs", 3: "went well", 4: "failed"}


def _joined(parts: list[str]) -> str:
    return ", ".join(parts)


def _request(values: Values, whose: str) -> str:
    said = history(values, "user_request", whose, "with this request")
    if said is not None:
        return said
    rate, alike = known(values, "similar_rate"), known(values, "similar_jobs")
    if rate is not None and alike is not None and alike >= 0.5:
        return f"the first with this request; of {whose} most similar jobs {percent(rate)} failed"
    return f"the first of {whose} jobs with this request"


def _name(values: Values, whose: str) -> str:
    return (
        history(values, "user_name", whose, "of this name")
        or history(values, "user_dir", whose, "from this folder")
        or f"the first of {whose} jobs of this name"
    )


def _user(values: Values, whose: str) -> str:
    said = history(values, "user", whose)
    if said is None:
        return f"none of {whose} earlier jobs is known"
    ended, failed = known(values, "user_ended_since_submit"), known(values, "user_failed_since_submit")
    if ended:
        said += f"; while this one waited {count(failed or 0, 'job')} of {ended:.0f} failed"
    return said


def _in_flight(values: Values, whose: str) -> str:
    flight, running = known(values, "user_in_flight"), known(values, "user_running")
    parts = []
    if flight is not None:
        parts.append(
            f"{count(flight, 'job')} of {whose} wait or run"
            if whose != "your"
            else f"{count(flight, 'other job')} of yours wait or run"
        )
        if running:
            parts[-1] += f" ({running:.0f} run)"
    stage, elapsed = (
        known(values, "user_request_newest_stage"),
        known(values, "user_request_newest_elapsed"),
    )
    if stage in _STAGES:
        parts.append(f"the newest with this request {_STAGES[int(stage)]}")
        if stage == 2 and elapsed is not None:
            parts[-1] += f" since {duration(elapsed)}"
    since = known(values, "user_since_submit")
    if since is not None:
        parts.append(f"submitted {duration(since)} after the one before")
    return _joined(parts) or f"nothing of {whose} waits or runs"


def _time_limit(values: Values, whose: str) -> str:
    limit = known(values, "time_limit")
    parts = ["no time limit is known" if limit is None else f"a time limit of {duration(limit)}"]
    for column, words in (
        ("user_request_limit_ratio", f"{whose} jobs with this request ran"),
        ("user_name_limit_ratio", f"{whose} jobs of this name ran"),
        ("similar_limit_ratio", f"{whose} similar jobs ran"),
        ("user_limit_ratio", f"{whose} jobs ran"),
    ):
        ratio = known(values, column)
        if ratio is not None and limit is not None:
            parts.append(f"{times(ratio)} what {words}, about {duration(limit / 2.0**ratio)}")
            break
    for whose_column, words in (("user_request", "with this request"), ("user_name", "of this name")):
        reached = known(values, f"{whose_column}_limit15")
        if reached is not None and reached >= 0.01:
            parts.append(f"{percent(reached)} of {whose} last jobs {words} ran to their limit")
            break
    return _joined(parts)


def _memory(values: Values, whose: str) -> str:
    asked = known(values, "memory")
    said = "no memory is asked for" if asked is None else f"{memory(asked)} of memory in all"
    parts = ["all memory of its nodes is asked for" if asked == 0 else said]
    for column, words in (
        ("user_request_memory_ratio", f"{whose} jobs with this request used"),
        ("user_name_memory_ratio", f"{whose} jobs of this name used"),
        ("similar_memory_ratio", f"{whose} similar jobs used"),
        ("user_memory_ratio", f"{whose} jobs used"),
    ):
        ratio = known(values, column)
        if ratio is not None:
            parts.append(f"{times(ratio)} what {words} for a task")
            break
    for whose_column, words in (("user_request", "with this request"), ("user_name", "of this name")):
        killed = known(values, f"{whose_column}_memory15")
        if killed is not None and killed >= 0.01:
            parts.append(f"{percent(killed)} of {whose} last jobs {words} were killed for memory")
            break
    return _joined(parts)


def _size(values: Values, _: str) -> str:
    parts = [
        count(value, unit)
        for name, unit in (("nodes", "node"), ("cpus", "CPU"), ("gpus", "GPU"), ("tasks", "task"))
        if (value := known(values, name)) is not None and value > 0
    ]
    if known(values, "is_array"):
        parts.append("part of an array")
    if known(values, "has_dependency"):
        parts.append("waits for another job")
    change = known(values, "user_cpus_change")
    if change is not None and abs(change) >= 0.5:
        parts.append(f"{times(change)} the CPUs of the job before")
    return "the size of the request: " + (_joined(parts) or "not known")


def _partition(values: Values, whose: str) -> str:
    enough = (known(values, "partition_ended") or 0) >= CROWD
    rate = known(values, "partition_rate100") if enough else None
    of_user = streak(values, "user_partition", whose, "there")
    parts = [] if rate is None else [f"of the last 100 or so jobs there {percent(rate)} failed"]
    return _joined(parts + ([of_user] if of_user else [])) or "nothing is known of it yet"


def _nodes(values: Values, _: str) -> str:
    worst, since = known(values, "node_rate_max"), known(values, "node_since_fail")
    parts = []
    if worst is not None:
        parts.append(f"on the worst of the nodes given {percent(worst)} of the last jobs failed")
    if since is not None:
        parts.append(f"the last failure on one of them was {duration(since)} ago")
    return _joined(parts) or "nothing is known of the nodes given"


def _cluster(values: Values, _: str) -> str:
    enough = (known(values, "ends_10m") or 0) >= 10  # else ten minutes may be one job
    rates = {
        words: rate
        for name, words in (("10m", "ten minutes"), ("1h", "hour"), ("1d", "day"))
        if (rate := known(values, f"fail_rate_{name}")) is not None and (name != "10m" or enough)
    }
    if not rates:
        return "no job of the cluster has ended lately"
    said = [f"{percent(rate)} over the last {words}" for words, rate in rates.items()]
    return "jobs that failed on the whole cluster: " + _joined(said)


def _queue(values: Values, _: str) -> str:
    waiting, running = known(values, "queue_pending"), known(values, "queue_running")
    wait = known(values, "wait")
    parts = [] if waiting is None else [f"{count(waiting, 'job')} wait and {count(running or 0, 'job')} run"]
    if wait is not None:
        parts.append(f"it waited {duration(wait)}")
    return _joined(parts) or "how full the queue is"


def _others(values: Values, _: str) -> str:
    parts = [
        f"{percent(rate)} {words}"
        for name, words in _CROWDS
        if (known(values, f"{name}_ended") or 0) >= CROWD
        and (rate := known(values, f"{name}_rate100")) is not None
    ]
    if not parts:
        return "what became of others' jobs"
    return f"of anyone's last 100 or so jobs failed: {_joined(parts)}"


def _time_of_day(values: Values, whose: str) -> str:
    hour, day = known(values, "hour"), known(values, "weekday")
    rate = known(values, "context_user_hour")
    if hour is None:
        return "the time of day"
    said = f"submitted {_DAYS[int(day)] if day is not None else ''} at {hour:.0f} o'clock".replace("  ", " ")
    return said if rate is None else f"{said}, when {percent(rate)} of {whose} jobs failed"


_SENTENCES: Mapping[Group, Callable[[Values, str], str]] = {
    Group.REQUEST: _request,
    Group.NAME: _name,
    Group.USER: _user,
    Group.IN_FLIGHT: _in_flight,
    Group.TIME_LIMIT: _time_limit,
    Group.MEMORY: _memory,
    Group.SIZE: _size,
    Group.PARTITION: _partition,
    Group.NODES: _nodes,
    Group.CLUSTER: _cluster,
    Group.QUEUE: _queue,
    Group.OTHERS: _others,
    Group.TIME_OF_DAY: _time_of_day,
    Group.NEEDS: lambda *_: "what such jobs need, against what is requested",
    Group.USE: lambda *_: "what it used: known only at the end",
}


_CATEGORIES = {
    "qos": "QOS",
    "script_language": "language",
    "script_launcher": "launcher",
    "script_modules": "modules",
}


def sentence(
    group: Group,
    values: Values,
    *,
    categories: Mapping[str, str] = {},
    profile: str | None = None,
    whose: str = "your",
) -> str:
    """What there is to say about one kind of evidence.

    Parameters
    ----------
    values
        The job's features, whether the model sees them or not.
    categories
        The job's partition and QOS, where the model knew them.
    profile
        In words, which of the cluster's kinds of jobs it is most like.
    whose
        Whose jobs: ``your``, or ``alice's`` where the reader is somebody else.

    >>> sentence(Group.REQUEST, {"user_request_ended": 6.0, "user_request_streak": 4.0})
    'your last 4 jobs with this request failed'
    """
    if group is Group.PROFILE:
        # By what is known before it runs: that those ran long does not say that this one will.
        return (
            f"its request is like that of jobs that were {profile}" if profile else "which kind of job it is"
        )
    said = _SENTENCES[group](values, whose)
    if group is Group.PARTITION and categories:
        named = " and ".join(f"{_CATEGORIES.get(field, field)} {name}" for field, name in categories.items())
        said = f"{named}: {said}"
    return said
