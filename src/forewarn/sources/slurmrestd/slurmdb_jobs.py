"""The fields of the accounting database's jobs: `/slurmdb/vX/jobs`, `sacct --json`."""

from __future__ import annotations

from types import MappingProxyType

from forewarn.job.sbatch.script_facts import line_facts, script_facts
from forewarn.sources.slurm.job_outcomes import STEPS_OUTCOME
from forewarn.sources.slurm.job_values import (
    ID_FIELDS,
    exit_status,
    ids,
    memory,
    state,
)
from forewarn.sources.slurm.record_values import MB, Fields, RawRecord, at, minutes, moment, number, text
from forewarn.sources.slurm.tres import TresCounts, memory_asked, resources
from forewarn.sources.slurmrestd.steps import outcome_by_steps, used_by_steps

_requested = resources("tres.requested")
_cpus_required = number("required.CPUs", none=0)
_memory_new = memory("required.memory_per_node", "required.memory_per_cpu")
_memory_old = number("required.memory", scale=MB)
_eligible, _recorded_start, _end = moment("time.eligible"), moment("time.start"), moment("time.end")
_states, _recorded_state = at("state.current"), state("state.current")
_ran, _suspended = number("time.elapsed"), number("time.suspended")


def _requested_values(record: RawRecord) -> tuple[str | int | None, ...]:
    whole: TresCounts = _requested(record)
    return whole.text, whole.nodes, whole.cpus or _cpus_required(record), whole.gpus


def _memory(record: RawRecord) -> tuple[int | None, str | None]:
    amount = _memory_old(record)
    if amount is None:
        return memory_asked(_memory_new(record), _requested(record))
    # Up to v0.0.38 what it is per is missing; the memory requested in total shows it, unless there are as
    # many nodes as CPUs.
    whole = _requested(record)
    counts = (("node", whole.nodes), ("cpu", whole.cpus))
    per = [name for name, count in counts if count and amount * count == whole.memory]
    if amount == 0:
        return memory_asked((amount, "node"), whole)
    return amount, per[0] if len(per) == 1 else None


def _start(record: RawRecord) -> int | None:
    """Compute the start: v0.0.36 and v0.0.37 have the eligible time in its place; the run time shows it."""
    start: int | None = _recorded_start(record)
    end, ran = _end(record), _ran(record)
    if start is None or end is None or ran is None or start != _eligible(record):
        return start
    began: int = end - ran - (_suspended(record) or 0)
    return max(start, began)


def _state(record: RawRecord) -> str | None:
    """Read the state: an earlier run of a requeued job has ended, though its base state is PENDING."""
    states = _states(record)
    if isinstance(states, list) and "REQUEUED" in states:
        return "REQUEUED"
    recorded: str | None = _recorded_state(record)
    return recorded


_SCRIPT_FIELDS = ("script_hash", "script_language", "script_modules", "script_launcher", "script_environment")


def _script(record: RawRecord) -> tuple[str | None, ...]:
    script = record.get("script")
    if not script:
        language, launcher = line_facts(record.get("submit_line") or "")
        return None, language, None, launcher, None
    facts = script_facts(script)
    return facts.hash, facts.language, facts.modules, facts.launcher, facts.environment


def is_slurmdb_job(record: RawRecord) -> bool:
    """Check whether a job is one of the database's."""
    return at("time.submission")(record) is not None


SLURMDB_JOB: Fields = MappingProxyType(
    {
        "cluster": text("cluster", "association.cluster"),
        ID_FIELDS: ids(
            "job_id",
            array_id="array.job_id",
            task_id="array.task_id",
            waiting="array.task",
            most="array.limits.max.running.tasks",
            het_id="het.job_id",
            offset="het.job_offset",
        ),
        "submit": moment("time.submission"),
        "user": text("user", "association.user"),
        "group": text("group"),
        "account": text("account", "association.account"),
        "name": text("name"),
        "work_dir": text("working_directory"),
        "submit_line": text("submit_line"),
        _SCRIPT_FIELDS: _script,
        "partition": text("partition"),
        "qos": text("qos"),
        "reservation": text("reservation.name"),  # up to v0.0.38 an integer that means nothing
        "constraint": text("constraints"),
        "nodes": text("nodes"),
        ("tres_asked", "nodes_asked", "cpus_asked", "gpus_asked"): _requested_values,
        ("memory_asked", "memory_per"): _memory,
        "time_limit": minutes("time.limit"),
        ("tres_given", "nodes_given", "cpus_given", "memory_given", "gpus_given"): resources(
            "tres.allocated"
        ),
        "priority": number("priority"),
        "eligible": _eligible,
        "start": _start,
        "end": _end,
        "suspended": _suspended,
        "restarts": number("restart_cnt"),
        "state": _state,
        "reason": text("state.reason", "state.previous"),  # `previous` is v0.0.36's name for it
        ("exit_code", "exit_signal"): exit_status("exit_code"),
        ("derived_exit_code", "_derived_signal"): exit_status("derived_exit_code"),
        STEPS_OUTCOME: outcome_by_steps,
        "cancelled_by": text("kill_request_user"),
        ("cpu_time", "max_memory", "io_read", "io_written", "energy"): used_by_steps,
    }
)
