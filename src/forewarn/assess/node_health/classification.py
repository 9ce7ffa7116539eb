"""All that is known of a cluster's nodes, judged: healthy, suspect or sick."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from forewarn.assess.node_health.job_runs import DAY, EVIDENCE_DAYS, read_runs
from forewarn.assess.node_health.records import Health, NodeEvidence, NodeHealth
from forewarn.assess.node_health.slurm_states import NodeHistory, in_service, nodes_over_time, signs, starts
from forewarn.assess.node_health.suspicion import BELIEVED, Suspicion, suspicions
from forewarn.store.base import Store

SUSPECTED = 0.1  # share of false alarms among those that are only suspect
# Below these a node is suspect at most. One user's jobs may fail for days, and always on one node; and now
# and then the mistakes of two or three meet on one.
FEWEST_FAILURES = {"system": 4, "broke": 5, "lost": 3}
FEWEST_CAMPAIGNS = {"system": 3, "broke": 5, "lost": 1}  # each of one user, name and day
FEWEST_USERS = {"system": 2, "broke": 3, "lost": 1}
TIMES = 2.0  # as many failures as expected, at the least
_WAYS = {
    "system": "failed as with a lost file system, network or memory",
    "broke": "failed (time-outs and out-of-memory apart)",
    "lost": "lost the node",
}


def node_health(store: Store, cluster: str, now: int) -> tuple[NodeHealth, ...]:
    """Every node of a cluster that Slurm has shown or jobs ran on, by name, as known at a moment."""
    seen = nodes_over_time(store.observations("node", {"cluster": cluster}), now)
    return judge(cluster, seen, read_runs(store, cluster, now), now)


def judge(cluster: str, seen: dict[str, NodeHistory], runs: pl.DataFrame, now: int) -> tuple[NodeHealth, ...]:
    """The same from what was read."""
    suspected = suspicions(runs, now, *starts(seen))
    return tuple(
        _judged(cluster, name, seen.get(name), suspected.get(name)) for name in sorted({*seen, *suspected})
    )


def _judged(cluster: str, name: str, seen: NodeHistory | None, suspicion: Suspicion | None) -> NodeHealth:
    evidence = [*(signs(seen) if seen else ()), *(_of_jobs(suspicion) if suspicion else ())]
    health = max((e.health for e in evidence), key=list(Health).index, default=Health.HEALTHY)
    lasting = any(e.until is None for e in evidence)
    return NodeHealth(
        cluster=cluster,
        node=name,
        health=health,
        in_service=in_service(seen.node) if seen else True,
        evidence=tuple(sorted(evidence, key=lambda e: -e.health.exit_code)),
        until=None if lasting else max((e.until for e in evidence if e.until is not None), default=None),
        state=seen.node.state if seen else None,
        reason=seen.node.reason if seen else None,
        partitions=seen.node.partitions if seen else None,
        jobs=suspicion.jobs if suspicion else 0,
        failed=suspicion.failed if suspicion else 0,
        expected=suspicion.expected if suspicion and suspicion.jobs else None,
        q=suspicion.q if suspicion else None,
    )


def _of_jobs(found: Suspicion) -> Sequence[NodeEvidence]:
    enough = found.campaigns > 1 and found.failed >= TIMES * found.expected
    if found.q > SUSPECTED or found.well_again or not enough or found.last_failure is None:
        return ()
    fewest = (limits[found.way] for limits in (FEWEST_FAILURES, FEWEST_CAMPAIGNS, FEWEST_USERS))
    counts = (found.failed, found.campaigns, found.users)
    sick = found.q <= BELIEVED and all(n >= least for n, least in zip(counts, fewest, strict=True))
    users = "one user" if found.users == 1 else f"{found.users} users"
    span = f"{found.span:g} days" if found.span != 1 else "day"
    by = "as on other nodes" if found.way == "lost" else "by how the same work fared elsewhere"
    what = (
        f"{found.failed:,} of {found.jobs:,} jobs {_WAYS[found.way]} in the last {span}, "
        f"{found.expected:.1f} expected {by}; "
        f"of {users} in {found.campaigns} campaigns; q = {found.q:.2g}"
    )
    until = found.last_failure + EVIDENCE_DAYS * DAY
    return (
        NodeEvidence(what=what, health=Health.SICK if sick else Health.SUSPECT, source="jobs", until=until),
    )
