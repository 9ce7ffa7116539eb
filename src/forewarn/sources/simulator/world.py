"""A scenario as the arrays that the compiled kernel works on."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from forewarn.sources.simulator.kernel import events, layout
from forewarn.sources.simulator.kernel.layout import World
from forewarn.sources.simulator.scenario import SIZE_MAX, Scenario

_MEMORY_BY = {"node": layout.BY_NODE, "cpu": layout.BY_CPU, "job": 2}
_RING = 1 << 15  # jobs in flight to begin with; doubled when they are more
_YEARS = 40  # of the zone's offsets; the last one holds for ever


def make_world(scenario: Scenario, seed: int, jobs: int, *, visitors: int = 0, exclusions: int = 1) -> World:
    """Create the world before its first event, with room for `_RING` live jobs.

    `visitors` are the users beyond the scenario's who submit from outside, `exclusions` the different sets of
    nodes that jobs may exclude at one time.
    """
    apps = tuple(scenario.applications.values())
    start = start_of(scenario)
    clock = np.zeros(1, layout.CLOCK)
    clock["now"], clock["target"], clock["job_id"] = start, jobs, scenario.cluster.first_job_id
    clock["user"] = 1
    users = scenario.users.slots + visitors
    agents = np.zeros(users * scenario.users.workflows, layout.AGENT)
    agents["user"] = np.arange(len(agents)) // scenario.users.workflows
    partitions, nodes = _partitions(scenario), _nodes(scenario)
    widest = int(partitions["nodes_max"].max())
    return World(
        seed=np.uint64(seed),
        settings=_settings(scenario, start),
        clock=clock,
        groups=_groups(scenario),
        partitions=partitions,
        by_priority=np.argsort(-partitions["priority"], kind="stable").astype(np.int64),
        applications=_applications(scenario),
        cpus_choices=_padded([app.cpus for app in apps]),
        nodes_choices=_padded([app.nodes for app in apps]),
        drift=_drift(scenario),
        offsets=_offsets(scenario, start),
        nodes=nodes,
        people=np.zeros(users, layout.PERSON),
        lag=np.zeros((users, len(partitions)), np.int64),
        agents=agents,
        todo=np.zeros((len(agents), SIZE_MAX), np.int64),
        redo=np.zeros((len(agents), SIZE_MAX), np.int64),
        jobs=np.zeros(_RING, layout.JOB),
        placed=np.zeros((_RING, widest), np.int64),
        running=np.zeros(_RING, np.int64),
        events=np.zeros((_events(_RING, scenario), events.COLUMNS), np.int64),
        queues=np.zeros((len(partitions), 2 * _RING, events.COLUMNS), np.int64),
        excluded=np.zeros((exclusions, len(nodes)), np.bool_),
    )


def _events(ring: int, scenario: Scenario) -> int:
    standing = sum(g.count for g in scenario.nodes) * 4 + scenario.users.slots * scenario.users.workflows * 2
    return 8 * ring + standing


def grown(world: World) -> World:
    """Return the same world with twice the room for live jobs."""
    size = len(world.jobs)
    seqs = np.arange(int(world.clock["head"][0]), int(world.clock["tail"][0]))
    jobs = np.zeros(2 * size, layout.JOB)
    placed = np.zeros((2 * size, world.placed.shape[1]), np.int64)
    jobs[seqs & (2 * size - 1)] = world.jobs[seqs & (size - 1)]
    placed[seqs & (2 * size - 1)] = world.placed[seqs & (size - 1)]
    return world._replace(
        jobs=jobs,
        placed=placed,
        running=np.concatenate([world.running, np.zeros(size, np.int64)]),
        events=np.concatenate([world.events, np.zeros_like(world.events)]),
        queues=np.concatenate([world.queues, np.zeros_like(world.queues)], axis=1),
    )


def start_of(scenario: Scenario) -> int:
    """Return the first second: local midnight of the scenario's first day."""
    zone = ZoneInfo(scenario.cluster.timezone)
    return int(datetime.combine(scenario.cluster.start, time(), zone).timestamp())


def node_names(scenario: Scenario) -> list[str]:
    """Return the names of all nodes, in the kernel's order."""
    return [f"{g.prefix}{n:0{width(g.count)}}" for g in scenario.nodes for n in range(1, g.count + 1)]


def width(count: int) -> int:
    """Return the number of digits in the names of a group of so many nodes."""
    return max(3, len(str(count)))


def _settings(scenario: Scenario, start: int) -> layout.Records:
    """Flatten the numbers of the scenario's sections, by their own names."""
    found: dict[str, float] = {"jobs_per_day": scenario.cluster.jobs_per_day}
    sections = ("users", "campaigns", "requests", "pending", "faults", "drift")
    for section in (getattr(scenario, name) for name in sections):
        for f in dataclasses.fields(section):
            value = getattr(section, f.name)
            if isinstance(value, (int, float)):
                assert f.name not in found, f"two settings are called {f.name}"
                found[f.name] = float(value)
    record = np.zeros(1, np.dtype([("start", "i8"), *((name, "f8") for name in found)], align=True))
    record["start"] = start
    for name, value in found.items():
        record[name] = value
    return record


def _groups(scenario: Scenario) -> layout.Records:
    groups = np.zeros(len(scenario.nodes), layout.GROUP)
    counts = np.array([g.count for g in scenario.nodes])
    groups["first"], groups["count"] = np.cumsum(counts) - counts, counts
    groups["cpus"] = [g.cpus for g in scenario.nodes]
    groups["memory"] = [g.memory_gib * 1024 for g in scenario.nodes]
    groups["gpus"] = [g.gpus for g in scenario.nodes]
    return groups


def _nodes(scenario: Scenario) -> layout.Records:
    counts = [g.count for g in scenario.nodes]
    nodes = np.zeros(sum(counts), layout.COMPUTE_NODE)
    nodes["group"] = np.repeat(np.arange(len(counts)), counts)
    nodes["cpus"] = np.repeat([g.cpus for g in scenario.nodes], counts)
    nodes["memory"] = np.repeat([g.memory_gib * 1024 for g in scenario.nodes], counts)
    nodes["gpus"] = np.repeat([g.gpus for g in scenario.nodes], counts)
    nodes["up"], nodes["claim"] = 1, -1
    return nodes


def _partitions(scenario: Scenario) -> layout.Records:
    prefixes = [g.prefix for g in scenario.nodes]
    records = np.zeros(len(scenario.partitions), layout.PARTITION)
    for record, spec in zip(records, scenario.partitions, strict=True):
        group = scenario.nodes[prefixes.index(spec.nodes)]
        record["group"], record["cpus"] = prefixes.index(spec.nodes), group.count * group.cpus
        for name in ("time_default", "time_max", "nodes_max", "priority", "preemptible"):
            record[name] = getattr(spec, name)
        record["memory_per_cpu"] = spec.memory_per_cpu_mib
        record["claimed"] = -1
    return records


def _applications(scenario: Scenario) -> layout.Records:
    apps = scenario.applications.values()
    records = np.zeros(len(apps), layout.APPLICATION)
    for record, app in zip(records, apps, strict=True):
        for name in layout.APPLICATION.names or ():
            if hasattr(app, name) and name not in ("memory_by", "names"):
                record[name] = getattr(app, name)
        record["memory"], record["run_time"] = app.memory_gib * 1024, app.run_hours * 3600
        record["memory_by"], record["names"] = _MEMORY_BY[app.memory_by], len(app.names)
        record["cpus_choices"], record["nodes_choices"] = len(app.cpus), len(app.nodes)
    return records


def _drift(scenario: Scenario) -> layout.Records:
    names = list(scenario.applications)
    records = np.zeros(len(scenario.drift.events), layout.DRIFT_EVENT)
    for record, event in zip(records, scenario.drift.events, strict=True):
        everybody = event.application == "*"
        record["application"] = -1 if everybody else names.index(event.application)
        for name in ("day", "memory", "run_time", "broken"):
            record[name] = getattr(event, name)
    return records


def _padded(choices: list[tuple[int, ...]]) -> NDArray[np.int64]:
    longest = max(map(len, choices))
    return np.array([c + (0,) * (longest - len(c)) for c in choices], np.int64)


def _offsets(scenario: Scenario, start: int) -> NDArray[np.int64]:
    zone = ZoneInfo(scenario.cluster.timezone)
    first = datetime.fromtimestamp(start, UTC)
    days = (first + timedelta(days=d) for d in range(365 * _YEARS))
    return np.array([int((day.astimezone(zone).utcoffset() or timedelta()).total_seconds()) for day in days])
