"""Classification of a cluster's nodes as healthy, suspect or sick."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from forewarn.assess.node_health import wording
from forewarn.assess.node_health.job_runs import DAY, EVIDENCE_DAYS, read_runs
from forewarn.assess.node_health.records import Health, NodeEvidence, NodeHealth
from forewarn.assess.node_health.slurm_states import (
    NodeHistory,
    in_service,
    node_histories,
    slurm_evidence,
    starts,
)
from forewarn.assess.node_health.suspicion import BELIEVED, Suspicion, suspicions
from forewarn.store.base import Store

SUSPECTED = 0.1  # false discovery rate among suspect nodes
# Below these numbers a node is at most suspect. One user's jobs may fail for days, always on the same node;
# and sometimes the failing jobs of two or three users meet on one.
FEWEST_FAILURES = {"system": 4, "broke": 5, "lost": 3}
FEWEST_CAMPAIGNS = {"system": 3, "broke": 5, "lost": 1}  # jobs of one user, name and day
FEWEST_USERS = {"system": 2, "broke": 3, "lost": 1}
TIMES = 2.0  # least ratio of failures to expected failures


def node_health(store: Store, cluster: str, at: int) -> tuple[NodeHealth, ...]:
    """Classify every node of a cluster that was observed or that jobs ran on, as known at a moment."""
    histories = node_histories(store.observations("node", {"cluster": cluster}), at)
    return classify_nodes(cluster, histories, read_runs(store, cluster, at), at)


def classify_nodes(
    cluster: str, histories: dict[str, NodeHistory], runs: pl.DataFrame, at: int
) -> tuple[NodeHealth, ...]:
    """Classify nodes from their histories and the jobs that ran on them."""
    suspected = suspicions(runs, at, *starts(histories))
    return tuple(
        _classify(cluster, name, histories.get(name), suspected.get(name))
        for name in sorted({*histories, *suspected})
    )


def _classify(
    cluster: str, name: str, history: NodeHistory | None, suspicion: Suspicion | None
) -> NodeHealth:
    evidence = [
        *(slurm_evidence(history) if history else ()),
        *(_job_evidence(suspicion) if suspicion else ()),
    ]
    health = max((e.health for e in evidence), key=list(Health).index, default=Health.HEALTHY)
    lasting = any(e.until is None for e in evidence)
    return NodeHealth(
        cluster=cluster,
        node=name,
        health=health,
        in_service=in_service(history.node) if history else True,
        evidence=tuple(sorted(evidence, key=lambda e: -e.health.exit_code)),
        until=None if lasting else max((e.until for e in evidence if e.until is not None), default=None),
        state=history.node.state if history else None,
        reason=history.node.reason if history else None,
        partitions=history.node.partitions if history else None,
        jobs=suspicion.jobs if suspicion else 0,
        failed=suspicion.failed if suspicion else 0,
        expected=suspicion.expected if suspicion and suspicion.jobs else None,
        q=suspicion.q if suspicion else None,
    )


def _job_evidence(suspicion: Suspicion) -> Sequence[NodeEvidence]:
    enough = suspicion.campaigns > 1 and suspicion.failed >= TIMES * suspicion.expected
    if suspicion.q > SUSPECTED or suspicion.recovered or not enough or suspicion.last_failure is None:
        return ()
    fewest = (limits[suspicion.way] for limits in (FEWEST_FAILURES, FEWEST_CAMPAIGNS, FEWEST_USERS))
    counts = (suspicion.failed, suspicion.campaigns, suspicion.users)
    sick = suspicion.q <= BELIEVED and all(n >= least for n, least in zip(counts, fewest, strict=True))
    what = wording.job_failures(
        suspicion.way,
        failed=suspicion.failed,
        jobs=suspicion.jobs,
        days=suspicion.span,
        expected=suspicion.expected,
        users=suspicion.users,
        campaigns=suspicion.campaigns,
        q=suspicion.q,
    )
    until = suspicion.last_failure + EVIDENCE_DAYS * DAY
    return (
        NodeEvidence(what=what, health=Health.SICK if sick else Health.SUSPECT, source="jobs", until=until),
    )
