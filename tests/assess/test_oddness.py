"""Odd configuration: impossible requests are reported with both numbers, possible ones are not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from forewarn.assess.assessment import Oddity
from forewarn.assess.machine import Machine
from forewarn.assess.oddness import NodeRequest, UsualRequest, oddities, oddness
from forewarn.assess.oddness.rules import LAST_RULES, RULES
from forewarn.assess.user_history import read_history
from forewarn.assess.wording import oddity as what
from forewarn.config import Config
from forewarn.job.columns import to_records
from forewarn.job.record import Job, Node, Partition
from forewarn.job.units import UNLIMITED
from forewarn.sources.base import open_source
from forewarn.sources.simulator.scenario import load_scenario
from forewarn.sources.simulator.simulator import Simulator
from forewarn.sources.simulator.writers.machine import write_machine
from forewarn.store.base import ClusterFacts
from forewarn.store.opening import open_store

GIB = 1 << 30


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Node], list[Partition]]:
    """Return the simulator's small cluster as slurmrestd describes it: 20 nodes of 128 GiB, 4 with GPUs."""
    nodes, partitions = write_machine(load_scenario("small"), tmp_path_factory.mktemp("machine"))

    def read(path: Path, record: Any) -> list[Any]:
        frames = [batch.frame for batch in open_source(f"slurmrestd:{path}").batches()]
        return list(to_records(pl.concat(frames), record))

    return read(nodes, Node), read(partitions, Partition)


def job(**fields: Any) -> Job:
    return Job(cluster="small", job_id="1", submit=0, **fields)


def found(machine: tuple[list[Node], list[Partition]], **fields: Any) -> dict[str, Oddity]:
    return {oddity.rule: oddity for oddity in oddities(job(**fields), *machine)}


@pytest.mark.parametrize(
    ("fields", "rule", "numbers"),
    [
        ({"memory_asked": 512 * GIB, "memory_per": "node"}, "memory-beyond-nodes", "512 GiB .* 128 GiB"),
        (
            {"memory_asked": 8 * GIB, "memory_per": "cpu", "cpus_asked": 32, "nodes_asked": 1},
            "memory-beyond-nodes",
            "8 GiB per CPU, which is 256 GiB per node; .* 128 GiB",
        ),
        ({"cpus_asked": 64, "tasks_asked": 1}, "cpus-beyond-nodes", "64 CPUs per node; .* 32"),
        ({"cpus_asked": 96, "tasks_asked": 2}, "cpus-beyond-nodes", "48 CPUs per task; .* 32"),
        ({"cpus_asked": 2_000, "tasks_asked": 2_000}, "cpus-beyond-partition", "2,000 CPUs; .* 640"),
        ({"gpus_asked": 2}, "no-gpus", "2 GPUs; no node of partition main has any"),
        (
            {"partition": "gpu", "gpus_asked": 8, "nodes_asked": 1},
            "gpus-beyond-nodes",
            "8 GPUs per node; .* 4",
        ),
        ({"nodes_asked": 21}, "nodes-beyond-partition", "21 nodes; partition main has 20"),
        ({"nodes_asked": 5}, "nodes-beyond-limit", "5 nodes; partition main allows 4"),
        ({"time_limit": 90_000}, "time-beyond-limit", "1-01:00:00; partition main allows 1-00:00:00"),
        ({"time_limit": UNLIMITED}, "time-beyond-limit", "no limit; partition main"),
        ({"partition": "fast"}, "no-such-partition", "fast; small has gpu, long, main, scavenger"),
        ({"partition": "main,fast"}, "no-such-partition", "fast; small has"),
        ({"constraint": "haswell"}, "no-such-feature", "haswell; no node of partition main .* no features"),
    ],
)
def test_what_no_node_can_take(
    machine: tuple[list[Node], list[Partition]], fields: dict[str, Any], rule: str, numbers: str
) -> None:
    by_rule = found(machine, **fields)
    assert by_rule[rule].impossible
    assert re.search(numbers, what(by_rule[rule])), what(by_rule[rule])
    assert all(hasattr(job(), oddity.field) for oddity in by_rule.values() if oddity.field)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"memory_asked": 128 * GIB, "memory_per": "node", "cpus_asked": 32, "nodes_asked": 1},
        {"memory_asked": 4 * GIB, "memory_per": "cpu", "cpus_asked": 32, "nodes_asked": 1},
        {"memory_asked": 0, "memory_per": "node"},  # --mem=0: all that the node has
        {"cpus_asked": 128, "tasks_asked": 128},  # spread over four nodes
        # What Slurm says of that one while it waits, with nodes that nobody asked for.
        {"cpus_asked": 128, "tasks_asked": 128, "nodes_asked": 1, "state": "PENDING"},
        {"nodes_asked": 4, "tasks_asked": 4, "time_limit": 86_400},
        {"partition": "gpu", "gpus_asked": 4, "nodes_asked": 1},
        {"partition": "main,gpu", "gpus_asked": 1},  # one of the two has them
        {"partition": "main,gpu", "memory_asked": 200 * GIB, "memory_per": "node"},
        {"partition": "long", "time_limit": 4 * 86_400, "nodes_asked": 2},
    ],
)
def test_what_fits_is_not_odd(machine: tuple[list[Node], list[Partition]], fields: dict[str, Any]) -> None:
    assert found(machine, **fields) == {}


def test_fewer_tasks_than_nodes_is_odd_and_possible(machine: tuple[list[Node], list[Partition]]) -> None:
    (oddity,) = found(machine, nodes_asked=3, tasks_asked=1).values()
    assert (oddity.rule, oddity.impossible) == ("tasks-cannot-fill-nodes", False)
    assert "3 nodes for 1 task: 2 nodes would be idle" in what(oddity)


GPU_NODES = [
    Node(cluster="small", name="a1", cpus=8, memory=64 * GIB, gpus=2, gres="gpu:a100:2", features="amd,ib"),
    Node(cluster="small", name="v1", cpus=8, memory=256 * GIB, gpus=4, gres="gpu:v100:4", features="intel"),
]


def test_gpu_types_and_features() -> None:
    asks = {"tres_asked": "gres/gpu=1,gres/gpu:h100=1", "gpus_asked": 1}
    (oddity,) = oddities(job(**asks), GPU_NODES, [])
    assert what(oddity) == "requests GPUs of type h100; the cluster has a100, v100"
    assert oddities(job(tres_asked="gres/gpu:v100=1", gpus_asked=1, constraint="intel"), GPU_NODES, []) == ()
    # Each is somewhere, both together nowhere.
    (oddity,) = oddities(job(tres_asked="gres/gpu:a100=1", gpus_asked=1, constraint="intel"), GPU_NODES, [])
    assert (oddity.rule, oddity.impossible) == ("no-node-fits", True)
    (oddity,) = oddities(job(nodes_asked=2, constraint="ib"), GPU_NODES, [])
    assert what(oddity) == "requests 2 nodes of a type of which the cluster has 1"


def test_a_partition_that_is_down_may_come_back() -> None:
    down = Partition(cluster="small", name="main", state="DOWN", is_default=True)
    (oddity,) = oddities(job(), [], [down])
    assert (oddity.rule, oddity.impossible) == ("partition-is-down", False)


def test_nothing_known_is_nothing_odd() -> None:
    wild = job(partition="x", memory_asked=10**15, cpus_asked=10**6, gpus_asked=99, nodes_asked=10**4)
    assert oddities(wild, [], []) == ()


def test_another_cluster_s_nodes_do_not_count(machine: tuple[list[Node], list[Partition]]) -> None:
    other = Job(cluster="other", job_id="1", submit=0, memory_asked=10**15)
    assert oddities(other, *machine) == ()


def test_a_hundred_times_the_usual() -> None:
    usual = UsualRequest(
        50, {"memory_asked": (2 * GIB, 8 * GIB), "time_limit": (3_600, 7_200), "nodes_asked": (1, 1)}
    )
    asks = job(memory_asked=300 * GIB, memory_per="node", time_limit=7_200, nodes_asked=99)
    (oddity,) = oddities(asks, [], [], usual)
    assert (oddity.rule, oddity.field, oddity.impossible) == ("far-beyond-usual", "memory_asked", False)
    assert "150 times" in what(oddity)
    assert "50 jobs (2 GiB); 95% requested at most 8 GiB" in what(oddity)


def test_the_usual_of_one_who_now_and_then_asks_for_much() -> None:
    often = UsualRequest(50, {"nodes_asked": (1, 200)})
    assert oddities(job(nodes_asked=150), [], [], often) == ()
    assert oddities(job(nodes_asked=201), [], [], often) != ()


def test_usual_by_the_store(tmp_path: Path) -> None:
    scenario = load_scenario("small")
    ((seen, _),) = Simulator(scenario, 5, 800)
    with open_store(Config(home=tmp_path)) as store:
        with store.writing() as writer:
            writer.observe("job", seen)
        now = int(seen["submit"].to_numpy().max()) + 1
        busiest = seen["user"].mode()[0]
        past = read_history(store, "small", now, ClusterFacts())
        usual = past.usual(busiest)
        assert usual is not None
        own = seen.filter((pl.col("user") == busiest) & pl.col("outcome").is_not_null())
        assert usual.jobs == own["job_id"].n_unique()
        assert usual.fields["cpus_asked"][0] == own["cpus_asked"].median()
        assert past.usual("nobody") is None


def test_the_machine_by_the_store(machine: tuple[list[Node], list[Partition]], tmp_path: Path) -> None:
    paths = write_machine(load_scenario("small"), tmp_path)
    with open_store(Config(home=tmp_path / "home")) as store:
        with store.writing() as writer:
            for kind, path in zip(("node", "partition"), paths, strict=True):
                for batch in open_source(f"slurmrestd:{path}").batches():
                    writer.observe(kind, batch.frame)
        read = Machine(store, "small", 0)
        nodes, partitions = read.nodes, read.partitions
    assert {node.name for node in nodes} == {node.name for node in machine[0]}
    assert {part.name: part.time_max for part in partitions} == {p.name: p.time_max for p in machine[1]}


def test_every_job_that_ran_was_possible(machine: tuple[list[Node], list[Partition]]) -> None:
    """The simulator's scheduler took them: no rule may call one of them impossible."""
    ((seen, _),) = Simulator(load_scenario("small"), 3, 1_500)
    ran = seen.filter(pl.col("start").is_not_null() & pl.col("outcome").is_not_null())
    wrong = [
        (record.job_id, what(oddity))
        for record in to_records(ran, Job)
        for oddity in oddities(record, *machine)
        if oddity.impossible
    ]
    assert wrong == []


def test_rules_have_names_of_their_own_and_fields_of_a_job() -> None:
    names = [rule.name for rule in (*RULES, *LAST_RULES)]
    assert len(set(names)) == len(names)
    assert {rule.field for rule in (*RULES, *LAST_RULES)} <= set(Job.__dataclass_fields__)


def test_without_a_forest_there_is_no_rank(machine: tuple[list[Node], list[Partition]]) -> None:
    result = oddness(job(gpus_asked=1), *machine)
    assert result.rarer_than is None
    assert [oddity.rule for oddity in result.oddities] == ["no-gpus"]


def test_a_request_with_everything_left_open_is_read() -> None:
    request = NodeRequest.of(job(defaulted="nodes_asked,time_limit", nodes_asked=3))
    assert (request.nodes, request.memory_a_node, request.cpus_a_node) == (None, None, None)
