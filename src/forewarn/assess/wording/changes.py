"""Words for advice and savings: what to change, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forewarn.assess.codes import CauseCode, StepCode
from forewarn.assess.wording.amounts import clock, memory, risk
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.templates import Table

Values = Mapping[str, Any]


def _memory_instead(values: Values, _: Reader) -> str:
    return f"ask for {memory(values['new'])} a node instead of {memory(values['asked'])}"


def _time_instead(values: Values, _: Reader) -> str:
    return f"ask for {clock(values['new'])} instead of {clock(values['asked'])}"


def _avoid(values: Values, _: Reader) -> str:
    return f"keep off {'node' if values['count'] == 1 else 'nodes'} {values['nodes']}"


def _usual(need: str, amount: Callable[[float], str], more: str = "") -> Callable[[Values, Reader], str]:
    """What jobs like it take."""

    def words(values: Values, _: Reader) -> str:
        median, high = amount(values["median"]), amount(values["high"])
        return f"half of such jobs {need} more than {median}, one in ten more than {high}{more}"

    return words


def _by_endings(ending: str) -> Callable[[Values, Reader], str]:
    """A risk that comes from how earlier jobs ended, as of those killed before their use was sampled."""

    def words(values: Values, _: Reader) -> str:
        stated = f"a risk of {risk(values['risk'])} {ending}, by how such jobs ended"
        return f"{stated}; what they were seen to use is less"

    return words


TABLE: Table = {
    StepCode.MORE_MEMORY: _memory_instead,
    StepCode.MORE_TIME: _time_instead,
    StepCode.MORE_NODES: "spread its {tasks} tasks over {new} nodes instead of {asked}",
    StepCode.AVOID_NODES: _avoid,
    StepCode.OTHER_PARTITION: "use partition {partition}",
    StepCode.LESS_MEMORY: _memory_instead,
    StepCode.LESS_TIME: _time_instead,
    StepCode.FIX_LINE: "fix line {line}",
    StepCode.FIX_SCRIPT: "fix the script",
    CauseCode.MEMORY_OF_SUCH_JOBS: _usual("need", memory),
    CauseCode.RUN_TIME_OF_SUCH_JOBS: _usual("run", clock),
    CauseCode.MEMORY_IS_SPREAD: _usual("need", memory, " on each node, and half of that on twice as many"),
    CauseCode.SUCH_JOBS_RAN_OUT_OF_MEMORY: _by_endings("of running out of memory"),
    CauseCode.SUCH_JOBS_REACHED_LIMIT: _by_endings("of reaching the time limit"),
    CauseCode.JOBS_FAIL_THERE: "jobs fail there more often than what they are explains",
    CauseCode.PARTITION_SUITS: "it has what this job needs",
}
