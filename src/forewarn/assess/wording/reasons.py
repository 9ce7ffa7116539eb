"""English for reasons: what moves the risk of a job."""

from __future__ import annotations

from forewarn.assess.codes import ReasonCode
from forewarn.assess.wording.names import GROUPS, feature, is_of_online_state
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.templates import Table, TextValues
from forewarn.formatting import byte_size, count, duration, percent, rough_duration, time_limit, times

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_CROWDS = {
    "group": "this group",
    "account": "this account",
    "name": "this name",
    "script": "this script or program",
    "request": "this request",
    "array": "this array",
}
_STATES = {"pending": "is pending", "running": "is running", "completed": "succeeded", "failed": "failed"}
_SPANS = {"rate_10m": "ten minutes", "rate_1h": "hour", "rate_1d": "day"}
_CATEGORIES = {
    "qos": "QOS",
    "script_language": "language",
    "script_launcher": "launcher",
    "script_modules": "modules",
}
_SAME = {"request": "jobs with this request", "name": "jobs with this name", "similar": "similar jobs"}
_RECENT_SAME = {"request": "with this request", "name": "with this name"}


def _history(values: TextValues, reader: Reader, same: str = "") -> str:
    parts = [_streak(values, reader, same)]
    since_end = f"{rough_duration(values['since_end'])} ago" if "since_end" in values else ""
    if since_end and abs(values["streak"]) == 1:
        parts[0] += f" {since_end}"
    if "failure_rate" in values:
        # A weighted rate over about so many jobs: 17% of 15 jobs is no whole number of them.
        jobs = f"the last {values['rate_jobs']} or so"
        if not same:
            jobs = f"{reader.whose} last {values['rate_jobs']} or so jobs"
        parts.append(f"{percent(values['failure_rate'])} of {jobs} failed")
    if since_end and abs(values["streak"]) != 1:
        parts.append(f"the last one ended {since_end}")
    return "; ".join(parts) + _contradiction(values)


def _streak(values: TextValues, reader: Reader, same: str) -> str:
    number, ended, whose = abs(values["streak"]), values["ended"], reader.whose
    if ended is not None and number >= ended:
        every = "both" if number == 2 else f"all {number}"
        jobs = f"{whose} only job" if number == 1 else f"{every} of {whose} jobs"
    else:
        jobs = f"{whose} previous job" if number == 1 else f"{whose} last {number} jobs"
    outcome = "failed" if values["streak"] > 0 else "succeeded"
    return " ".join(part for part in (jobs, same, outcome) if part)


def _contradiction(values: TextValues) -> str:
    """Say why the reason moves the risk the other way than its jobs suggest."""
    if "nonetheless" not in values:
        return ""
    effect, by = values["nonetheless"], values["by"]
    if by is None:
        return f"; nevertheless {effect} the risk"
    if is_of_online_state(by):
        outcome = "succeeded" if effect == "lowers" else "failed"
        return f"; nevertheless {effect} the risk: jobs after such outcomes usually {outcome}"
    return f"; nevertheless {effect} the risk, by {feature(by)}"


def _user(values: TextValues, reader: Reader) -> str:
    text = _history({name: value for name, value in values.items() if name != "nonetheless"}, reader)
    if "ended_since_submit" in values:
        failed, ended = values["failed_since_submit"], values["ended_since_submit"]
        text += f"; {failed:,.0f} of {count(ended, 'job')} that ended while this one was pending failed"
    return text + _contradiction(values)


def _name_and_request(values: TextValues, reader: Reader) -> str:
    if "streak" not in values:
        return f"{reader.whose} own history"
    return _streak(values, reader, "with this name and request")


def _first_request(values: TextValues, reader: Reader) -> str:
    first = f"{reader.whose} first job with this request"
    rate = values.get("similar_failure_rate")
    return first if rate is None else f"{first}; {percent(rate)} of {reader.whose} most similar jobs failed"


def _in_flight(values: TextValues, reader: Reader) -> str:
    parts = []
    if "in_flight" in values:
        jobs = values["in_flight"]
        other = "other job" if reader.owner is None else "job"
        whose = "yours" if reader.owner is None else reader.whose
        parts.append(f"{count(jobs, other)} of {whose} {'is' if jobs == 1 else 'are'} pending or running")
        if values.get("running"):
            parts[-1] += f" ({values['running']:,.0f} running)"
    if "newest_with_request" in values:
        state = _STATES[values["newest_with_request"]]
        if "newest_elapsed" in values:
            state = f"has been running for {rough_duration(values['newest_elapsed'])}"
        parts.append(f"the newest with this request {state}")
    if "since_submit" in values:
        parts.append(f"submitted {rough_duration(values['since_submit'])} after the previous one")
    return ", ".join(parts) or f"none of {reader.whose} jobs is pending or running"


def _jobs(same: str, whose: str) -> str:
    return f"{whose} {_SAME.get(same, 'jobs')}"


def _time_limit(values: TextValues, reader: Reader) -> str:
    limit = values["limit"]
    parts = ["time limit unknown" if limit is None else time_limit(limit)]
    if "ratio" in values:
        run_time = f"run time of {_jobs(values['ratio_of'], reader.whose)}"
        parts[0] += f", {times(values['ratio'])} the typical {run_time} ({duration(values['run_time'])})"
    if "at_limit" in values:
        recent = f"{reader.whose} recent jobs {_RECENT_SAME[values['at_limit_of']]}"
        parts.append(f"{percent(values['at_limit'])} of {recent} reached their time limit")
    return "; ".join(parts)


def _memory(values: TextValues, reader: Reader) -> str:
    requested = values["asked"]
    parts = [
        "no memory requested" if requested is None else f"requested memory {byte_size(requested)} in total"
    ]
    if requested == 0:
        parts = ["requested memory: all of its nodes"]
    if "ratio" in values:
        used = f"what {_jobs(values['ratio_of'], reader.whose)} typically used per task"
        parts[0] += f", {times(values['ratio'])} {used}"
    if "at_limit" in values:
        recent = f"{reader.whose} recent jobs {_RECENT_SAME[values['at_limit_of']]}"
        parts.append(f"{percent(values['at_limit'])} of {recent} ran out of memory")
    return "; ".join(parts)


def _size(values: TextValues, _: Reader) -> str:
    units = {"nodes": "node", "cpus": "CPU", "gpus": "GPU", "tasks": "task"}
    parts = [count(values[name], unit) for name, unit in units.items() if name in values]
    if "is_array" in values:
        parts.append("array task")
    if "has_dependency" in values:
        parts.append("depends on another job")
    if "cpus_ratio" in values:
        parts.append(f"{times(values['cpus_ratio'])} the CPUs of the previous job")
    return "request size: " + (", ".join(parts) or "unknown")


def _partition(values: TextValues, reader: Reader) -> str:
    parts = []
    if "failure_rate" in values:
        parts.append(f"{percent(values['failure_rate'])} of the last 100 or so jobs there failed")
    if "streak" in values:
        parts.append(_streak(values, reader, "there"))
    text = ", ".join(parts) or "no jobs known there yet"
    named = zip(values.get("fields", ()), values.get("names", ()), strict=True)
    names = " and ".join(f"{_CATEGORIES.get(field, field)} {name}" for field, name in named)
    return f"{names}: {text}" if names else text


def _nodes(values: TextValues, _: Reader) -> str:
    parts = []
    if "worst_failure_rate" in values:
        rate = percent(values["worst_failure_rate"])
        parts.append(f"{rate} of the last jobs on the worst of the allocated nodes failed")
    if "since_failure" in values:
        parts.append(f"the last failure on one of them was {rough_duration(values['since_failure'])} ago")
    return ", ".join(parts) or "nothing known about the allocated nodes"


def _cluster(values: TextValues, _: Reader) -> str:
    rates = [f"{percent(values[name])} in the last {span}" for name, span in _SPANS.items() if name in values]
    if not rates:
        return "no job of the cluster has ended recently"
    return f"failure rate of the cluster: {', '.join(rates)}"


def _queue(values: TextValues, _: Reader) -> str:
    parts = []
    if "pending" in values:
        running = values.get("running", 0)
        parts.append(f"{count(values['pending'], 'job')} pending and {running:,.0f} running on the cluster")
    if "wait" in values:
        parts.append(f"this job waited {rough_duration(values['wait'])}")
    return ", ".join(parts) or "length of the queue"


def _others(values: TextValues, _: Reader) -> str:
    parts = [f"{crowd} {percent(values[name])}" for name, crowd in _CROWDS.items() if name in values]
    if not parts:
        return "outcomes of other users' jobs"
    return f"failure rate of the last 100 or so jobs of all users: {', '.join(parts)}"


def _time_of_day(values: TextValues, reader: Reader) -> str:
    if "hour" not in values:
        return "time of day"
    day = f"{_DAYS[int(values['weekday'])]} " if "weekday" in values else ""
    text = f"submitted {day}after {values['hour']:.0f}:00"
    if "failure_rate" in values:
        text += f", when {percent(values['failure_rate'])} of {reader.whose} jobs failed"
    return text


def _profile(values: TextValues, _: Reader) -> str:
    # By what is known before it runs: that similar jobs ran long does not mean that this one will.
    if values["profile"] is None:
        return "profile of the job"
    return f"its request is like that of jobs that were {values['profile']}"


def _time_needed(values: TextValues, _: Reader) -> str:
    median, high = duration(values["median"]), duration(values["high"])
    limit = time_limit(values["limit"])
    return f"run time of jobs like this: median {median}, 90th percentile {high}; {limit}"


def _memory_needed(values: TextValues, _: Reader) -> str:
    median, high, requested = (byte_size(values[name]) for name in ("median", "high", "asked"))
    need = f"memory of jobs like this: median {median}, 90th percentile {high} per node"
    return f"{need}; requested {requested}"


def _everything_else(values: TextValues, _: Reader) -> str:
    return f"everything else: {', '.join(GROUPS[group] for group in values['groups'])}"


TABLE: Table = {
    ReasonCode.REQUEST: lambda values, reader: _history(values, reader, "with this request"),
    ReasonCode.FIRST_REQUEST: _first_request,
    ReasonCode.NAME: lambda values, reader: _history(values, reader, "with this name"),
    ReasonCode.FOLDER: lambda values, reader: _history(values, reader, "from this folder"),
    ReasonCode.FIRST_NAME: lambda _, reader: f"{reader.whose} first job with this name",
    ReasonCode.USER: _user,
    ReasonCode.FIRST_USER: lambda _, reader: f"no history of {reader.whose} jobs",
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
    ReasonCode.NEEDS: "predicted needs compared with the request",
    ReasonCode.TIME_NEEDED: _time_needed,
    ReasonCode.MEMORY_NEEDED: _memory_needed,
    ReasonCode.SICK_NODE: "it may be allocated a sick node",
    ReasonCode.USE: "its resource use, known only at the end",
    ReasonCode.EVERYTHING_ELSE: _everything_else,
}
