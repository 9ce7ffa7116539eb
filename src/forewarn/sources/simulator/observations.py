"""Simulated jobs as a collector would have observed them.

A job is seen when it ends. One whose time limit or partition was changed while it waited is seen twice
before: as it was submitted, and as it was changed.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.job.columns import complete
from forewarn.job.outcomes import OUTCOME_OF_STATE
from forewarn.job.units import format_duration, format_memory, format_tres
from forewarn.sources.simulator.columns import Numbers, each, known, names_of, node_lists
from forewarn.sources.simulator.kernel import endings
from forewarn.sources.simulator.kernel.layout import (
    ALL_OF_NODE,
    BY_CPU,
    BY_NODE,
    CHAIN,
    DEFAULTED,
    NO_EXIT_BUT_NODE_FAIL,
    PENDING,
    RUNNING,
    SWEEP,
    Records,
)
from forewarn.sources.simulator.kernel.rng import JOB, key_of, uniforms
from forewarn.sources.simulator.scenario import Scenario

MIB = 1 << 20
_STATES = {
    endings.NONE: "COMPLETED",
    endings.MEMORY: "OUT_OF_MEMORY",
    endings.TIME: "TIMEOUT",
    endings.SCRIPT: "FAILED",
    endings.INPUT: "FAILED",
    endings.NODE: "FAILED",  # or NODE_FAIL, where the scheduler lost the node
    endings.FILE_SYSTEM: "FAILED",
    endings.USER_CANCEL: "CANCELLED",
    endings.PREEMPTED: "PREEMPTED",
}
_OUTAGE_EXITS = np.array([107, 107, 107, 107, 5, 116])  # mostly: transport endpoint is not connected
_OUT_OF_MEMORY_SIGNAL = 125  # what Slurm shows: 0:125
_SIGNALS = {6: "Aborted", 7: "Bus_error", 11: "Segmentation_fault"}
_TAGS = ("a", "apo", "b2", "ctrl", "fine", "holo", "low", "mut", "new", "ref", "s1", "test", "v2", "wt", "x")
# Fields that a record has from the start of the job, and from its end.
_AT_START = (
    *("start", "nodes", "suspended"),
    *("nodes_given", "cpus_given", "memory_given", "gpus_given", "tres_given"),
)
_AT_END = (
    *("end", "outcome", "exit_code", "exit_signal", "derived_exit_code", "cancelled_by"),
    *("cpu_time", "max_memory", "io_read", "io_written", "energy"),
)
_WATTS_A_CPU, _WATTS_A_GPU = 6.0, 250.0


class Observer:
    """A converter of the kernel's records into frames of observations."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        self._seed = np.uint64(seed)
        self._applications = tuple(scenario.applications.values())

    def observe(self, jobs: Records, placed: Numbers, seqs: Numbers) -> pl.DataFrame:
        """Return every observation of these jobs, in order of submission, each job's in order of time."""
        ended = self._ended(jobs, placed, seqs)
        changed = np.flatnonzero(jobs["changed_at"] >= 0)
        if changed.size == 0:
            return complete(ended)
        waiting = self._waiting(jobs[changed], ended[changed.tolist()])
        every = pl.concat([complete(part) for part in (*waiting, ended)])
        order = np.argsort(np.concatenate([changed, changed, np.arange(len(jobs))]), kind="stable")
        return every.select(pl.all().gather(pl.Series(order)))

    def ended(self, jobs: Records, placed: Numbers, seqs: Numbers) -> pl.DataFrame:
        """Return jobs that have ended as accounting records them: nobody observed their end."""
        return complete(self._ended(jobs, placed, seqs).with_columns(reconstructed=True))

    def now(self, jobs: Records, placed: Numbers, seqs: Numbers, at: int) -> pl.DataFrame:
        """Return jobs as the controller shows them at a time: pending, running or ended."""
        frame = complete(self._ended(jobs, placed, seqs))
        pending, running = (pl.Series(jobs["state"] == state) for state in (PENDING, RUNNING))
        unknown = [name for name in _AT_START if name in frame.columns]
        later = [name for name in _AT_END if name in frame.columns]
        frame = frame.with_columns(
            pl.when(pending | running).then(None).otherwise(pl.col(later)).name.keep(),
            pl.when(pending).then(None).otherwise(pl.col(unknown)).name.keep(),
            state=pl.when(pending)
            .then(pl.lit("PENDING"))
            .when(running)
            .then(pl.lit("RUNNING"))
            .otherwise("state"),
            reason=pl.when(pending)
            .then(pl.lit("Priority"))
            .when(running)
            .then(None)
            .otherwise(pl.col("reason")),
        )
        return frame.with_columns(seen_at=pl.lit(at, pl.Int64))

    def _ended(self, jobs: Records, placed: Numbers, seqs: Numbers) -> pl.DataFrame:
        cluster = pl.repeat(self._scenario.cluster.name, len(jobs), eager=True)
        frame = pl.DataFrame(
            {
                "cluster": cluster,
                **self._identity(jobs),
                **self._asked(jobs, jobs["partition"], jobs["limit"]),
                **self._given(jobs, placed),
                **self._result(jobs, seqs),
                **self._used(jobs, seqs),
                "seen_at": jobs["end"],
            }
        )
        return frame.with_columns(source=pl.lit("simulator"), reconstructed=False)

    def _waiting(self, jobs: Records, ended: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return pending jobs as submitted and as changed, without what came later."""
        pending = ended.drop(*_AT_START, *_AT_END)
        pending = pending.with_columns(state=pl.lit("PENDING"), reason=pl.lit("Priority"))
        first = self._asked(jobs, jobs["partition_first"], jobs["limit_first"])
        return (
            pending.with_columns(seen_at=pl.Series(jobs["submit"]), **first),
            pending.with_columns(seen_at=pl.Series(jobs["changed_at"])),
        )

    def _identity(self, jobs: Records) -> dict[str, pl.Series | NDArray[np.int64]]:
        is_array = jobs["array"] > 0
        number = pl.Series(jobs["number"]).cast(pl.String)
        task = pl.concat_str(pl.Series(jobs["array"]), pl.Series(jobs["task"]), separator="_")
        stem = each(self._stem, jobs["application"], jobs["stem"], jobs["workflow"])
        user, account = each(_user, jobs["user"]), each(_account, jobs["account"])
        case = each(_case, jobs["shape"], jobs["index"])
        folder = pl.concat_str(
            *(pl.lit("/scratch/"), account, pl.lit("/"), user, pl.lit("/"), stem, pl.lit("/run")),
            each(lambda campaign: f"{campaign:06}", jobs["campaign"]),
        )
        return {
            "job_id": pl.select(pl.when(pl.Series(is_array)).then(task).otherwise(number)).to_series(),
            "submit": jobs["submit"],
            "raw_id": jobs["number"],
            "array_job_id": known(jobs["array"], is_array),
            "array_task_id": known(jobs["task"], is_array),
            "user": user,
            "group": each(lambda group: f"grp{group + 1:02}", jobs["group"]),
            "account": account,
            "name": pl.select(pl.concat_str(stem, case)).to_series(),
            "work_dir": pl.select(folder).to_series(),
            "application": names_of(tuple(self._scenario.applications), jobs["application"]),
            "script_hash": each(self._script_hash, jobs["workflow"], jobs["version"]),
            "script_language": each(self._language, jobs["application"]),
            "script_modules": each(
                lambda a: ",".join(sorted(self._applications[a].modules)) or None, jobs["application"]
            ),
            "eligible": jobs["submit"],
            "priority": jobs["priority"],
        }

    def _stem(self, application: int, stem: int, workflow: int) -> str:
        return f"{self._applications[application].names[stem]}_{_TAGS[workflow % len(_TAGS)]}"

    def _language(self, application: int) -> str:
        return "python" if "python/" in ",".join(self._applications[application].modules) else "bash"

    def _script_hash(self, workflow: int, version: int) -> str:
        return f"{int(key_of(self._seed, 100 + workflow, version)):016x}"

    def _asked(self, jobs: Records, partition: Numbers, limit: Numbers) -> dict[str, pl.Series | Numbers]:
        """Return the request, with the partition and the limit of some moment."""
        specs = self._scenario.partitions
        mode, as_submitted = jobs["memory_mode"], jobs["partition_first"]
        default = np.array([p.memory_per_cpu_mib for p in specs])[as_submitted]
        asked = np.select([mode == DEFAULTED, mode == ALL_OF_NODE], [default, 0], jobs["memory_asked"])
        by_cpu = (mode == DEFAULTED) | (mode == BY_CPU)
        gpus, memory = jobs["gpus_node"] * jobs["nodes"], jobs["memory_given"] * jobs["nodes"]
        # Half of the workflows do not name the first partition, which is the default one.
        unnamed = (jobs["workflow"] % 2 == 0) & (as_submitted == 0)
        left = (
            unnamed & (partition == as_submitted),
            mode == DEFAULTED,
            (jobs["time_defaulted"] > 0) & (limit == jobs["limit_first"]),
        )
        line = (jobs[n] for n in ("cpus_node", "nodes", "tasks", "gpus_node", "memory_mode", "memory_asked"))
        return {
            "partition": names_of([p.name for p in specs], partition),
            "qos": names_of([p.qos for p in specs], partition),
            "nodes_asked": jobs["nodes"],
            "tasks_asked": jobs["tasks"],
            "cpus_asked": jobs["cpus"],
            "memory_asked": asked * MIB,
            "memory_per": names_of(("node", "cpu"), by_cpu.astype(np.int64)),
            "time_limit": limit,
            "gpus_asked": known(gpus, gpus > 0),
            "tres_asked": each(_tres, jobs["cpus"], gpus, memory, jobs["nodes"]),
            "defaulted": each(_defaulted, *left),
            "submit_line": each(
                lambda *row: _submit_line(specs[row[0]].name if not row[1] else None, *row[2:]),
                as_submitted,
                unnamed,
                jobs["time_defaulted"],
                jobs["limit_first"],
                *line,
            ),
        }

    def _given(self, jobs: Records, placed: Numbers) -> dict[str, pl.Series]:
        ran = jobs["start"] >= 0
        gpus, memory = jobs["gpus_node"] * jobs["nodes"], jobs["memory_given"] * jobs["nodes"]
        tres = each(_tres, *(np.where(ran, n, 0) for n in (jobs["cpus"], gpus, memory, jobs["nodes"])))
        return {
            "nodes": node_lists(self._scenario, placed, np.where(ran, jobs["nodes"], 0)),
            "nodes_given": known(jobs["nodes"], ran),
            "cpus_given": known(jobs["cpus"], ran),
            "memory_given": known(memory * MIB, ran),
            "gpus_given": known(gpus, ran & (gpus > 0)),
            "tres_given": tres,
        }

    def _result(self, jobs: Records, seqs: Numbers) -> dict[str, pl.Series | Numbers]:
        cause, ran = jobs["cause"], jobs["start"] >= 0
        lost = (cause == endings.NODE) & (jobs["node_exit"] == NO_EXIT_BUT_NODE_FAIL)
        state = each(
            lambda c, node_lost: "NODE_FAIL" if node_lost else _STATES[c], cause, lost.astype(np.int64)
        )
        broken = (cause == endings.SCRIPT) | (cause == endings.INPUT)
        sick = (cause == endings.NODE) & ~lost
        dice = (uniforms(self._seed, JOB, seqs, 70) * len(_OUTAGE_EXITS)).astype(np.int64)
        code = np.select(
            [broken, sick, lost, cause == endings.FILE_SYSTEM],
            [jobs["bug_exit"], jobs["node_exit"], 1, _OUTAGE_EXITS[dice]],
            0,
        )
        signal = np.select(
            [broken, sick, cause == endings.MEMORY],
            [jobs["bug_signal"], jobs["node_signal"], _OUT_OF_MEMORY_SIGNAL],
            0,
        )
        cancelled = cause == endings.USER_CANCEL
        return {
            "start": known(jobs["start"], ran),
            "end": jobs["end"],
            "suspended": known(np.zeros_like(seqs), ran),
            "restarts": np.zeros_like(seqs),
            "state": state,
            "outcome": state.replace_strict({s: str(o) for s, o in OUTCOME_OF_STATE.items()}),
            "reason": each(_reason, cause, lost, signal),
            "exit_code": code,
            "exit_signal": signal,
            "derived_exit_code": code,
            "cancelled_by": known(each(_user, jobs["user"]).to_numpy(), cancelled),
        }

    def _used(self, jobs: Records, seqs: Numbers) -> dict[str, pl.Series]:
        """Return what accounting measured: of the whole job, except memory, which is the largest task's."""
        ran = jobs["start"] >= 0
        run_time = np.where(ran, jobs["end"] - jobs["start"], 0)
        noise = 0.95 + 0.1 * uniforms(self._seed, JOB, seqs, 71)
        app = self._applications
        busy = np.array([a.cpu_used for a in app])[jobs["application"]] * noise
        cpu_time = np.round(run_time * jobs["cpus"] * busy, 3)
        grown = np.minimum(run_time / jobs["peak_after"], 1.0)
        reached = np.minimum(jobs["need_memory"] * (0.25 + 0.75 * grown), jobs["memory_given"])
        tasks_on_node = np.maximum(jobs["tasks"] // jobs["nodes"], 1)
        max_memory = np.maximum(reached / tasks_on_node * 1024, 1).astype(np.int64) * 1024
        traffic = (
            np.array([a.io_gib_per_hour for a in app])[jobs["application"]] * run_time / 3600 * (1 << 30)
        )
        read = (traffic * 0.7 * noise).astype(np.int64)
        written = (traffic * 0.3 * (1.95 - noise)).astype(np.int64)
        watts = jobs["cpus"] * busy * _WATTS_A_CPU + jobs["gpus_node"] * jobs["nodes"] * _WATTS_A_GPU
        energy = (watts * run_time).astype(np.int64)
        # A measuring daemon that looks every 30 s may see nothing of the shortest jobs.
        seen = ran & (run_time > 0)
        return {
            "cpu_time": known(cpu_time, seen),
            "max_memory": known(max_memory, seen),
            "io_read": known(read, seen),
            "io_written": known(written, seen),
            "energy": known(energy, seen & (energy > 0)),
        }


def _user(number: int) -> str:
    return f"user{number:04}"


def _account(number: int) -> str:
    return f"proj{number + 1:03}"


def _case(shape: int, index: int) -> str:
    if shape == SWEEP:
        return f"_{index:03}"
    return f"_r{index + 1}" if shape == CHAIN else ""


def _tres(cpus: int, gpus: int, memory: int, nodes: int) -> str | None:
    found = {"cpu": cpus, "mem": memory * MIB, "node": nodes, "gres/gpu": gpus}
    return format_tres({name: count for name, count in found.items() if count}) or None


def _defaulted(partition: bool, memory: bool, limit: bool) -> str | None:
    left = {"partition": partition, "memory_asked": memory, "time_limit": limit}
    return ",".join(name for name, is_left in left.items() if is_left) or None


def _submit_line(
    partition: str | None,
    time_defaulted: int,
    limit: int,
    cpus: int,
    nodes: int,
    tasks: int,
    gpus: int,
    memory_mode: int,
    memory: int,
) -> str:
    """Write the command line that the user typed: only what they requested."""
    options = [f"-N {nodes}", f"-n {tasks}"]
    if tasks == nodes and cpus > 1:
        options.append(f"-c {cpus}")
    if partition is not None:
        options.append(f"-p {partition}")
    if not time_defaulted:
        options.append(f"-t {format_duration(limit)}")
    if memory_mode == BY_NODE:
        options.append(f"--mem={format_memory(memory * MIB)}")
    elif memory_mode == BY_CPU:
        options.append(f"--mem-per-cpu={format_memory(memory * MIB)}")
    elif memory_mode == ALL_OF_NODE:
        options.append("--mem=0")
    if gpus:
        options.append(f"--gpus-per-node={gpus}")
    return f"sbatch {' '.join(options)} job.sh"


def _state(cause: int, node_lost: bool) -> str:
    return "NODE_FAIL" if node_lost else _STATES[cause]


def _reason(cause: int, node_lost: bool, signal: int) -> str | None:
    """Return the reason that `scontrol show job` shows for the end."""
    if cause == endings.TIME:
        return "TimeLimit"
    if cause == endings.MEMORY:
        return "OutOfMemory"
    if node_lost:
        return "NodeDown"
    if _STATES[cause] == "FAILED":
        return f"RaisedSignal:{signal}({_SIGNALS[signal]})" if signal else "NonZeroExitCode"
    return None
