"""English for retry verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from forewarn.assess.codes import RetryCode
from forewarn.assess.retry.verdict import RaiseBasis, RetryAction, RetryCause, RetryVerdict
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.templates import Table, TextValues
from forewarn.formatting import byte_size, count, duration, percent, rough_duration

ACTIONS: Mapping[RetryAction, str] = MappingProxyType(
    {
        RetryAction.RETRY: "Retry it as it is",
        RetryAction.MORE_MEMORY: "Retry it with more memory",
        RetryAction.MORE_TIME: "Retry it with more time",
        RetryAction.ANOTHER_NODE: "Retry it on another node",
        RetryAction.DO_NOT_RETRY: "Do not retry it",
        RetryAction.CANNOT_SAY: "Cannot say whether to retry it",
    }
)
_AFTER: Mapping[str, str] = MappingProxyType(
    {
        RetryCause.MEMORY: "with more memory after running out of memory",
        RetryCause.TIME: "with more time after reaching the time limit",
        RetryCause.NODE: "after a node failure",
        RetryCause.PASSING: "after a failure of the file system or the network",
        RetryCause.PREEMPTED: "after a preemption",
        RetryCause.AT_ONCE: "unchanged after a failure within a minute",
        RetryCause.PROGRAM: "unchanged after a program error",
    }
)
_BASES: Mapping[str, str] = MappingProxyType(
    {
        RaiseBasis.FORECAST: "which is sufficient for most jobs like this",
        RaiseBasis.RESUBMISSIONS: "which was sufficient for 90% of resubmissions on this cluster",
        RaiseBasis.DOUBLING: "as how much it needs is not known",
        RaiseBasis.LARGEST: "the most that it can have there",
    }
)


def retry_summary(verdict: RetryVerdict, _: Reader) -> str:
    """Write what to do, with the options and the chance.

    >>> found = RetryVerdict(cluster="c", job_id="1", submit=0, user=None, verdict=RetryAction.MORE_TIME,
    ...                      options=("--time=4:00:00",), probability=0.84)
    >>> retry_summary(found, Reader())
    'Retry it with more time: --time=4:00:00 (84% chance that it completes)'
    """
    text = ACTIONS[verdict.verdict]
    if verdict.delay:
        text += f", not before {rough_duration(verdict.delay)} from now"
    if verdict.options:
        text += f": {' '.join(verdict.options)}"
    if verdict.probability is None:
        return text
    return f"{text} ({percent(verdict.probability)} chance that it completes)"


def _cancelled(values: TextValues, _: Reader) -> str:
    who = {None: "", True: " by its user", False: " by somebody else"}[values["by_owner"]]
    return f"the job was cancelled{who}, which is no failure"


def _live(values: TextValues, _: Reader) -> str:
    state = f" (state {values['state']})" if values["state"] else ""
    return f"the job has not ended{state}"


def _unknown_end(values: TextValues, _: Reader) -> str:
    state = f" (state {values['state']})" if values["state"] else ""
    return f"how the job ended is not known{state}"


def _cause(family: str | None) -> str | None:
    # Here, since the module that explains jobs needs the whole of this package.
    from forewarn.assess.post_mortem.cause_families import FAMILIES

    return FAMILIES[family].cause if family and family in FAMILIES else None


def _permanent(values: TextValues, _: Reader) -> str:
    return f"the job {_cause(values['family'])}: it fails again until that is corrected"


def _same_way(values: TextValues, _: Reader) -> str:
    ran = "" if values["run_time"] is None else f", the last time after {duration(values['run_time'])}"
    return f"the same request failed {values['times']} times in a row with the same exit code{ran}"


def _passing(values: TextValues, _: Reader) -> str:
    cause = _cause(values["family"])
    what = f"the job {cause}" if cause else "the cause was outside the job"
    return f"{what}: such causes pass; wait {rough_duration(values['delay'])}"


def _program(values: TextValues, _: Reader) -> str:
    ran = "" if values["run_time"] is None else f" after {duration(values['run_time'])}"
    return f"the program failed{ran}, and the record does not show why"


def _memory(values: TextValues, _: Reader) -> str:
    used = "" if values["used"] is None else f" and was seen to use {byte_size(values['used'])}"
    text = f"it had {byte_size(values['had'])} per node{used}; request {byte_size(values['new'])}"
    return f"{text}, {_basis(values, byte_size)}"


def _time(values: TextValues, _: Reader) -> str:
    text = f"its time limit was {duration(values['had'])}; request {duration(values['new'])}"
    return f"{text}, {_basis(values, duration)}"


def _basis(values: TextValues, written: Callable[[float], str]) -> str:
    """Say what an amount rests on; where it is less than jobs like this need, how much that is."""
    if values["basis"] != RaiseBasis.BOUNDED:
        return _BASES[values["basis"]]
    text = f"{values['new'] / values['had']:.0f} times what it had, the most that is raised at once"
    needed = values.get("needed")
    if needed is None or needed <= values["new"]:
        return text
    return f"{text}; jobs like this may need {written(needed)}"


def _no_more_memory(values: TextValues, _: Reader) -> str:
    text = f"it had {byte_size(values['had'])} per node, and the nodes that it can use have "
    text += byte_size(values["most"])
    return text if values["needed"] is None else f"{text}; jobs like this need {byte_size(values['needed'])}"


def _no_more_time(values: TextValues, _: Reader) -> str:
    text = f"its time limit was {duration(values['had'])}, and partitions that it can use allow "
    text += duration(values["most"])
    return text if values["needed"] is None else f"{text}; jobs like this need {duration(values['needed'])}"


def _unlikely(values: TextValues, _: Reader) -> str:
    return (
        f"{percent(values['probability'])} chance that it completes {_AFTER[values['cause']]}: "
        f"below {percent(values['least'])} an attempt is not worth it"
    )


def _node_unknown(values: TextValues, _: Reader) -> str:
    if not values["nodes"]:
        return "a node failed; which one is not known"
    return (
        f"one of its {count(values['nodes'], 'node')} failed; which one is not known, or no others are left"
    )


def _share(whose: str, values: TextValues) -> str:
    return f"{values['completed']} of {whose} completed {_AFTER[values['cause']]}"


def _only(whose: str, values: TextValues) -> str:
    became = "completed" if values["completed"] else "did not complete"
    return f"{whose} {became} {_AFTER[values['cause']]}"


def _of_request(values: TextValues, _: Reader) -> str:
    if values["tried"] == 1:
        return _only("the only resubmission of this request", values)
    return _share(f"{count(values['tried'], 'resubmission')} of this request", values)


def _of_user(values: TextValues, reader: Reader) -> str:
    if values["tried"] == 1:
        return _only(f"{reader.whose} only resubmission", values)
    return _share(f"{reader.whose} {count(values['tried'], 'resubmission')}", values)


def _of_cluster(values: TextValues, _: Reader) -> str:
    whose = f"{count(values['tried'], 'resubmission')} of {count(values['users'], 'user')}"
    return _share(whose, values)


TABLE: Table = {
    RetryCode.NOT_ENDED: _live,
    RetryCode.COMPLETED: "the job completed",
    RetryCode.CANCELLED: _cancelled,
    RetryCode.UNKNOWN_END: _unknown_end,
    RetryCode.PERMANENT: _permanent,
    RetryCode.SAME_WAY: _same_way,
    RetryCode.TOO_MANY: "the request was tried {attempts} times in a row; {most} are enough",
    RetryCode.UNLIKELY: _unlikely,
    RetryCode.PASSING: _passing,
    RetryCode.PREEMPTED: "the job was preempted, which is no error of its own",
    RetryCode.PROGRAM: _program,
    RetryCode.AVOID_NODES: "it failed because of its nodes: exclude {nodes}",
    RetryCode.NODES_UNKNOWN: _node_unknown,
    RetryCode.MORE_MEMORY: _memory,
    RetryCode.MEMORY_UNKNOWN: "it ran out of memory, and how much it had is not recorded",
    RetryCode.NO_MORE_MEMORY: _no_more_memory,
    RetryCode.MORE_TIME: _time,
    RetryCode.TIME_UNKNOWN: "it reached its time limit, which is not recorded",
    RetryCode.NO_MORE_TIME: _no_more_time,
    RetryCode.OTHER_PARTITION: "its own partition has less; partition {partition} has enough",
    RetryCode.ATTEMPTS: "the request was tried {attempts} times in a row",
    RetryCode.OF_REQUEST: _of_request,
    RetryCode.OF_USER: _of_user,
    RetryCode.OF_CLUSTER: _of_cluster,
    RetryCode.OF_OTHER_CLUSTERS: lambda values, _: (
        f"no such resubmission in the history; on other clusters {percent(values['probability'])} complete"
    ),
    RetryCode.PERHAPS_CHANGED: "users may have corrected something that the record does not show",
}
