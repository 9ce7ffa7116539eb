"""English for unusual requests: what does not fit the cluster or the user, and what makes a request rare."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from forewarn.assess.codes import OddityCode
from forewarn.assess.wording.names import place
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.templates import Table, TextValues, filled
from forewarn.formatting import (
    byte_size,
    count,
    duration,
    number,
    percent,
    percent_of_jobs,
    significant,
    time_limit,
    times,
)
from forewarn.learn.heads.unusual_codes import UnusualCode


def _memory_exceeds_nodes(values: TextValues, _: Reader) -> str:
    request = f"{byte_size(values['asked'])} per node"
    if "per" in values:
        request = f"{byte_size(values['asked_per'])} per {values['per'].upper()}, which is {request}"
    largest = f"the largest node of {place(values['partition'])} has {byte_size(values['there'])}"
    return f"requests {request}; {largest}"


def _memory_exceeds_limit(values: TextValues, _: Reader) -> str:
    there = f"{place(values['partition'])} allows {byte_size(values['there'])}"
    return f"requests {byte_size(values['asked'])} per node; {there}"


def _cpus_exceed_nodes(values: TextValues, _: Reader) -> str:
    asked = f"{count(values['asked'], 'CPU')} per {values['per']}"
    return f"requests {asked}; the largest node of {place(values['partition'])} has {values['there']:,}"


def _exceeds(unit: str) -> Callable[[TextValues, Reader], str]:
    def words(values: TextValues, _: Reader) -> str:
        return (
            f"requests {count(values['asked'], unit)}; {place(values['partition'])} has {values['there']:,}"
        )

    return words


def _no_gpus(values: TextValues, _: Reader) -> str:
    return f"requests {count(values['asked'], 'GPU')}; no node of {place(values['partition'])} has any"


def _gpus_exceed_nodes(values: TextValues, _: Reader) -> str:
    asked = count(values["asked"], "GPU")
    there = f"no node of {place(values['partition'])} has more than {values['there']}"
    return f"requests {asked} per node; {there}"


def _no_such_gpu(values: TextValues, _: Reader) -> str:
    there = f"{place(values['partition'])} has {', '.join(values['there'])}"
    return f"requests GPUs of type {', '.join(values['asked'])}; {there}"


def _nodes_exceed_limit(values: TextValues, _: Reader) -> str:
    there = f"{place(values['partition'])} allows {values['there']:,} per job"
    return f"requests {count(values['asked'], 'node')}; {there}"


def _time_exceeds_limit(values: TextValues, _: Reader) -> str:
    there = f"{place(values['partition'])} allows {duration(values['there'])}"
    return f"requests a time limit of {duration(values['asked'])}; {there}"


def _no_such_feature(values: TextValues, _: Reader) -> str:
    has = f"their features are {', '.join(values['there'])}" if values["there"] else "they have no features"
    where = place(values["partition"])
    return f"requests nodes with feature {', '.join(values['asked'])}; no node of {where} has it: {has}"


def _partition_is_down(values: TextValues, _: Reader) -> str:
    return f"{place(values['partition'])} is {values['state']}: no job starts there until it is up again"


def _tasks_cannot_fill(values: TextValues, _: Reader) -> str:
    nodes, tasks = count(values["nodes"], "node"), count(values["tasks"], "task")
    return f"requests {nodes} for {tasks}: {count(values['nodes'] - values['tasks'], 'node')} would be idle"


def _no_node_fits(values: TextValues, _: Reader) -> str:
    return (
        f"no node of {place(values['partition'])} has the requested memory, CPUs, GPUs and features together"
    )


def _too_few_fit(values: TextValues, _: Reader) -> str:
    there = f"{place(values['partition'])} has {values['there']:,}"
    return f"requests {count(values['asked'], 'node')} of a type of which {there}"


def _no_such_partition(values: TextValues, _: Reader) -> str:
    there = f"{values['cluster']} has {', '.join(values['known'])}"
    return f"requests partition {', '.join(values['partitions'])}; {there}"


_AMOUNTS: Mapping[str, Callable[[float], str]] = {
    "memory_asked": byte_size,
    "time_limit": duration,
    "nodes_asked": number,
    "cpus_asked": number,
}
_REQUESTS = {
    "memory_asked": "{} per node",
    "time_limit": "a time limit of {}",
    "nodes_asked": "{} nodes",
    "cpus_asked": "{} CPUs",
}


def _far_beyond_usual(values: TextValues, _: Reader) -> str:
    amount = _AMOUNTS[values["what"]]
    ratio = times(values["asked"] / values["median"])
    usual = f"the median of this user's last {values['jobs']:,} jobs ({amount(values['median'])})"
    most = f"{percent(values['high_share'])} requested at most {amount(values['high'])}"
    request = _REQUESTS[values["what"]].format(amount(values["asked"]))
    return f"requests {request}, {ratio} {usual}; {most}"


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


def _unusual(amount: Callable[[float], str]) -> Callable[[TextValues, Reader], str]:
    """Write a value with the share of earlier jobs that have a smaller or a larger one."""

    def words(values: TextValues, _: Reader) -> str:
        text, jobs = amount(values["value"]), values["jobs"]
        if values["below"] >= values["above"]:
            return f"{text}: more than in {percent_of_jobs(values['below'], jobs)}"
        return f"{text}: less than in {percent_of_jobs(values['above'], jobs)}"

    return words


def _unusual_partition(values: TextValues, reader: Reader) -> str:
    if values["value"] < 1:
        others = percent_of_jobs(values["above"], values["jobs"])
        return f"this user's first job in the partition, unlike {others}"
    amount = _unusual(lambda jobs: f"{count(jobs, 'earlier job')} of this user in the partition")
    return filled(amount, values, reader)


def _counted(unit: str) -> Callable[[TextValues, Reader], str]:
    return _unusual(lambda amount: f"{significant(amount, 3)} {unit if amount == 1 else unit + 's'}")


def _times(what: str, than: str) -> Callable[[TextValues, Reader], str]:
    return _unusual(lambda ratio: f"{what} {times(ratio)} {than}")


_UNUSUAL: Table = {
    UnusualCode.CPUS: _counted("CPU"),
    UnusualCode.NODES: _counted("node"),
    UnusualCode.TASKS: _counted("task"),
    UnusualCode.GPUS: _counted("GPU"),
    UnusualCode.MEMORY: _unusual(lambda amount: f"{byte_size(amount)} memory in total"),
    UnusualCode.MEMORY_PER_CPU: _unusual(lambda amount: f"{byte_size(amount)} memory per CPU"),
    UnusualCode.CPUS_PER_NODE: _unusual(lambda amount: f"{significant(amount, 3)} CPUs per node"),
    UnusualCode.TIME_LIMIT: _unusual(time_limit),
    UnusualCode.LIMIT_CHANGE: _times("a time limit", "that of this user's previous job"),
    UnusualCode.CPUS_CHANGE: _times("CPUs", "those of this user's previous job"),
    UnusualCode.LIMIT_RATIO: _times("a time limit", "this user's typical run time"),
    UnusualCode.MEMORY_RATIO: _times("memory", "what this user's jobs typically use"),
    UnusualCode.PARTITION: _unusual_partition,
}
TABLE: Table = {**_ODDITIES, **_UNUSUAL}
