"""Words for reasons: what moves the risk of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarn.assess.codes import ReasonCode
from forewarn.assess.wording.amounts import count, duration, listed, memory, percent, times
from forewarn.assess.wording.names import GROUPS, feature
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.templates import Table

Values = Mapping[str, Any]
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_CROWDS = {
    "group": "of the group's",
    "account": "of the account's",
    "name": "of those of this name",
    "script": "of those with this script or program",
    "request": "of those with this request",
    "array": "of this array's tasks",
}
_STAGES = {"pending": "waits", "running": "runs", "completed": "went well", "failed": "failed"}
_SPANS = {"rate_10m": "ten minutes", "rate_1h": "hour", "rate_1d": "day"}
_CATEGORIES = {
    "qos": "QOS",
    "script_language": "language",
    "script_launcher": "launcher",
    "script_modules": "modules",
}
_WHICH = {"request": "jobs with this request", "name": "jobs of this name", "similar": "similar jobs"}
_WHICH_LAST = {"request": "with this request", "name": "of this name"}
_NEED = "what such jobs need, against what is requested"


def _history(values: Values, reader: Reader, which: str = "") -> str:
    parts = [_streak(values, reader, which)]
    if "failure_rate" in values:
        parts.append(f"of about the last {values['rate_jobs']}, {percent(values['failure_rate'])} failed")
    if "since_end" in values:
        parts.append(f"the last ended {duration(values['since_end'])} ago")
    return "; ".join(parts) + _nonetheless(values)


def _streak(values: Values, reader: Reader, which: str) -> str:
    number, ended, whose = abs(values["streak"]), values["ended"], reader.whose
    if ended is not None and number >= ended:
        jobs = f"{whose} only job" if number == 1 else f"all {number} of {whose} jobs"
    else:
        jobs = f"{whose} last job" if number == 1 else f"{whose} last {number} jobs"
    how = "failed" if values["streak"] > 0 else "went well"
    return " ".join(part for part in (jobs, which, how) if part)


def _nonetheless(values: Values) -> str:
    """Why it moves the risk the other way than the jobs that it is about."""
    if "nonetheless" not in values:
        return ""
    return f"; {values['nonetheless']} the risk all the same by: {feature(values['by'] or '')}"


def _user(values: Values, reader: Reader) -> str:
    said = _history({name: value for name, value in values.items() if name != "nonetheless"}, reader)
    if "ended_since_submit" in values:
        failed = count(values["failed_since_submit"], "job")
        said += f"; while this one waited {failed} of {values['ended_since_submit']} failed"
    return said + _nonetheless(values)


def _name_and_request(values: Values, reader: Reader) -> str:
    if "streak" not in values:
        return f"{reader.whose} own record"
    return _streak(values, reader, "of this name and request")


def _first_request(values: Values, reader: Reader) -> str:
    rate = values.get("similar_failure_rate")
    if rate is None:
        return f"the first of {reader.whose} jobs with this request"
    return f"the first with this request; of {reader.whose} most similar jobs {percent(rate)} failed"


def _in_flight(values: Values, reader: Reader) -> str:
    parts = []
    if "in_flight" in values:
        jobs = values["in_flight"]
        if reader.owner is None:
            parts.append(f"{count(jobs, 'other job')} of yours wait or run")
        else:
            parts.append(f"{count(jobs, 'job')} of {reader.whose} wait or run")
        if values.get("running"):
            parts[-1] += f" ({values['running']:.0f} run)"
    if "newest_with_request" in values:
        parts.append(f"the newest with this request {_STAGES[values['newest_with_request']]}")
        if "newest_elapsed" in values:
            parts[-1] += f" since {duration(values['newest_elapsed'])}"
    if "since_submit" in values:
        parts.append(f"submitted {duration(values['since_submit'])} after the one before")
    return listed(parts) or f"nothing of {reader.whose} waits or runs"


def _of(which: str, whose: str) -> str:
    return f"{whose} {_WHICH.get(which, 'jobs')}"


def _time_limit(values: Values, reader: Reader) -> str:
    limit = values["limit"]
    parts = ["no time limit is known" if limit is None else f"a time limit of {duration(limit)}"]
    if "ratio" in values:
        ran = f"{_of(values['ratio_of'], reader.whose)} ran, about {duration(values['run_time'])}"
        parts.append(f"{times(values['ratio'])} what {ran}")
    if "at_limit" in values:
        jobs = f"{reader.whose} last jobs {_WHICH_LAST[values['at_limit_of']]}"
        parts.append(f"{percent(values['at_limit'])} of {jobs} ran to their limit")
    return listed(parts)


def _memory(values: Values, reader: Reader) -> str:
    asked = values["asked"]
    parts = ["no memory is asked for" if asked is None else f"{memory(asked)} of memory in all"]
    if asked == 0:
        parts = ["all memory of its nodes is asked for"]
    if "ratio" in values:
        parts.append(f"{times(values['ratio'])} what {_of(values['ratio_of'], reader.whose)} used for a task")
    if "at_limit" in values:
        jobs = f"{reader.whose} last jobs {_WHICH_LAST[values['at_limit_of']]}"
        parts.append(f"{percent(values['at_limit'])} of {jobs} were killed for memory")
    return listed(parts)


def _size(values: Values, _: Reader) -> str:
    units = {"nodes": "node", "cpus": "CPU", "gpus": "GPU", "tasks": "task"}
    parts = [count(values[name], unit) for name, unit in units.items() if name in values]
    if "is_array" in values:
        parts.append("part of an array")
    if "has_dependency" in values:
        parts.append("waits for another job")
    if "cpus_ratio" in values:
        parts.append(f"{times(values['cpus_ratio'])} the CPUs of the job before")
    return "the size of the request: " + (listed(parts) or "not known")


def _partition(values: Values, reader: Reader) -> str:
    parts = []
    if "failure_rate" in values:
        parts.append(f"of the last 100 or so jobs there {percent(values['failure_rate'])} failed")
    if "streak" in values:
        parts.append(_streak(values, reader, "there"))
    said = listed(parts) or "nothing is known of it yet"
    named = zip(values.get("fields", ()), values.get("names", ()), strict=True)
    names = " and ".join(f"{_CATEGORIES.get(field, field)} {name}" for field, name in named)
    return f"{names}: {said}" if names else said


def _nodes(values: Values, _: Reader) -> str:
    parts = []
    if "worst_failure_rate" in values:
        rate = percent(values["worst_failure_rate"])
        parts.append(f"on the worst of the nodes given {rate} of the last jobs failed")
    if "since_failure" in values:
        parts.append(f"the last failure on one of them was {duration(values['since_failure'])} ago")
    return listed(parts) or "nothing is known of the nodes given"


def _cluster(values: Values, _: Reader) -> str:
    said = [
        f"{percent(values[name])} over the last {span}" for name, span in _SPANS.items() if name in values
    ]
    if not said:
        return "no job of the cluster has ended recently"
    return f"jobs that failed on the whole cluster: {listed(said)}"


def _queue(values: Values, _: Reader) -> str:
    parts = []
    if "pending" in values:
        parts.append(
            f"{count(values['pending'], 'job')} wait and {count(values.get('running', 0), 'job')} run"
        )
    if "wait" in values:
        parts.append(f"it waited {duration(values['wait'])}")
    return listed(parts) or "how full the queue is"


def _others(values: Values, _: Reader) -> str:
    parts = [f"{percent(values[name])} {words}" for name, words in _CROWDS.items() if name in values]
    if not parts:
        return "what became of others' jobs"
    return f"of anyone's last 100 or so jobs failed: {listed(parts)}"


def _time_of_day(values: Values, reader: Reader) -> str:
    if "hour" not in values:
        return "the time of day"
    day = f"{_DAYS[int(values['weekday'])]} " if "weekday" in values else ""
    said = f"submitted {day}at {values['hour']:.0f} o'clock"
    if "failure_rate" in values:
        said += f", when {percent(values['failure_rate'])} of {reader.whose} jobs failed"
    return said


def _profile(values: Values, _: Reader) -> str:
    # By what is known before it runs: that those ran long does not say that this one will.
    if values["profile"] is None:
        return "which kind of job it is"
    return f"its request is like that of jobs that were {values['profile']}"


def _time_needed(values: Values, _: Reader) -> str:
    median, high, limit = (duration(values[name]) for name in ("median", "high", "limit"))
    return f"half of such jobs run longer than {median}, one in ten longer than {high}; the limit is {limit}"


def _memory_needed(values: Values, _: Reader) -> str:
    median, high, asked = (memory(values[name]) for name in ("median", "high", "asked"))
    need = f"half of such jobs need more than {median} a node, one in ten more than {high}"
    return f"{need}; {asked} are requested"


def _everything_else(values: Values, _: Reader) -> str:
    return f"everything else: {listed([GROUPS[group] for group in values['groups']])}"


TABLE: Table = {
    ReasonCode.REQUEST: lambda values, reader: _history(values, reader, "with this request"),
    ReasonCode.FIRST_REQUEST: _first_request,
    ReasonCode.NAME: lambda values, reader: _history(values, reader, "of this name"),
    ReasonCode.FOLDER: lambda values, reader: _history(values, reader, "from this folder"),
    ReasonCode.FIRST_NAME: lambda _, reader: f"the first of {reader.whose} jobs of this name",
    ReasonCode.USER: _user,
    ReasonCode.FIRST_USER: lambda _, reader: f"none of {reader.whose} earlier jobs is known",
    ReasonCode.NAME_AND_REQUEST: _name_and_request,
    ReasonCode.IN_FLIGHT: _in_flight,
    ReasonCode.TIME_LIMIT: _time_limit,
    ReasonCode.MEMORY: _memory,
    ReasonCode.SIZE: _size,
    ReasonCode.PARTITION: _partition,
    ReasonCode.NODES: _nodes,
    ReasonCode.CLUSTER: _cluster,
    ReasonCode.QUEUE: _queue,
    ReasonCode.OTHERS: _others,
    ReasonCode.TIME_OF_DAY: _time_of_day,
    ReasonCode.PROFILE: _profile,
    ReasonCode.NEEDS: _NEED,
    ReasonCode.TIME_NEEDED: _time_needed,
    ReasonCode.MEMORY_NEEDED: _memory_needed,
    ReasonCode.SICK_NODE: "it may be given a sick node",
    ReasonCode.USE: "what it used: known only at the end",
    ReasonCode.EVERYTHING_ELSE: _everything_else,
}
