"""The description of a simulated cluster: its nodes, users, programs, and what goes wrong.

A scenario is a TOML file. Whatever a file leaves out is taken from `scenarios/default.toml`, where
each key is explained; lists of tables (`nodes`, `partitions`, `drift.events`) are replaced as a whole,
applications are added to by name. A wrong key or value is a `UsageError` that names it.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from importlib import resources
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo

from forewarn.errors import UsageError
from forewarn.job.units import parse_duration

SIZE_MAX = 512  # jobs in one campaign, at most
T = TypeVar("T")


def _at_least(low: float) -> Any:
    return field(metadata={"low": low})


def _between(low: float, high: float) -> Any:
    return field(metadata={"low": low, "high": high})


def _one_of(*choices: str) -> Any:
    return field(metadata={"choices": choices})


def _duration() -> Any:
    """Declare a time as Slurm writes it, kept as seconds, in whole minutes as Slurm keeps limits."""
    return field(metadata={"duration": True})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The cluster as a whole, and how busy it is."""

    name: str
    timezone: str
    start: date
    jobs: int = _at_least(1)
    jobs_per_day: float = _at_least(1)
    first_job_id: int = _at_least(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Equal nodes, named prefix001, prefix002 …"""

    prefix: str
    count: int = _between(1, 9999)
    cpus: int = _at_least(1)
    memory_gib: int = _at_least(1)
    gpus: int = _between(0, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpec:
    """A partition over one group of nodes. People try partitions in the order of the file."""

    name: str
    nodes: str
    qos: str
    time_default: int = _duration()
    time_max: int = _duration()
    memory_per_cpu_mib: int = _at_least(1)
    nodes_max: int = _between(1, 64)
    priority: int = _at_least(0)
    preemptible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """Users: how many, how skilled, when they work."""

    slots: int = _between(1, 100_000)
    present_at_start: float = _between(0, 1)
    arrival_months: float = _at_least(0)
    tenure_months: float = _at_least(0.1)
    skill: float = _between(0.05, 0.95)
    skill_spread: float = _between(0, 1)
    learning_per_month: float = _between(0, 1)
    activity_spread: float = _between(0, 3)
    workflows: int = _between(1, 8)
    accounts: int = _at_least(1)
    groups: int = _at_least(1)
    weekend_workers: float = _between(0, 1)
    night_owls: float = _between(0, 1)
    automated: float = _between(0, 1)
    submit_limit: int = _at_least(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaigns:
    """How jobs arrive in bursts."""

    single: float = _at_least(0)
    sweep: float = _at_least(0)
    array: float = _at_least(0)
    chain: float = _at_least(0)
    sweep_size: float = _between(1, SIZE_MAX)
    array_size: float = _between(1, SIZE_MAX)
    chain_size: float = _between(1, SIZE_MAX)
    probe_first: float = _between(0, 1)
    input_spread: float = _between(0, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """How requests are wrong in human ways, and what users do after a failure."""

    copied: float = _between(0, 1)
    guess_spread: float = _between(0, 3)
    time_safety: float = _at_least(0.1)
    memory_safety: float = _at_least(0.1)
    safety_spread: float = _between(0, 3)
    time_defaulted: float = _between(0, 1)
    memory_defaulted: float = _between(0, 1)
    memory_all: float = _between(0, 1)
    memory_by_cpu: float = _between(0, 1)
    scavengers: float = _between(0, 1)
    raised: float = _between(0, 1)
    fixed: float = _between(0, 1)
    given_up: float = _between(0, 1)
    rest_cancelled: float = _between(0, 1)
    notice_minutes: float = _at_least(0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """What happens to jobs while they are pending."""

    changed: float = _between(0, 1)
    changed_after_minutes: float = _at_least(0)
    partition_moved: float = _between(0, 1)
    patience_days: float = _at_least(0.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong, and how often. Rates of nodes are per node."""

    script_broken: float = _between(0, 1)
    input_missing: float = _between(0, 1)
    bad_input: float = _between(0, 1)
    flaky: float = _between(0, 1)
    cancelled_running: float = _between(0, 1)
    crashes_per_year: float = _at_least(0)
    illnesses_per_year: float = _at_least(0)
    ill_failure: float = _between(0, 1)
    ill_hours: float = _at_least(0.1)
    ill_failures_noticed: float = _at_least(1)
    repair_hours: float = _at_least(0.1)
    outages_per_month: float = _at_least(0)
    outage_minutes: float = _at_least(0.1)
    outage_reach: float = _between(0, 1)
    outage_notice_minutes: float = _at_least(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftEvent:
    """One day on which an application changes for everybody: a new version, new defaults, a new library."""

    day: float = _at_least(0)
    application: str  # "*" is all of them
    memory: float = _at_least(0.01)
    run_time: float = _at_least(0.01)
    broken: float = _at_least(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How the workload changes over months."""

    growth_per_month: float = _between(-0.5, 0.5)
    growth_spread: float = _between(0, 0.5)
    events: tuple[DriftEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A program: its needs as power laws of the size of its input, and its failures."""

    weight: float = _at_least(0)
    names: tuple[str, ...]
    modules: tuple[str, ...]
    cpus: tuple[int, ...]  # a node; one of them is a workflow's habit
    nodes: tuple[int, ...]
    gpus: int = _between(0, 16)
    mpi: bool
    memory_gib: float = _at_least(0.05)
    memory_power: float = _between(0, 3)
    memory_by: str = _one_of("node", "cpu", "job")
    memory_peak: float = _between(0.02, 1)
    run_hours: float = _at_least(0.005)
    run_power: float = _between(0, 4)
    run_spread: float = _between(0, 2)
    scaling: float = _between(0, 1.2)
    size_spread: float = _between(0, 3)
    input_spread: float = _between(0, 2)
    broken: float = _at_least(0)
    io_gib_per_hour: float = _at_least(0)
    io_exposed: float = _between(0, 1)
    cpu_used: float = _between(0.01, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that is fixed before random numbers are drawn."""

    cluster: Cluster
    nodes: tuple[NodeGroup, ...]
    partitions: tuple[PartitionSpec, ...]
    users: Users
    campaigns: Campaigns
    requests: Requests
    pending: Pending
    faults: Faults
    drift: Drift
    applications: Mapping[str, Application]


def load_scenario(name_or_path: str | Path) -> Scenario:
    """Load a scenario by the name of one that ships with Forewarn, or from a file.

    >>> load_scenario("small").cluster.name
    'small'
    """
    shipped = resources.files(__package__) / "scenarios"
    path = Path(name_or_path)
    known = sorted(Path(f.name).stem for f in shipped.iterdir() if f.name.endswith(".toml"))
    if str(name_or_path) in known:
        text, where = (shipped / f"{name_or_path}.toml").read_text("utf-8"), f"{name_or_path}.toml"
    else:
        try:
            text, where = path.read_text("utf-8"), str(path)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"no scenario {str(name_or_path)!r}: neither one of {', '.join(known)} nor a file ({error})"
            ) from None
    base = tomllib.loads((shipped / "default.toml").read_text("utf-8"))
    try:
        own = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: not TOML: {error}") from None
    scenario = _read(Scenario, _merged(base, own), where, "")
    _check(scenario, where)
    return scenario


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(base)
    for key, value in own.items():
        inner = base.get(key)
        both[key] = _merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return both


def _read(cls: type[T], table: Any, where: str, at: str) -> T:
    """Build a dataclass from a table, checking each key and value against its field."""
    if not isinstance(table, dict):
        raise UsageError(f"{where}: {at}: a table is needed, not {table!r}")
    hints = get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    dotted = f"{at}." if at else ""
    for key in table:
        if key not in fields:
            raise UsageError(f"{where}: {dotted}{key}: no such key; known here: {', '.join(fields)}")
    for key in fields:
        if key not in table:
            raise UsageError(f"{where}: {dotted}{key}: missing, and default.toml cannot know it")
    return cls(**{k: _value(hints[k], fields[k].metadata, table[k], where, dotted + k) for k in fields})


def _value(hint: Any, rules: Mapping[str, Any], raw: Any, where: str, at: str) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple:
        if not isinstance(raw, list):
            raise UsageError(f"{where}: {at}: a list is needed, not {raw!r}")
        return tuple(_value(inner[0], {}, item, where, f"{at}[{i}]") for i, item in enumerate(raw))
    if origin is Mapping:
        if not isinstance(raw, dict):
            raise UsageError(f"{where}: {at}: a table is needed, not {raw!r}")
        return {k: _read(inner[1], v, where, f"{at}.{k}") for k, v in raw.items()}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _read(hint, raw, where, at)
    if "duration" in rules:
        return _seconds(raw, where, at)
    wanted = (int, float) if hint is float else hint
    assert not isinstance(wanted, UnionType)
    if not isinstance(raw, wanted) or (isinstance(raw, bool) and hint is not bool):
        raise UsageError(f"{where}: {at}: {hint.__name__} is needed, not {raw!r}")
    if hint is float and not isfinite(raw):  # TOML has nan and inf, and no comparison refuses a nan
        raise UsageError(f"{where}: {at}: {raw!r} is not a number to calculate with")
    low, high = rules.get("low"), rules.get("high")
    if (low is not None and raw < low) or (high is not None and raw > high):
        span = f"at least {low:g}" if high is None else f"between {low:g} and {high:g}"
        raise UsageError(f"{where}: {at}: {raw!r} is not {span}")
    if "choices" in rules and raw not in rules["choices"]:
        raise UsageError(f"{where}: {at}: {raw!r} is not one of {', '.join(rules['choices'])}")
    return raw


def _seconds(raw: Any, where: str, at: str) -> int:
    try:
        seconds = parse_duration(raw) if isinstance(raw, str) else None
    except ValueError:
        seconds = None
    if not seconds or seconds % 60:
        raise UsageError(f'{where}: {at}: {raw!r} is not a time in whole minutes such as "4:00:00" or "2-00"')
    return seconds


def _check(scenario: Scenario, where: str) -> None:
    """Check what no single key shows."""
    try:
        ZoneInfo(scenario.cluster.timezone)
    except (KeyError, ValueError, OSError):
        raise UsageError(
            f"{where}: cluster.timezone: no zone {scenario.cluster.timezone!r}; they are like Europe/Berlin"
        ) from None
    groups = {g.prefix: g for g in scenario.nodes}
    if not groups or len(groups) != len(scenario.nodes):
        raise UsageError(f"{where}: nodes: at least one group, each with a prefix of its own")
    names = [p.name for p in scenario.partitions]
    if not names or len(set(names)) != len(names):
        raise UsageError(f"{where}: partitions: at least one, each with a name of its own")
    for i, partition in enumerate(scenario.partitions):
        if partition.nodes not in groups:
            raise UsageError(
                f"{where}: partitions[{i}].nodes: no group of nodes {partition.nodes!r}; "
                f"choose from {', '.join(groups)}"
            )
        if partition.time_default > partition.time_max:
            raise UsageError(f"{where}: partitions[{i}].time_default: longer than time_max")
    if all(p.preemptible or groups[p.nodes].gpus for p in scenario.partitions):
        raise UsageError(f"{where}: partitions: one without GPUs that is not preemptible is needed")
    used = {name: app for name, app in scenario.applications.items() if app.weight > 0}
    if not any(app.gpus == 0 for app in used.values()):
        raise UsageError(f"{where}: applications: one without GPUs and of some weight is needed")
    for name, app in used.items():
        if not app.names or not app.cpus or not app.nodes or min(*app.cpus, *app.nodes, 1) < 1:
            raise UsageError(
                f"{where}: applications.{name}: names, cpus and nodes need entries of at least 1"
            )
        if app.gpus > max(
            (groups[p.nodes].gpus for p in scenario.partitions if not p.preemptible), default=0
        ):
            raise UsageError(
                f"{where}: applications.{name}.gpus: no partition has nodes with {app.gpus} GPUs"
            )
    for i, event in enumerate(scenario.drift.events):
        if event.application != "*" and event.application not in scenario.applications:
            raise UsageError(f"{where}: drift.events[{i}].application: no application {event.application!r}")
    shapes = scenario.campaigns
    if shapes.single + shapes.sweep + shapes.array + shapes.chain <= 0:
        raise UsageError(f"{where}: campaigns: one of single, sweep, array, chain must be above 0")
