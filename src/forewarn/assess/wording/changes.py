"""English for advice and savings: what to change, and why."""

from __future__ import annotations

from collections.abc import Callable

from forewarn.assess.codes import CauseCode, StepCode
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.templates import Table, TextValues
from forewarn.formatting import byte_size, duration, percent


def _change_memory(values: TextValues, _: Reader) -> str:
    return f"request {byte_size(values['new'])} per node instead of {byte_size(values['asked'])}"


def _change_time_limit(values: TextValues, _: Reader) -> str:
    return f"request a time limit of {duration(values['new'])} instead of {duration(values['asked'])}"


def _exclude_nodes(values: TextValues, _: Reader) -> str:
    return f"exclude {'node' if values['count'] == 1 else 'nodes'} {values['nodes']}"


def _memory_needed(more: str = "") -> Callable[[TextValues, Reader], str]:
    def words(values: TextValues, _: Reader) -> str:
        median, high = byte_size(values["median"]), byte_size(values["high"])
        return f"jobs like this need a median of {median} per node, 90th percentile {high}{more}"

    return words


def _run_time(values: TextValues, _: Reader) -> str:
    median, high = duration(values["median"]), duration(values["high"])
    return f"jobs like this run for a median of {median}, 90th percentile {high}"


def _risk_from_outcomes(event: str, amount: str) -> Callable[[TextValues, Reader], str]:
    """State a risk that comes from outcomes: jobs killed before a sample was taken show too little use."""

    def words(values: TextValues, _: Reader) -> str:
        chance = f"{percent(values['risk'])} chance of {event}, by the outcomes of jobs like this"
        return f"{chance}; their recorded {amount} is lower"

    return words


TABLE: Table = {
    StepCode.MORE_MEMORY: _change_memory,
    StepCode.MORE_TIME: _change_time_limit,
    StepCode.MORE_NODES: "spread its {tasks} tasks over {new} nodes instead of {asked}",
    StepCode.AVOID_NODES: _exclude_nodes,
    StepCode.OTHER_PARTITION: "use partition {partition}",
    StepCode.LESS_MEMORY: _change_memory,
    StepCode.LESS_TIME: _change_time_limit,
    StepCode.FIX_LINE: "fix line {line}",
    StepCode.FIX_SCRIPT: "fix the script",
    CauseCode.MEMORY_OF_SUCH_JOBS: _memory_needed(),
    CauseCode.RUN_TIME_OF_SUCH_JOBS: _run_time,
    CauseCode.MEMORY_IS_SPREAD: _memory_needed("; on twice as many nodes they need half of that"),
    CauseCode.SUCH_JOBS_RAN_OUT_OF_MEMORY: _risk_from_outcomes(
        "exceeding the requested memory", "memory use"
    ),
    CauseCode.SUCH_JOBS_REACHED_LIMIT: _risk_from_outcomes("reaching the time limit", "run time"),
    CauseCode.JOBS_FAIL_THERE: "more jobs fail there than their users and requests explain",
    CauseCode.PARTITION_SUITS: "it has what this job needs",
}
