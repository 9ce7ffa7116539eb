"""Words for odd configuration: what does not fit the cluster or the user, and what makes a request rare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forewarn.assess.codes import OddityCode
from forewarn.assess.wording.amounts import clock, count, listed, memory, percent, share_of_jobs
from forewarn.assess.wording.names import place
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.templates import Table, filled
from forewarn.job.units import UNLIMITED
from forewarn.learn.heads.oddness_columns import UnusualCode

Values = Mapping[str, Any]


def _memory_exceeds_nodes(values: Values, _: Reader) -> str:
    ask = f"{memory(values['asked'])} a node"
    if "per" in values:
        ask = f"{memory(values['asked_per'])} a {values['per'].upper()}, which is {ask}"
    return f"asks for {ask}; the largest node of {place(values['partition'])} has {memory(values['there'])}"


def _memory_exceeds_limit(values: Values, _: Reader) -> str:
    there = f"{place(values['partition'])} allows {memory(values['there'])}"
    return f"asks for {memory(values['asked'])} a node; {there}"


def _cpus_exceed_nodes(values: Values, _: Reader) -> str:
    asked = f"{count(values['asked'], 'CPU')} a {values['per']}"
    return f"asks for {asked}; the largest node of {place(values['partition'])} has {values['there']:,}"


def _exceeds(unit: str) -> Callable[[Values, Reader], str]:
    def words(values: Values, _: Reader) -> str:
        return (
            f"asks for {count(values['asked'], unit)}; {place(values['partition'])} has {values['there']:,}"
        )

    return words


def _no_gpus(values: Values, _: Reader) -> str:
    return f"asks for {count(values['asked'], 'GPU')}; no node of {place(values['partition'])} has any"


def _gpus_exceed_nodes(values: Values, _: Reader) -> str:
    asked = count(values["asked"], "GPU")
    there = f"no node of {place(values['partition'])} has more than {values['there']}"
    return f"asks for {asked} a node; {there}"


def _no_such_gpu(values: Values, _: Reader) -> str:
    there = f"{place(values['partition'])} has {listed(values['there'])}"
    return f"asks for GPUs of type {listed(values['asked'])}; {there}"


def _nodes_exceed_limit(values: Values, _: Reader) -> str:
    there = f"{place(values['partition'])} allows {values['there']:,} to one job"
    return f"asks for {count(values['asked'], 'node')}; {there}"


def _time_exceeds_limit(values: Values, _: Reader) -> str:
    there = f"{place(values['partition'])} allows {clock(values['there'])}"
    return f"asks for a time limit of {clock(values['asked'])}; {there}"


def _no_such_feature(values: Values, _: Reader) -> str:
    has = f"they have {listed(values['there'])}" if values["there"] else "they have none"
    where = place(values["partition"])
    return f"wants nodes with {listed(values['asked'])}; no node of {where} is such a one: {has}"


def _partition_is_down(values: Values, _: Reader) -> str:
    return f"{place(values['partition'])} is {values['state']}: nothing starts there until it is brought up"


def _tasks_cannot_fill(values: Values, _: Reader) -> str:
    nodes, tasks = count(values["nodes"], "node"), count(values["tasks"], "task")
    return f"asks for {nodes} and has {tasks}: {values['nodes'] - values['tasks']:,} would have nothing to do"


def _no_node_fits(values: Values, _: Reader) -> str:
    where = place(values["partition"])
    return f"asks for more on one node (memory, CPUs, GPUs, features) than any of {where} has at once"


def _too_few_fit(values: Values, _: Reader) -> str:
    there = f"{place(values['partition'])} has {values['there']:,}"
    return f"asks for {count(values['asked'], 'node')} of a kind of which {there}"


def _no_such_partition(values: Values, _: Reader) -> str:
    there = f"{values['cluster']} has {listed(values['known'])}"
    return f"asks for partition {listed(values['partitions'])}; {there}"


_AMOUNTS: Mapping[str, Callable[[float], str]] = {
    "memory_asked": lambda amount: f"{memory(amount)} a node",
    "time_limit": lambda seconds: f"a time limit of {clock(seconds)}",
    "nodes_asked": lambda number: count(number, "node"),
    "cpus_asked": lambda number: count(number, "CPU"),
}


def _far_beyond_usual(values: Values, _: Reader) -> str:
    amount = _AMOUNTS[values["what"]]
    times = f"{values['asked'] / values['median']:,.0f} times"
    usual = f"the median of this user's last {values['jobs']:,} jobs ({amount(values['median'])})"
    most = f"{percent(values['high_share'])} of them stayed within {amount(values['high'])}"
    return f"asks for {amount(values['asked'])}, {times} {usual}; {most}"


_ODDITIES: Table = {
    OddityCode.MEMORY_EXCEEDS_NODES: _memory_exceeds_nodes,
    OddityCode.MEMORY_EXCEEDS_LIMIT: _memory_exceeds_limit,
    OddityCode.CPUS_EXCEED_NODES: _cpus_exceed_nodes,
    OddityCode.CPUS_EXCEED_PARTITION: _exceeds("CPU"),
    OddityCode.NO_GPUS: _no_gpus,
    OddityCode.GPUS_EXCEED_NODES: _gpus_exceed_nodes,
    OddityCode.GPUS_EXCEED_PARTITION: _exceeds("GPU"),
    OddityCode.NO_SUCH_GPU: _no_such_gpu,
    OddityCode.NODES_EXCEED_PARTITION: _exceeds("node"),
    OddityCode.NODES_EXCEED_LIMIT: _nodes_exceed_limit,
    OddityCode.TIME_EXCEEDS_LIMIT: _time_exceeds_limit,
    OddityCode.NO_SUCH_FEATURE: _no_such_feature,
    OddityCode.PARTITION_IS_DOWN: _partition_is_down,
    OddityCode.TASKS_CANNOT_FILL_NODES: _tasks_cannot_fill,
    OddityCode.NO_NODE_FITS: _no_node_fits,
    OddityCode.TOO_FEW_NODES_FIT: _too_few_fit,
    OddityCode.NO_SUCH_PARTITION: _no_such_partition,
    OddityCode.FAR_BEYOND_USUAL: _far_beyond_usual,
}


def _unusual(amount: Callable[[float], str]) -> Callable[[Values, Reader], str]:
    """A value with how many of the earlier jobs have a smaller, or a larger one."""

    def words(values: Values, _: Reader) -> str:
        said, jobs = amount(values["value"]), values["jobs"]
        if values["below"] >= values["above"]:
            return f"{said}: more than {share_of_jobs(values['below'], jobs)}"
        return f"{said}: less than {share_of_jobs(values['above'], jobs)}"

    return words


def _unusual_partition(values: Values, reader: Reader) -> str:
    if values["value"] < 1:
        others = share_of_jobs(values["above"], values["jobs"])
        return f"this user's first job in the partition, unlike {others}"
    amount = _unusual(lambda jobs: f"{count(jobs, 'earlier job')} of this user in the partition")
    return filled(amount, values, reader)


def _number(value: float) -> str:
    """
    >>> _number(30_000.0), _number(1.5), _number(10.66)
    ('30,000', '1.5', '10.7')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _counted(unit: str) -> Callable[[Values, Reader], str]:
    return _unusual(lambda number: f"{_number(number)} {unit if number == 1 else unit + 's'}")


def _limit(seconds: float) -> str:
    return "no time limit" if seconds >= UNLIMITED / 2 else f"a time limit of {clock(seconds)}"


def _times(what: str, than: str) -> Callable[[Values, Reader], str]:
    def amount(ratio: float) -> str:
        times = max(ratio, 1 / ratio)
        told = f"{times:,.0f}" if times >= 10 else f"{times:.1f}".removesuffix(".0")
        return f"{what} {told} times {than}" if ratio >= 1 else f"{what} 1/{told} of {than}"

    return _unusual(amount)


_UNUSUAL: Table = {
    UnusualCode.CPUS: _counted("CPU"),
    UnusualCode.NODES: _counted("node"),
    UnusualCode.TASKS: _counted("task"),
    UnusualCode.GPUS: _counted("GPU"),
    UnusualCode.MEMORY: _unusual(lambda amount: f"{memory(amount)} memory in all"),
    UnusualCode.MEMORY_PER_CPU: _unusual(lambda amount: f"{memory(amount)} memory a CPU"),
    UnusualCode.CPUS_PER_NODE: _unusual(lambda number: f"{_number(number)} CPUs a node"),
    UnusualCode.TIME_LIMIT: _unusual(_limit),
    UnusualCode.LIMIT_CHANGE: _times("a time limit", "that of this user's last job"),
    UnusualCode.CPUS_CHANGE: _times("CPUs", "those of this user's last job"),
    UnusualCode.LIMIT_RATIO: _times("a time limit", "this user's usual run time"),
    UnusualCode.MEMORY_RATIO: _times("memory", "what this user's jobs usually use"),
    UnusualCode.PARTITION: _unusual_partition,
}
TABLE: Table = {**_ODDITIES, **_UNUSUAL}
