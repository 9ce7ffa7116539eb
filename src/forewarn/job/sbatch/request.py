"""The request that the options make, computed as sbatch and slurmctld compute it, and its job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

from forewarn.job.partition_defaults import with_partition_defaults
from forewarn.job.record import Job, Partition
from forewarn.job.sbatch import values
from forewarn.job.sbatch.options import SbatchOptions
from forewarn.job.sbatch.problems import Problem, ProblemCode

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SbatchRequest:
    """The numbers of a request. None: not requested, and the site decides."""

    min_nodes: int = 1
    max_nodes: int | None = None
    tasks: int = 1
    cpus_per_task: int = 1
    tasks_per_node: int | None = None
    cpus: int = 1
    memory: int | None = None
    memory_per: str | None = None
    time_limit: int | None = None
    gpus: int | None = None
    array_tasks: str | None = None
    dependency: str | None = None
    problems: tuple[Problem, ...] = ()


def read_request(options: SbatchOptions) -> SbatchRequest:
    """Compute the request; a value that sbatch refuses is a problem, and treated as not given."""
    return _RequestReader(options).read()


class _RequestReader:
    """Reader of the values of options, which collects their problems."""

    def __init__(self, options: SbatchOptions) -> None:
        self.options = options
        self.problems: list[Problem] = []

    def value(self, option: str, read: Callable[[str], T]) -> T | None:
        entry = self.options.get(option)
        if entry is None or entry.value is None:
            return None
        try:
            return read(entry.value)
        except ValueError as error:
            values = {"spelled": entry.spelled, "error": str(error)}
            self.problems.append(Problem("bad-value", ProblemCode.BAD_VALUE, values, entry.line))
            return None

    def read(self) -> SbatchRequest:
        nodes = self.value("nodes", values.nodes)
        listed = self.value("nodelist", _node_list)
        tasks = self.value("ntasks", values.count)
        per_node = self.value("ntasks-per-node", values.count)
        per_task = self.value("cpus-per-task", values.count)
        low, high = nodes or (1, None)
        if listed:
            low = max(low, listed) if nodes else listed
        nodes_set = nodes is not None or bool(listed)
        counted = None  # tasks for which CPUs are requested, if not all
        if tasks is None and per_node:
            tasks = low * per_node
        elif tasks is None and (by_gpus := self._tasks_by_gpus(low)):
            tasks = by_gpus
        elif tasks is None:
            tasks = max(low, 1) if nodes_set else 1
            if nodes_set or "extra-node-info" in self.options:
                tasks *= prod(self._layout())
            # With a range of nodes sbatch does not know how many there will be, and requests one CPU.
            counted = 1 if high is not None and high > low else None
        elif nodes_set:
            if high is not None and tasks < high:
                high = max(tasks, low)
            if tasks < low:
                low = high = tasks
        elif per_node and tasks > per_node:
            low = -(-tasks // per_node)
        gpus = self._gpus(low, tasks)
        if gpus is not None and (each := self.value("cpus-per-gpu", values.count)):
            cpus = max(gpus * each, tasks)
        else:
            cpus = (counted or tasks) * (per_task or 1)
        if "overcommit" in self.options:
            cpus = max(low, 1)
        memory, per = self._memory()
        return SbatchRequest(
            min_nodes=low,
            max_nodes=high,
            tasks=tasks,
            cpus_per_task=per_task or 1,
            tasks_per_node=per_node,
            cpus=cpus,
            memory=memory,
            memory_per=per,
            time_limit=self.value("time", values.time_limit),
            gpus=gpus,
            array_tasks=self.value("array", values.array_tasks),
            dependency=self.value("dependency", values.dependency),
            problems=tuple(self.problems),
        )

    def _layout(self) -> list[int]:
        """List the sockets, cores and threads requested: without a number of tasks there is one for each."""
        found = list[int]()
        for part in (self.options.value("extra-node-info") or "").split(":"):
            if part.isascii() and part.isdecimal() and int(part):
                found.append(int(part))
        for option in ("sockets-per-node", "cores-per-socket", "threads-per-core"):
            if part_count := self.value(option, values.count):
                found.append(part_count)
        return found

    def _gpus(self, nodes: int, tasks: int) -> int | None:
        if whole := self.value("gpus", values.gpu_count):
            return whole
        if (each := self.value("gpus-per-node", values.gpu_count)) is not None:
            return each * nodes
        if (each := self.value("gpus-per-task", values.gpu_count)) is not None:
            return each * tasks
        if (each := self.value("gpus-per-socket", values.gpu_count)) is not None:
            return each * nodes * (self.value("sockets-per-node", values.count) or 1)
        each = self.value("gres", lambda text: values.gres_count(text, "gpu"))
        if each is not None:
            return each * nodes
        share = self.value("ntasks-per-gpu", values.count)
        return -(-tasks // share) if share and "ntasks" in self.options else None

    def _tasks_by_gpus(self, nodes: int) -> int | None:
        """Compute the tasks from the GPUs, where no number is given: so many for each, or one for so many."""
        if each := self.value("ntasks-per-gpu", values.count):
            gpus = self._gpus(nodes, 1)
            return gpus * each if gpus else None
        whole, each = self.value("gpus", values.gpu_count), self.value("gpus-per-task", values.gpu_count)
        return max(1, whole // each) if whole and each else None

    def _memory(self) -> tuple[int | None, str | None]:
        """Return the amount that counts and what it is per; any other memory option overrides a variable.

        Two memory options in script and command line are refused: the last is taken here, and a rule reports
        it.
        """
        per_option = {"mem": "node", "mem-per-cpu": "cpu", "mem-per-gpu": "gpu"}
        entries = [one for one in self.options.entries if one.option in per_option]
        if not entries:
            return None, None
        options = [one.option for one in entries if one.origin != "environment"] or [entries[-1].option]
        option, per = options[-1], per_option[options[-1]]
        amount = self.value(option, values.memory)
        return (None, None) if amount is None else (amount, per)


def _node_list(text: str) -> int | None:
    return None if "/" in text else values.node_list(text)  # with a slash it is a file of names


def to_job(
    options: SbatchOptions,
    request: SbatchRequest,
    *,
    cluster: str,
    submit: int,
    user: str | None = None,
    job_id: str = "0",
    work_dir: str | None = None,
    script_name: str | None = None,
    partitions: tuple[Partition, ...] = (),
) -> Job:
    """Build the job that sbatch would submit.

    What was not requested and only the site knows is None, or that of the partition where `partitions` has
    it; `defaulted` names the fields that the user left to the site or to Slurm's own rules.
    """
    chdir = options.value("chdir")
    job = Job(
        cluster=cluster,
        job_id=job_id,
        submit=submit,
        user=user,
        account=options.value("account"),
        name=options.value("job-name") or script_name,
        work_dir=chdir if chdir and chdir.startswith("/") else _joined(work_dir, chdir),
        array_tasks=request.array_tasks,
        dependency=request.dependency,
        partition=options.value("partition"),
        qos=options.value("qos"),
        reservation=options.value("reservation"),
        constraint=options.value("constraint"),
        nodes_asked=request.min_nodes,
        tasks_asked=request.tasks,
        cpus_asked=request.cpus,
        memory_asked=request.memory,
        memory_per=request.memory_per,
        time_limit=request.time_limit,
        gpus_asked=request.gpus,
    )
    defaulted = [
        field
        for field, is_given in (
            ("account", job.account is not None),
            ("partition", job.partition is not None),
            ("qos", job.qos is not None),
            ("nodes_asked", "nodes" in options or "nodelist" in options),
            ("tasks_asked", "ntasks" in options or "ntasks-per-node" in options),
            ("cpus_asked", any(o in options for o in ("ntasks", "ntasks-per-node", "cpus-per-task"))),
            ("memory_asked", job.memory_asked is not None),
            ("time_limit", job.time_limit is not None),
        )
        if not is_given
    ]
    return with_partition_defaults(replace(job, defaulted=",".join(defaulted) or None), partitions)


def _joined(work_dir: str | None, chdir: str | None) -> str | None:
    if not chdir:
        return work_dir
    return f"{work_dir.rstrip('/')}/{chdir}" if work_dir else chdir
