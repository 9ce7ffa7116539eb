"""Odd configuration: what does not fit this cluster, or this user, by rules with reasons.

How rare a request is as a whole is told by the isolation forest (`learn/oddness`); this is what a person
can check against `sinfo`.
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
UNUSUAL = 0.95  # rarer than so many of the earlier jobs, from which the reasons are worth telling


def oddities(
    job: Job, nodes: Sequence[Node], partitions: Sequence[Partition], usual: UsualRequest | None = None
) -> tuple[Oddity, ...]:
    """All that is odd about a job's request, what is impossible first.

    Of several partitions that a job names, it is odd only if it is so in each. What is not known of the
    cluster (no records of nodes, say) makes nothing odd.
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
    """The rules and the forest together; the forest looks at one row of a table, where there are both."""
    found = oddities(job, nodes, partitions, usual)
    if forest is None or table is None:
        return Oddness(oddities=found)
    one = table.rows(np.array([row]))
    rare = float(forest.rarer_than(one)[0])
    because = forest.because(one, 0) if rare >= UNUSUAL else ()
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
    known = sorted(p.name for p in partitions if p.cluster == job.cluster)
    if not named or not known:
        return
    missing = [name for name in named if name not in known]
    if missing:
        yield Oddity(
            rule="no-such-partition",
            code=OddityCode.NO_SUCH_PARTITION,
            values={"partitions": tuple(missing), "cluster": job.cluster, "known": tuple(known)},
            impossible=True,  # even beside one that there is, Slurm takes none
            field="partition",
        )
