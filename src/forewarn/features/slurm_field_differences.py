"""What Slurm's controller and its accounting tell differently of the same job, and what features make of it.

A model learns from jobs of which, mostly, only accounting is left, and serves jobs that the controller tells
of. A field that only one of them tells, or that they count differently, would make the same request look like
another one: its user's history with it would not be found. So the features of a cluster that is read from a
live Slurm see such fields as both tell them, or not at all. `tests/lab/test_features_live.py` holds on real
daemons that no other field differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from forewarn.evidence import Code, Statement
from forewarn.store.base import ClusterFacts

HIDDEN = "hidden"
PER_NODE = "counted for a node"
NOT_READ = "no feature reads it"
EXPLAINED = "stays"


class Difference(NamedTuple):
    """How one field differs, and what is done about it."""

    treatment: str
    why: str


DIFFERENT: Mapping[str, Difference] = MappingProxyType(
    {
        "tasks_asked": Difference(HIDDEN, "accounting does not keep it"),
        "dependency": Difference(HIDDEN, "accounting does not keep it"),
        "defaulted": Difference(HIDDEN, "the controller's flags tell more of it than accounting"),
        "submit_line": Difference(HIDDEN, "the controller does not tell it before 25.05"),
        "priority": Difference(HIDDEN, "grows while the job waits; accounting keeps that of the start"),
        **{
            name: Difference(HIDDEN, "scripts are told by some ways and of ended jobs only")
            for name in ("script_hash", "script_language", "script_launcher", "script_modules")
        },
        "script_environment": Difference(NOT_READ, "as script_hash"),
        "memory_asked": Difference(PER_NODE, "sacct tells it for a node, others as it was asked for"),
        "memory_per": Difference(PER_NODE, "as memory_asked"),
        "raw_id": Difference(NOT_READ, "a task of an array has its own number only once it was split off"),
        "array_tasks": Difference(NOT_READ, "only an array that waits has it"),
        "constraint": Difference(NOT_READ, "accounting keeps it since 20.11, slurmrestd tells it of late"),
        "tres_asked": Difference(NOT_READ, "22.05's controller does not tell it once the job has nodes"),
        "time_limit": Difference(EXPLAINED, "accounting keeps the last one: `scontrol update`"),
        "partition": Difference(EXPLAINED, "one that waits may name several, accounting the one it got"),
    }
)


# The field policies of a cluster that is read from a live Slurm.
_POLICIES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {HIDDEN: {"hide": True}, PER_NODE: {"per": "node"}}
)


def with_slurm_policies(facts: ClusterFacts) -> ClusterFacts:
    """A cluster's facts with what is done about such fields, beside what else is."""
    fields = dict(facts.fields)
    for name, difference in DIFFERENT.items():
        if difference.treatment in _POLICIES:
            fields[name] = fields.get(name, {}) | dict(_POLICIES[difference.treatment])
    return replace(facts, fields=fields)


def reading_of(facts: ClusterFacts) -> dict[str, str]:
    """Which fields features see otherwise than records have them, and how: a model must serve as it learnt.

    What only some jobs lack and is filled in for them (`absence.py`) is no part of it.

    >>> fields = {"tasks_asked": {"hide": True}, "memory_asked": {"per": "node", "fill": 3}}
    >>> reading_of(ClusterFacts(fields=fields))
    {'memory_asked': 'for a node', 'tasks_asked': 'hidden'}
    """
    found: dict[str, str] = {}
    for field, how in sorted(facts.fields.items()):
        if "hide" in how:
            found[field] = "hidden"
        elif "per" in how:
            found[field] = f"for a {how['per']}"
        elif "stand_in" in how and field.endswith("_asked"):
            found[field] = f"{how['stand_in']} instead"
    return found


class ReadingCode(Code):
    """Why a model does not fit how fields are read now."""

    OTHERWISE = "fields_read_otherwise"
    NOT_RECORDED = "reading_not_recorded"


def reading_changed(learnt: Mapping[str, str] | None, now: Mapping[str, str]) -> Statement | None:
    """State how fields are read otherwise than when a model learnt; None where they are read alike.

    How a version read them that did not record it is unknown: its model fits only where no field is read
    otherwise now, so that nothing is hidden from it. A field that is read as it is has None.

    >>> reading_changed({}, {"dependency": "hidden"}).values
    {'fields': ('dependency',), 'then': (None,), 'now': ('hidden',)}
    """
    if learnt is None:
        return Statement(ReadingCode.NOT_RECORDED) if now else None
    different = [field for field in sorted({*learnt, *now}) if learnt.get(field) != now.get(field)]
    if not different:
        return None
    then, later = (tuple(reading.get(field) for field in different) for reading in (learnt, now))
    return Statement(ReadingCode.OTHERWISE, {"fields": tuple(different), "then": then, "now": later})


def reading_in_words(changed: Statement) -> str:
    """Say how fields are read otherwise than when a model learnt.

    >>> reading_in_words(Statement(ReadingCode.OTHERWISE, {"fields": ("a",), "then": (None,), "now": ("b",)}))
    'learnt when fields were read otherwise: a (then as it is, now b)'
    """
    if changed.code is ReadingCode.NOT_RECORDED:
        return "made by an older version that did not record how fields were read"
    values: Mapping[str, Any] = changed.values
    rows = zip(values["fields"], values["then"], values["now"], strict=True)
    changes = (f"{field} (then {then or 'as it is'}, now {now or 'as it is'})" for field, then, now in rows)
    return f"learnt when fields were read otherwise: {', '.join(changes)}"


def without_others(facts: ClusterFacts) -> ClusterFacts:
    """Only what was set above: what else there is can be found anew."""
    own = {
        name: {way: how[way] for way in ("hide", "per") if way in how} for name, how in facts.fields.items()
    }
    return replace(facts, fields={name: how for name, how in own.items() if how})
