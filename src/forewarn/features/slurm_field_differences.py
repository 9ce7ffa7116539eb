"""Fields that Slurm's controller and its accounting report differently for the same job, and their treatment.

A model learns mostly from accounting records, and serves jobs that the controller reports. A field that only
one of them has, or that they count differently, would make the same request look like another one, and its
user's history with it would not be found. So the features of a cluster read from a live Slurm use such fields
in a form that both have, or not at all. `tests/lab/test_features_live.py` checks on real daemons that no
other field differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from forewarn.evidence import Code, Statement

if TYPE_CHECKING:
    from forewarn.store.base import ClusterFacts

HIDDEN = "hidden"
PER_NODE = "counted for a node"
NOT_READ = "no feature reads it"
EXPLAINED = "stays"


class Difference(NamedTuple):
    """How one field differs, and how it is treated."""

    treatment: str
    why: str


DIFFERENT: Mapping[str, Difference] = MappingProxyType(
    {
        "tasks_asked": Difference(HIDDEN, "accounting does not keep it"),
        "dependency": Difference(HIDDEN, "accounting does not keep it"),
        "defaulted": Difference(HIDDEN, "the controller's flags show more defaults than accounting"),
        "submit_line": Difference(HIDDEN, "the controller does not report it before 25.05"),
        "priority": Difference(HIDDEN, "grows while the job waits; accounting keeps that of the start"),
        **{
            name: Difference(HIDDEN, "scripts are available from some sources and for ended jobs only")
            for name in ("script_hash", "script_language", "script_launcher", "script_modules")
        },
        "script_environment": Difference(NOT_READ, "as script_hash"),
        "memory_asked": Difference(PER_NODE, "sacct reports it per node, others as requested"),
        "memory_per": Difference(PER_NODE, "as memory_asked"),
        "raw_id": Difference(NOT_READ, "an array task has its own number only once it is split off"),
        "array_tasks": Difference(NOT_READ, "only a pending array has it"),
        "constraint": Difference(
            NOT_READ, "accounting has it since 20.11, slurmrestd only in recent versions"
        ),
        "tres_asked": Difference(NOT_READ, "22.05's controller does not report it once the job has nodes"),
        "time_limit": Difference(EXPLAINED, "accounting keeps the last one: `scontrol update`"),
        "partition": Difference(EXPLAINED, "a pending job may name several, accounting has the one it got"),
    }
)


# The field treatments of a cluster read from a live Slurm.
_TREATMENTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {HIDDEN: {"hide": True}, PER_NODE: {"per": "node"}}
)


def with_slurm_treatments(facts: ClusterFacts) -> ClusterFacts:
    """Add the treatment of these fields to a cluster's facts."""
    fields = dict(facts.fields)
    for name, difference in DIFFERENT.items():
        if difference.treatment in _TREATMENTS:
            fields[name] = fields.get(name, {}) | dict(_TREATMENTS[difference.treatment])
    return replace(facts, fields=fields)


def reading_of(facts: ClusterFacts) -> dict[str, str]:
    """Return the fields that features read differently from records, and how: a model serves as trained.

    Fields that only some jobs lack and that are filled in (`missing_fields.py`) are not part of it.

    >>> from forewarn.store.base import ClusterFacts
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


def reading_changed(trained: Mapping[str, str] | None, now: Mapping[str, str]) -> Statement | None:
    """State how fields are read differently from the model's training; None if equal.

    How a version read them that did not record it is unknown: its model fits only where no field is read
    otherwise now, so that nothing is hidden from it. A field that is read as it is has None.

    >>> reading_changed({}, {"dependency": "hidden"}).values
    {'fields': ('dependency',), 'then': (None,), 'now': ('hidden',)}
    """
    if trained is None:
        return Statement(ReadingCode.NOT_RECORDED) if now else None
    different = [field for field in sorted({*trained, *now}) if trained.get(field) != now.get(field)]
    if not different:
        return None
    then, later = (tuple(reading.get(field) for field in different) for reading in (trained, now))
    return Statement(ReadingCode.OTHERWISE, {"fields": tuple(different), "then": then, "now": later})


def describe_reading_change(changed: Statement) -> str:
    """Describe how fields are read differently from the model's training.

    >>> values = {"fields": ("a",), "then": (None,), "now": ("b",)}
    >>> describe_reading_change(Statement(ReadingCode.OTHERWISE, values))
    'trained when fields were read differently: a (then as it is, now b)'
    """
    if changed.code is ReadingCode.NOT_RECORDED:
        return "trained by an older version that did not record how fields were read"
    values: Mapping[str, Any] = changed.values
    rows = zip(values["fields"], values["then"], values["now"], strict=True)
    changes = (f"{field} (then {then or 'as it is'}, now {now or 'as it is'})" for field, then, now in rows)
    return f"trained when fields were read differently: {', '.join(changes)}"


def without_others(facts: ClusterFacts) -> ClusterFacts:
    """Keep only the treatments of this module; the others can be found again."""
    own = {
        name: {way: how[way] for way in ("hide", "per") if way in how} for name, how in facts.fields.items()
    }
    return replace(facts, fields={name: how for name, how in own.items() if how})
