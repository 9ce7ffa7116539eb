"""A job's own fields as the kernel reads them: numbers, hashes of text ("atoms"), result, nodes.

Once for a frame of jobs and once for one job, side by side; the replay test holds them equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.features import labels
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.keys import hashed_column, normalised, text_hash
from forewarn.features.programs import PROGRAM
from forewarn.job.memory import total_memory
from forewarn.job.memory_columns import total_memory_column
from forewarn.job.outcomes import FailurePolicy, Outcome
from forewarn.job.record import Job, changed_copy
from forewarn.job.units import expand_nodes
from forewarn.store.base import ClusterFacts

MAX_NODES = 64  # of a larger job only so many nodes take part in the history of nodes
_PER: Mapping[str | None, int] = MappingProxyType({"node": 1, "cpu": 2, "gpu": 3})
_MEMORY = ("memory_asked", "memory_per", "cpus_asked", "gpus_asked", "nodes_asked")

# The kernel's numbers that are plain fields of the record; the other four are computed below.
_PLAIN = MappingProxyType(
    {
        L.X_CPUS: "cpus_asked",
        L.X_NODES: "nodes_asked",
        L.X_TASKS: "tasks_asked",
        L.X_MEMORY: "memory_asked",
        L.X_LIMIT: "time_limit",
        L.X_GPUS: "gpus_asked",
        L.X_PRIORITY: "priority",
        L.X_ARRAY_TASK: "array_task_id",
        L.X_ARRAY_JOB: "array_job_id",
        L.X_CPUS_GIVEN: "cpus_given",
        L.X_NODES_GIVEN: "nodes_given",
        L.X_MEMORY_GIVEN: "memory_given",
    }
)
_plain_fields = attrgetter(*_PLAIN.values())
_PLAIN_ATOMS = MappingProxyType(
    {
        L.A_USER: "user",
        L.A_GROUP: "group",
        L.A_ACCOUNT: "account",
        L.A_PARTITION: "partition",
        L.A_QOS: "qos",
    }
)
_plain_texts = attrgetter(*_PLAIN_ATOMS.values())
# Labels: a field taken as it is where it is there, else one that is normalised.
_LABELS: Mapping[int, tuple[str | None, str]] = MappingProxyType(
    {
        L.A_NAME: ("application", "name"),
        L.A_DIR: (None, "work_dir"),
        L.A_SCRIPT: ("script_hash", "submit_line"),
    }
)
# All that the features read of a record, for what was asked and for what became of it.
COLUMNS = (
    *("cluster", "job_id", "submit", "start"),
    *(*_PLAIN.values(), *_PLAIN_ATOMS.values(), "memory_per", "dependency", "defaulted"),
    *("name", "application", "work_dir", "script_hash", "submit_line"),
)
RESULT_COLUMNS = (
    *("cluster", "job_id", "submit", "start", "end", "suspended", "outcome", "known_at", "time_limit"),
    *("max_memory", "nodes"),
)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Jobs in order of submit, as arrays."""

    ids: pl.DataFrame  # cluster, job_id, submit
    start: NDArray[np.int64]  # -1 for none
    known: NDArray[np.int64]  # -1 for none
    numbers: NDArray[np.float64]
    atoms: NDArray[np.uint64]
    numbers_at_start: NDArray[np.float64]
    atoms_at_start: NDArray[np.uint64]
    results: NDArray[np.float64]
    node_first: NDArray[np.int64]
    node_keys: NDArray[np.uint64]


def treated(frame: pl.DataFrame, facts: ClusterFacts) -> pl.DataFrame:
    """Apply the cluster's field treatments: see `missing_fields.py` and `slurm_field_differences.py`."""
    if _counts_per_node(facts) and {*_MEMORY} <= set(frame.columns):
        counted = (pl.col("memory_per") == "cpu") & pl.col("cpus_asked").is_not_null()
        counted |= (pl.col("memory_per") == "gpu") & (pl.col("gpus_asked") > 0)
        counted &= pl.col("nodes_asked") > 0
        per_node = total_memory_column() // pl.col("nodes_asked")
        # Old versions do not say by what it is counted where that makes no difference.
        unsaid = pl.col("memory_per").is_null()
        known = pl.col("memory_asked").is_not_null()
        frame = frame.with_columns(
            memory_asked=pl.when(known & counted).then(per_node).otherwise("memory_asked"),
            memory_per=pl.when(known & (counted | unsaid)).then(pl.lit("node")).otherwise("memory_per"),
        )
    for field, how in sorted(
        facts.fields.items()
    ):  # what was given may lean on what was asked, filled before
        if field in frame.columns:
            value = pl.col(field)
            if "hide" in how:
                value = pl.lit(None, frame.schema[field]).alias(field)
            if "stand_in" in how:
                value = value.fill_null(pl.col(how["stand_in"]))
            if "fill" in how:
                value = value.fill_null(how["fill"])
            frame = frame.with_columns(value)
    return frame


def _counts_per_node(facts: ClusterFacts) -> bool:
    how: Mapping[str, Any] = facts.fields.get("memory_asked", {})
    return how.get("per") == "node"


def numbers_of(frame: pl.DataFrame, zone: str, moment: str = "submit") -> NDArray[np.float64]:
    """Compute the kernel's numbers of each row."""
    local = pl.from_epoch(moment, time_unit="s").dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    special = {
        L.X_MEMORY_PER: pl.col("memory_per").replace_strict(_PER, default=None, return_dtype=pl.Float64),
        L.X_DEPENDS: pl.col("dependency").is_not_null(),
        L.X_DEFAULTED: pl.col("defaulted").str.count_matches(",", literal=True) + 1,
        L.X_UTC_OFFSET: (local.dt.base_utc_offset() + local.dt.dst_offset()).dt.total_seconds(),
    }
    columns = special | {place: pl.col(name) for place, name in _PLAIN.items()}
    return _matrix(frame, columns)


def _matrix(frame: pl.DataFrame, columns: Mapping[int, pl.Expr]) -> NDArray[np.float64]:
    values = frame.select(columns[place].cast(pl.Float64).alias(str(place)) for place in sorted(columns))
    return np.ascontiguousarray(values.fill_null(np.nan).to_numpy())


def atoms_of(frame: pl.DataFrame) -> NDArray[np.uint64]:
    """Compute the kernel's text hashes of each row."""
    atoms = np.empty((frame.height, len(L.ATOMS)), np.uint64)
    for place, name in _PLAIN_ATOMS.items():
        atoms[:, place] = hashed_column(frame[name])
    for place, (exact, loose) in _LABELS.items():
        label = hashed_column(frame[loose], normalise=True)
        if exact is not None:
            known = hashed_column(frame[exact])
            label = np.where(known != 0, known, label)
        atoms[:, place] = label
    if PROGRAM in frame.columns:
        # What earlier jobs ran stands for a script of which nothing is known.
        programs = hashed_column(frame.select("program " + pl.col(PROGRAM)).to_series())
        atoms[:, L.A_SCRIPT] = np.where(atoms[:, L.A_SCRIPT] != 0, atoms[:, L.A_SCRIPT], programs)
    return atoms


def results_of(frame: pl.DataFrame, policy: FailurePolicy) -> NDArray[np.float64]:
    """Encode how each row's job ended."""
    failed = labels.fails(policy)
    at_limit = (pl.col("outcome") == str(Outcome.TIMEOUT)) | labels.ran_to_limit()
    columns = {
        L.R_FAILS: failed,
        L.R_LIMIT: (at_limit & (failed == 1)).fill_null(False),
        L.R_MEMORY_KILL: (pl.col("outcome") == str(Outcome.OUT_OF_MEMORY)).fill_null(False),
        L.R_RUN_TIME: pl.col("end") - pl.col("start") - pl.col("suspended").fill_null(0),
        L.R_MAX_MEMORY: pl.col("max_memory"),
    }
    return _matrix(frame, columns)


def nodes_of(column: pl.Series) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the nodes of all rows in one array, and where each row's begin."""
    distinct = column.drop_nulls().unique()
    keys = [np.zeros(0, np.uint64), *(node_keys(text) for text in distinct)]
    lengths = np.array([len(k) for k in keys], np.int64)
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    which = np.zeros(column.len(), np.int64)
    if distinct.len():
        numbers = pl.Series(range(1, distinct.len() + 1), dtype=pl.Int64)
        which = column.replace_strict(distinct, numbers, default=0, return_dtype=pl.Int64).to_numpy()
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[which])])
    within = np.arange(first[-1]) - np.repeat(first[:-1], lengths[which])
    return first, np.concatenate(keys)[np.repeat(begins[which], lengths[which]) + within]


@lru_cache(maxsize=1 << 14)
def node_keys(nodes: str) -> NDArray[np.uint64]:
    """Hash the nodes of a node list; empty if the list cannot be read."""
    try:
        names = expand_nodes(nodes)[:MAX_NODES]
    except ValueError:
        names = []
    return np.array([text_hash(f"node {name}") for name in names], np.uint64)


def treated_job(job: Job, facts: ClusterFacts) -> Job:
    """Apply `treated` to one job."""
    (treated_one,) = treated_jobs([job], facts)
    return treated_one


def treated_jobs(jobs: Sequence[Job], facts: ClusterFacts) -> list[Job]:
    """Apply `treated` to some jobs."""
    counts_per_node = _counts_per_node(facts)
    treatments = [
        (field, "hide" in how, how.get("stand_in"), how.get("fill"))
        for field, how in sorted(facts.fields.items())
        if not how.keys().isdisjoint(("hide", "stand_in", "fill"))
    ]
    read = []
    for job in jobs:
        changes = _memory_per_node(job) if counts_per_node else {}
        for field, is_hidden, stand_in, fill in treatments:
            value = changes.get(field, getattr(job, field))
            if value is None or is_hidden:
                found = changes.get(stand_in, getattr(job, stand_in)) if stand_in else None
                found = fill if found is None else found
                if found != value:
                    changes[field] = found
        read.append(changed_copy(job, changes) if changes else job)
    return read


def _memory_per_node(job: Job) -> dict[str, Any]:
    """Return the fields of a memory request per node, where they differ."""
    total = total_memory(job)
    if total is None:
        return {}
    if job.memory_per is None:
        return {"memory_per": "node"}
    counted = job.memory_per == "cpu" and job.cpus_asked is not None
    counted |= job.memory_per == "gpu" and bool(job.gpus_asked)
    if not (counted and job.nodes_asked):
        return {}
    return {"memory_asked": total // job.nodes_asked, "memory_per": "node"}


def numbers_of_jobs(jobs: Sequence[Job], zone: str, moment: int) -> NDArray[np.float64]:
    """Compute `numbers_of` for some jobs at a moment of their life."""
    numbers = np.empty((len(jobs), len(L.NUMBERS)))
    numbers[:, list(_PLAIN)] = np.array([_plain_fields(job) for job in jobs], np.float64)  # None becomes NaN
    numbers[:, L.X_MEMORY_PER] = [_PER.get(job.memory_per, np.nan) for job in jobs]
    numbers[:, L.X_DEPENDS] = [job.dependency is not None for job in jobs]
    numbers[:, L.X_DEFAULTED] = [
        np.nan if job.defaulted is None else job.defaulted.count(",") + 1 for job in jobs
    ]
    numbers[:, L.X_UTC_OFFSET] = _utc_offset(zone, moment // 900 * 900)
    return numbers


def job_numbers(job: Job, zone: str, moment: int) -> NDArray[np.float64]:
    """Compute `numbers_of` for one job at a moment of its life."""
    (numbers,) = numbers_of_jobs([job], zone, moment)
    return np.asarray(numbers)


@lru_cache(maxsize=1 << 10)
def _utc_offset(zone: str, quarter: int) -> float:
    """Return a zone's offset; zones change it on the quarter hour, so one answer serves 15 minutes."""
    offset = datetime.fromtimestamp(quarter, ZoneInfo(zone)).utcoffset()
    return offset.total_seconds() if offset else 0.0


def atoms_of_jobs(jobs: Sequence[Job], programs: Sequence[str | None]) -> NDArray[np.uint64]:
    """Compute `atoms_of` for some jobs, with the programs that earlier ones ran."""
    return np.array([_hashes(job, program) for job, program in zip(jobs, programs, strict=True)], np.uint64)


def job_atoms(job: Job, program: str | None = None) -> NDArray[np.uint64]:
    """Compute `atoms_of` for one job."""
    (atoms,) = atoms_of_jobs([job], [program])
    return np.asarray(atoms)


def _hashes(job: Job, program: str | None) -> list[int]:
    texts: dict[int, str | None] = dict(zip(_PLAIN_ATOMS, _plain_texts(job), strict=True))
    for place, (exact, loose) in _LABELS.items():
        label = getattr(job, exact) if exact is not None else None
        texts[place] = label if label is not None else _normalised(getattr(job, loose))
    if texts[L.A_SCRIPT] is None and program is not None:
        texts[L.A_SCRIPT] = f"program {program}"
    hashes = [0] * len(L.ATOMS)
    for place, text in texts.items():
        if text is not None:
            hashes[place] = text_hash(text)
    return hashes


def _normalised(text: str | None) -> str | None:
    return None if text is None else normalised(text)


def job_result(job: Job, policy: FailurePolicy) -> NDArray[np.float64]:
    """Compute `results_of` for one job."""
    ran, failed = job.run_time, policy.failed(job)
    result = np.full(len(L.RESULTS), np.nan)
    if failed is not None:
        result[L.R_FAILS] = failed
    result[L.R_LIMIT] = bool(failed) and (job.outcome == Outcome.TIMEOUT or job.ran_to_limit)
    result[L.R_MEMORY_KILL] = job.outcome == Outcome.OUT_OF_MEMORY
    if ran is not None:
        result[L.R_RUN_TIME] = ran
    if job.max_memory is not None:
        result[L.R_MAX_MEMORY] = job.max_memory
    return result
