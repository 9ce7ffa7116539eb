"""What happened around a job when it ended: to its nodes, to others on them, to the whole cluster.

Of others' jobs only numbers are told.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from forewarn.assess.explanation.amounts import count, duration
from forewarn.assess.post_mortem.report import Evidence
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job
from forewarn.job.units import compress_nodes, expand_nodes
from forewarn.store.base import Store

_DAY = 86_400
LONGEST = 14 * _DAY  # jobs that were submitted longer before are not looked at
NEAR = 600  # seconds around the end within which others' ends on the same node count
BURST, BURST_USERS, BURST_JOBS, BURST_TIMES = 60, 3, 5, 8.0  # seconds; others; failures; times the usual
LATER = 1800  # seconds after an end within which a node's trouble belongs to it
_BAD_STATES = ("DOWN", "FAIL", "NOT_RESPONDING", "POWERED_DOWN", "DRAIN", "ERROR")
_FAILURES = [str(o) for o in (Outcome.FAILED, Outcome.NODE_FAIL, Outcome.BOOT_FAIL, Outcome.OUT_OF_MEMORY)]
_OF_NODES = [str(o) for o in (Outcome.FAILED, Outcome.NODE_FAIL, Outcome.BOOT_FAIL)]


def around(store: Store, job: Job) -> Iterator[Evidence]:
    """What its surroundings say."""
    if job.end is None or job.start is None:
        return
    yield from _node_events(store, job)
    others = _ends_near(store, job)
    if others.height:
        yield from _same_nodes(job, others)
        yield from _burst(job, others)


def _node_events(store: Store, job: Job) -> Iterator[Evidence]:
    """States, reasons and boots of its nodes while it ran and shortly after."""
    assert job.start is not None
    assert job.end is not None
    names = expand_nodes(job.nodes) if job.nodes else []
    if not names:
        return
    seen = store.observations("node", {"cluster": job.cluster}).filter(pl.col("name").is_in(names))
    late = job.end + LATER
    while_it_ran = pl.col("seen_at").is_between(job.start, late)
    told: dict[tuple[str, str], list[str]] = {}
    for row in seen.filter(while_it_ran | pl.col("reason_at").is_between(job.start, late)).iter_rows(
        named=True
    ):
        bad = [word for word in _BAD_STATES if word in (row["state"] or "")]
        reason_at = row["reason_at"] or row["seen_at"]
        if bad and job.start <= reason_at <= late:
            told.setdefault((bad[0], row["reason"] or ""), []).append(row["name"])
    for (state, reason), where in told.items():
        hard = state != "DRAIN"
        yield Evidence(
            source="node",
            what=f"{compress_nodes(set(where))} became {state} while it ran or shortly after"
            + (f": {reason}" if reason else ""),
            family="node_failure" if hard else None,
            worth=0.8 if hard else 0.0,
        )
    boots = seen.filter((pl.col("boot") > job.start) & (pl.col("boot") <= late))
    if boots.height:
        where = sorted(set(boots["name"]))
        yield Evidence(
            source="node",
            what=f"{compress_nodes(where)} booted again while it ran or shortly after",
            family="node_failure",
            worth=0.75,
        )


def _ends_near(store: Store, job: Job) -> pl.DataFrame:
    """Ends of others within a day around its own, with what is needed to compare."""
    assert job.end is not None
    near = pl.col("end").is_between(job.end - _DAY, job.end + NEAR) & pl.col("outcome").is_not_null()
    columns = ["cluster", "job_id", "submit", "user", "nodes", "end", "outcome", "array_job_id"]
    frames = list(
        store.scan(
            cluster=job.cluster, since=job.end - LONGEST, until=job.end + NEAR, columns=columns, where=near
        )
    )
    if not frames:
        return pl.DataFrame(schema=dict.fromkeys(columns))
    itself = (pl.col("job_id") == job.job_id) & (pl.col("submit") == job.submit)
    return pl.concat(frames).filter(~itself)


def _same_nodes(job: Job, others: pl.DataFrame) -> Iterator[Evidence]:
    """How jobs fared that ended on the same nodes at the same time."""
    assert job.end is not None
    mine = set(expand_nodes(job.nodes)) if job.nodes else set()
    near = others.filter(
        pl.col("end").is_between(job.end - NEAR, job.end + NEAR) & pl.col("nodes").is_not_null()
    )
    there = near.filter(
        pl.Series([bool(mine & set(expand_nodes(nodes))) for nodes in near["nodes"]], dtype=pl.Boolean)
    )
    failed = there.filter(pl.col("outcome").is_in(_OF_NODES))
    if not failed.height:
        return
    users = failed.filter(pl.col("user") != job.user)["user"].n_unique() if job.user else 0
    share = failed.height / there.height
    ended = count(there.height, "other job")
    yield Evidence(
        source="node",
        what=f"within {duration(NEAR)} of its end {failed.height} of {ended} on the same nodes failed"
        + (f", of {count(users, 'other user')}" if users else ""),
        family="node_failure" if users >= 2 and share >= 0.6 else None,
        worth=0.45 if users >= 2 and share >= 0.6 else 0.0,
    )


def _burst(job: Job, others: pl.DataFrame) -> Iterator[Evidence]:
    """Whether many users' jobs failed within the same minute: then it was not this job."""
    assert job.end is not None
    failed = others.filter(pl.col("outcome").is_in(_FAILURES))
    if job.user:
        failed = failed.filter(pl.col("user") != job.user)
    now = failed.filter(pl.col("end").is_between(job.end - BURST, job.end + BURST))
    users = now["user"].n_unique()
    usual = failed.height * 2 * BURST / (_DAY + NEAR)
    if users < BURST_USERS or now.height < max(BURST_JOBS, BURST_TIMES * usual):
        return
    many = f"{count(now.height, 'job')} of {count(users, 'other user')}"
    yield Evidence(
        source="cluster",
        what=f"within a minute of its end {many} failed too; usual is {usual:.1f}",
        family="outage",
        worth=0.7,
    )
