"""Example evidence of every code, and strategies that build assessments from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from forewarn.assess.assessment import Assessment, Finding, Oddity, Reason
from forewarn.assess.codes import (
    CauseCode,
    DifferenceCode,
    NoteCode,
    OddityCode,
    ReasonCode,
    RetryCode,
    StepCode,
    SummaryCode,
    all_codes,
)
from forewarn.assess.finding_codes import FindingCode
from forewarn.assess.verdict import with_verdict
from forewarn.evidence import Code, Statement, Value, Values
from forewarn.features.slurm_field_differences import ReadingCode
from forewarn.learn.evaluation.baselines import RULES
from forewarn.learn.heads.unusual_codes import UnusualCode

GIB = 2**30
# What each name stands for wherever it is used; a code below may mean something else by it.
_USUAL: dict[str, Value] = {
    **{"streak": 4, "ended": 9, "failure_rate": 0.25, "rate_jobs": 15, "since_end": 3600.0, "rate": 0.5},
    **{"similar_failure_rate": 0.4, "ended_since_submit": 3, "failed_since_submit": 1, "in_flight": 2.0},
    **{"running": 1.0, "newest_with_request": "running", "newest_elapsed": 60.0, "since_submit": 30.0},
    **{"limit": 7200, "ratio": 2.5, "ratio_of": "request", "run_time": 3600.0, "at_limit": 0.2},
    **{"at_limit_of": "name", "cpus": 8, "gpus": 1.0, "tasks": 8, "is_array": True, "has_dependency": True},
    **{"cpus_ratio": 0.5, "fields": ("partition", "qos"), "names": ("main", "long"), "pending": 5.0},
    **{"worst_failure_rate": 0.42, "since_failure": 90.0, "rate_10m": 0.5, "rate_1h": 0.2, "rate_1d": 0.1},
    **{"wait": 600.0, "group": 0.1, "account": 0.2, "name": 0.3, "script": "job.sbatch", "array": 0.4},
    **{"hour": 14.0, "weekday": 2.0, "profile": "short and light", "median": 4.0 * GIB, "high": 9.0 * GIB},
    **{"groups": ("queue", "time_of_day"), "nonetheless": "raises", "by": "user_since_end"},
    **{
        "partition": "main",
        "asked": 8 * GIB,
        "there": 4 * GIB,
        "per": "cpu",
        "asked_per": GIB,
        "what": "cpus_asked",
    },
    **{"state": "down", "partitions": ("x",), "cluster": "alps", "known": ("main",), "jobs": 50},
    **{"high_share": 0.95, "value": "00:30", "below": 0.998, "new": 16 * GIB, "nodes": 4},
    **{
        "count": 2,
        "line": 3,
        "risk": 0.4,
        "model": "generic",
        "version": 2,
        "components": 3,
        "seconds": 900_000,
    },
    **{
        "jobs_of_user": 2,
        "is_new": True,
        "jobs_needed": 2000,
        "jobs_of_user_needed": 3,
        "other": 4,
        "this": 8,
    },
    **{"submissions": 4, "failed": 3, "outcomes": ("failed", "timeout"), "counts": (1, 2), "then": "ends"},
    **{"causes": ("timeout", "failed"), "shares": (1.0, 0.1), "path": "a.txt", "folder": "/scratch/a b"},
    **{"program": "./solver", "looked_for": "/scratch/a.txt", "unless": "program", "maker": "sort"},
    **{"origin": "environment", "script_goes_on": True, "sbatch_accepts": True, "stands_in_line": 3},
    **{"text": "# SBATCH -n 4", "first_command": 2, "spelled": "--output", "scheduler": "PBS", "one": "mem"},
    **{"former": "4G", "former_line": 2, "option": "mem", "own_size": 4 * GIB, "nodes_taken": 2},
    **{"tasks_per_node": 4, "product": 16, "launcher": "srun", "why": "no_mpi_program", "lacking": 2},
    **{
        "interpreter": "/bin/x",
        "module": "gcc",
        "near": "gcc/12",
        "architecture": "aarch64",
        "here": "x86_64",
    },
    **{
        "libraries": ("libq.so.6",),
        "environment": "torch",
        "package": "numpy",
        "its_line": 3,
        "python": "/p",
    },
    **{"start": "2026-11-17T19:43:29", "answer": "nodes are busy", "exit_code": 1, "plugin": "pyxis"},
    **{
        "could_be": ("ntasks", "nodes"),
        "since": "24.11",
        "letter": "l",
        "error": "no number",
        "word": "main",
    },
    **{"by_owner": False, "family": "missing_module", "times": 2, "attempts": 5, "most": 5, "least": 0.25},
    **{"probability": 0.2, "cause": "memory", "delay": 600, "had": 4 * GIB, "used": 3 * GIB, "needed": None},
    **{"basis": "doubling", "tried": 9, "completed": 4, "users": 6},
    **{"now": (None, "hidden"), "by_itself": True, "above": "/scratch", "request": 0.2},
}
_SPECIAL: dict[Code, dict[str, Value]] = {
    ReasonCode.OTHERS: {"script": 0.5, "request": 0.2},
    ReasonCode.TIME_NEEDED: {"median": 60.0, "high": 600.0},
    OddityCode.NO_SUCH_GPU: {"asked": ("h100",), "there": ("a100",)},
    OddityCode.NO_SUCH_FEATURE: {"asked": ("ib",), "there": ()},
    OddityCode.FAR_BEYOND_USUAL: {"asked": 4000, "median": 4.0, "high": 16.0},
    StepCode.AVOID_NODES: {"nodes": "n[3,7]"},
    CauseCode.RUN_TIME_OF_SUCH_JOBS: {"median": 60.0, "high": 600.0},
    DifferenceCode.PARTITION: {"other": "long"},
    FindingCode.SBATCH_REFUSES_NOW: {"why": "nodes_are_busy"},
    FindingCode.SBATCH_ACCEPTS: {"nodes": "nb1"},
    RetryCode.NO_MORE_MEMORY: {"most": 8 * GIB},
    RetryCode.NO_MORE_TIME: {"had": 3600, "most": 7200, "needed": 9000},
    RetryCode.MORE_TIME: {"had": 3600, "new": 7200},
    NoteCode.AGAINST_REPORT: {"version": None},
    ReadingCode.OTHERWISE: {"then": ("hidden", None)},
}


def values_of(code: Code) -> Values:
    """Return values that suffice for the English of a code."""
    amounts = {"value": 64.0, "above": 0.0} if isinstance(code, UnusualCode) else {}
    return _USUAL | _SPECIAL.get(code, {}) | amounts


def statement(code: Code) -> Statement:
    """Return example evidence of a code."""
    return Statement(code, values_of(code))


STATED = [code for code in all_codes().values() if not isinstance(code, SummaryCode)]
_SIMPLE: Mapping[type, st.SearchStrategy[Any]] = {
    str: st.text("ab,é ", max_size=4),
    bool: st.booleans(),
    int: st.integers(0, 10**9),
    float: st.floats(0, 1e9, allow_nan=False),
    NoneType: st.none(),
    Statement: st.sampled_from(STATED).map(statement),
}


def assessments() -> st.SearchStrategy[Assessment]:
    """Return a strategy for assessments with the verdict that follows from their parts."""
    return _part(Assessment).map(with_verdict)


def _part(part_type: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(part_type)
    drawn = {field.name: _of(hints[field.name]) for field in fields(part_type)}
    if part_type is Finding:
        drawn |= {"severity": st.sampled_from(["error", "warning", "note"])}
    if "rule" in drawn and part_type not in (Finding, Oddity):
        drawn["rule"] = st.none() | st.sampled_from(sorted(RULES))
    parts = st.builds(part_type, **drawn)
    if part_type in (Finding, Oddity, Reason):  # their values fit their codes
        return parts.map(lambda part: replace(part, values=values_of(part.code)))
    return parts


def _of(hint: Any) -> st.SearchStrategy[Any]:
    if hint == Values:
        return st.just({})
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return st.one_of([_of(one) for one in inner])
    if origin is tuple:
        return st.lists(_of(inner[0]), max_size=2).map(tuple)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(st.sampled_from(["failed", "completed"]), st.integers(1, 9), max_size=2)
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    assert isinstance(hint, type)
    assert is_dataclass(hint)
    return st.deferred(lambda: _part(hint))
