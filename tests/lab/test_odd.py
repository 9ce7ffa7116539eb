"""What our rules call impossible, sbatch refuses or never starts; what they call possible, it runs."""

from __future__ import annotations

import os
import re
from contextlib import closing

import polars as pl
import pytest

from forewarn.assess.oddness import oddities
from forewarn.assess.wording import oddity as what
from forewarn.job.columns import to_records
from forewarn.job.record import Job, Node, Partition
from forewarn.sources.commands import CommandScheduler
from forewarn.sources.commands.runner import Runner
from lab.cluster import Lab
from lab.jobs import wait_until

MIB = 1 << 20
# Reasons of jobs that a partition will not take as it is.
NEVER = re.compile(r" Reason=(?:PartitionNodeLimit|PartitionTimeLimit|PartitionConfig|BadConstraints) ")


@pytest.fixture
def machine(lab: Lab) -> tuple[str, list[Node], list[Partition]]:
    """The lab's nodes and partitions by scontrol."""
    path = f"{lab.state / 'bin'}:{os.environ['PATH']}"
    with closing(CommandScheduler(Runner(environ=os.environ | {"PATH": path}))) as scheduler:
        nodes = pl.concat([batch.frame for batch in scheduler.nodes()])
        partitions = pl.concat([batch.frame for batch in scheduler.partitions()])
        return scheduler.cluster, list(to_records(nodes, Node)), list(to_records(partitions, Partition))


def test_sbatch_and_the_rules_agree(lab: Lab, machine: tuple[str, list[Node], list[Partition]]) -> None:
    cluster, nodes, partitions = machine
    memory = max(node.memory or 0 for node in nodes)
    cpus = max(node.cpus or 0 for node in nodes)
    mib = memory // MIB
    asked: list[tuple[list[str], dict[str, object]]] = [
        ([f"--mem={mib * 4}M"], {"memory_asked": memory * 4, "memory_per": "node"}),
        ([f"--mem={mib // 2}M"], {"memory_asked": memory // 2, "memory_per": "node"}),
        (["-N", "99"], {"nodes_asked": 99, "tasks_asked": 99}),
        (["-N", str(len(nodes))], {"nodes_asked": len(nodes), "tasks_asked": len(nodes)}),
        (["-c", str(cpus * 4)], {"cpus_asked": cpus * 4, "tasks_asked": 1}),
        (["-c", str(cpus)], {"cpus_asked": cpus, "tasks_asked": 1}),
        (["-p", "nowhere"], {"partition": "nowhere"}),
        (["-p", "main,nowhere"], {"partition": "main,nowhere"}),
        (["-p", "main,low"], {"partition": "main,low"}),
        (["-C", "haswell"], {"constraint": "haswell"}),
        (["-p", "short", "-N", "2"], {"partition": "short", "nodes_asked": 2, "tasks_asked": 2}),
    ]
    for options, fields in asked:
        job = Job(cluster=cluster, job_id="0", submit=0, **fields)  # type: ignore[arg-type]
        impossible = [oddity for oddity in oddities(job, nodes, partitions) if oddity.impossible]
        # Held, Slurm would not look for nodes yet.
        sbatch = lab.try_run("bob", "sbatch", "--parsable", *options, "--wrap", "true")
        never = sbatch.returncode != 0 or waits_for_ever(lab, sbatch.stdout.strip().split(";")[0])
        assert bool(impossible) == never, (options, sbatch.stderr, impossible)


def waits_for_ever(lab: Lab, number: str) -> bool:
    """Whether a job that was taken can never start, by Slurm's own reason; it is cancelled then."""

    def shown() -> str:
        return lab.run("root", "scontrol", "-o", "show", "job", number)

    wait_until(
        lambda: "PENDING" not in shown() or NEVER.search(shown()) is not None, 60, "it starts, or never"
    )
    found = NEVER.search(shown()) is not None
    lab.try_run("bob", "scancel", number)
    return found


def test_a_limit_beyond_the_partition_s_waits_for_ever(
    lab: Lab, machine: tuple[str, list[Node], list[Partition]]
) -> None:
    """Slurm takes it, unless EnforcePartLimits is set, and never starts it."""
    cluster, nodes, partitions = machine
    job = Job(cluster=cluster, job_id="0", submit=0, partition="short", time_limit=3600)
    (only_oddity,) = oddities(job, nodes, partitions)
    assert what(only_oddity) == "requests a time limit of 1:00:00; partition short allows 0:10:00"
    sbatch = lab.try_run("bob", "sbatch", "--parsable", "-p", "short", "-t", "60", "--wrap", "true")
    assert sbatch.returncode != 0 or waits_for_ever(lab, sbatch.stdout.strip().split(";")[0])
