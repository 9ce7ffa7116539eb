"""Odd configuration: rules that find what does not fit this cluster or this user.

How rare a request is as a whole is the answer of the isolation forest (`learn/heads/oddness`); the rules find
what a person can check against `sinfo`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from forewarn.assess.assessment import Oddity, Oddness
from forewarn.assess.codes import OddityCode
from forewarn.assess.oddness.beyond_usual import beyond_usual
from forewarn.assess.oddness.partitions import PartitionNodes, named_partitions, places
from forewarn.assess.oddness.request import NodeRequest
from forewarn.assess.oddness.rules import LAST_RULES, RULES, OddnessRule
from forewarn.assess.oddness.usual import UsualRequest
from forewarn.job.record import Job, Node, Partition
from forewarn.learn.data.table import JobTable
from forewarn.learn.heads.oddness import IsolationForest

__all__ = ["NodeRequest", "UsualRequest", "oddities", "oddness", "places"]
UNUSUAL = 0.95  # share of earlier jobs with a lower anomaly score, from which reasons are given


def oddities(
    job: Job, nodes: Sequence[Node], partitions: Sequence[Partition], usual: UsualRequest | None = None
) -> tuple[Oddity, ...]:
    """Find everything odd in a job's request, impossible requests first.

    A job that names several partitions is odd only if it is so in each. Missing knowledge of the cluster (no
    node records, for example) makes nothing odd.
    """
    request, where = NodeRequest.of(job), places(job, nodes, partitions)
    found = [*_unknown_partition(job, partitions), *_broken(RULES, request, where)]
    if not any(oddity.impossible for oddity in found):
        found += _broken(LAST_RULES, request, where)
    if usual:
        found += beyond_usual(request, usual)
    return tuple(sorted(found, key=lambda oddity: not oddity.impossible))


def oddness(
    job: Job,
    nodes: Sequence[Node],
    partitions: Sequence[Partition],
    usual: UsualRequest | None = None,
    *,
    forest: IsolationForest | None = None,
    table: JobTable | None = None,
    row: int = 0,
) -> Oddness:
    """Apply the rules and, where given, the isolation forest, to a job and its row of a table."""
    found = oddities(job, nodes, partitions, usual)
    if forest is None or table is None:
        return Oddness(oddities=found)
    one = table.rows(np.array([row]))
    rare = float(forest.rarer_than(one)[0])
    because = forest.reasons(one, 0) if rare >= UNUSUAL else ()
    return Oddness(oddities=found, rarer_than=rare, because=because)


def _broken(
    rules: Sequence[OddnessRule], request: NodeRequest, where: Sequence[PartitionNodes]
) -> Iterator[Oddity]:
    for rule in rules:
        found = [rule.holds(request, place) for place in where]
        odd = [one for one in found if one is not None]
        if not odd or len(odd) < len(found):
            continue
        first, *others = odd
        yield Oddity(
            rule=rule.name,
            code=OddityCode(first.code),
            values=first.values,
            elsewhere=tuple(other for other in others if other != first),
            impossible=rule.impossible,
            field=rule.field,
        )


def _unknown_partition(job: Job, partitions: Sequence[Partition]) -> Iterator[Oddity]:
    named = named_partitions(job)
    existing = sorted(p.name for p in partitions if p.cluster == job.cluster)
    if not named or not existing:
        return
    missing = [name for name in named if name not in existing]
    if missing:
        yield Oddity(
            rule="no-such-partition",
            code=OddityCode.NO_SUCH_PARTITION,
            values={"partitions": tuple(missing), "cluster": job.cluster, "known": tuple(existing)},
            impossible=True,  # Slurm rejects the job even if another named partition exists
            field="partition",
        )
