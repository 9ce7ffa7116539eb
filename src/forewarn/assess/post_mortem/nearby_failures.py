"""What happened around a job when it ended: to its nodes, to others on them, to the whole cluster.

Of others' jobs only numbers are told.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from forewarn.assess.post_mortem.node_lists import names
from forewarn.assess.post_mortem.report import FailureEvidence
from forewarn.assess.wording.amounts import count, duration
from forewarn.job.outcomes import SYSTEM_EXIT_CODES, SYSTEM_SIGNALS, FailureKind, Outcome, kind_of
from forewarn.job.record import Job
from forewarn.job.units import compress_nodes
from forewarn.store.base import Store
from forewarn.store.filters import Between, Missing

_DAY = 86_400
LONGEST = 14 * _DAY  # jobs that were submitted longer before are not looked at
NEAR = 600  # seconds around the end within which others' ends on the same node count
BURST, BURST_USERS, BURST_TIMES = 60, 4, 8.0  # seconds; other people whose jobs failed; times the usual
SICK, SICK_JOBS, SICK_SHARE = 6 * 3600, 2, 0.5  # seconds; jobs on its nodes; of all that failed so
LATER = 1800  # seconds after an end within which a node's trouble belongs to it
_BAD_STATES = ("DOWN", "FAIL", "NOT_RESPONDING", "POWERED_DOWN", "DRAIN", "ERROR")
# Not what a policy counts: endings that jobs of several people can owe to one thing that broke.
_FAILURES = [str(o) for o in (Outcome.FAILED, Outcome.NODE_FAIL, Outcome.BOOT_FAIL, Outcome.OUT_OF_MEMORY)]
_OF_NODES = [str(o) for o in (Outcome.FAILED, Outcome.NODE_FAIL, Outcome.BOOT_FAIL)]
_BY_SYSTEM = pl.col("outcome").is_in([str(Outcome.NODE_FAIL), str(Outcome.BOOT_FAIL)]) | (
    pl.col("exit_code").is_in(SYSTEM_EXIT_CODES) | pl.col("exit_signal").is_in(SYSTEM_SIGNALS)
).fill_null(False)


_HAD_RUN = (pl.col("end") - pl.col("start") >= 2 * BURST).fill_null(False)


def _is_system(job: Job) -> bool:
    outcome = Outcome(job.outcome or Outcome.UNKNOWN)
    return kind_of(outcome, job.exit_code, job.exit_signal) is FailureKind.SYSTEM


def around(store: Store, job: Job) -> Iterator[FailureEvidence]:
    """What its surroundings say."""
    if job.end is None or job.start is None:
        return
    yield from _node_events(store, job)
    others = _ends_near(store, job)
    if others.height:
        yield from _same_nodes(job, others)
        yield from _sick_nodes(job, others)
        yield from _burst(job, others)


def _node_events(store: Store, job: Job) -> Iterator[FailureEvidence]:
    """States, reasons and boots of its nodes while it ran and shortly after."""
    assert job.start is not None
    assert job.end is not None
    mine = names(job.nodes)
    if not mine:
        return
    seen = store.observations("node", {"cluster": job.cluster}).filter(pl.col("name").is_in(mine))
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
        yield FailureEvidence(
            source="node",
            what=f"{compress_nodes(set(where))} became {state} while it ran or shortly after"
            + (f": {reason}" if reason else ""),
            family="node_failure" if hard else None,
            worth=0.8 if hard else 0.0,
        )
    boots = seen.filter((pl.col("boot") > job.start) & (pl.col("boot") <= late))
    if boots.height:
        where = sorted(set(boots["name"]))
        yield FailureEvidence(
            source="node",
            what=f"{compress_nodes(where)} booted again while it ran or shortly after",
            family="node_failure",
            worth=0.75,
        )


def _ends_near(store: Store, job: Job) -> pl.DataFrame:
    """Ends of others within a day around its own, with what is needed to compare."""
    assert job.end is not None
    last = job.end + SICK
    near = Between("end", job.end - _DAY, last) & ~Missing("outcome")
    columns = ["cluster", "job_id", "submit", "user", "nodes", "start", "end", "outcome"]
    columns += ["exit_code", "exit_signal"]
    frames = list(
        store.scan(cluster=job.cluster, since=job.end - LONGEST, until=last, columns=columns, where=near)
    )
    if not frames:
        return pl.DataFrame(schema=dict.fromkeys(columns))
    itself = (pl.col("job_id") == job.job_id) & (pl.col("submit") == job.submit)
    return pl.concat(frames).filter(~itself)


def _same_nodes(job: Job, others: pl.DataFrame) -> Iterator[FailureEvidence]:
    """How jobs fared that ended on the same nodes at the same time."""
    assert job.end is not None
    mine = set(names(job.nodes))
    near = others.filter(
        pl.col("end").is_between(job.end - NEAR, job.end + NEAR) & pl.col("nodes").is_not_null()
    )
    there = near.filter(
        pl.Series([bool(mine & set(names(nodes))) for nodes in near["nodes"]], dtype=pl.Boolean)
    )
    failed = there.filter(pl.col("outcome").is_in(_OF_NODES) & _HAD_RUN)
    if not failed.height:
        return
    users = failed.filter(pl.col("user") != job.user)["user"].n_unique() if job.user else 0
    share = failed.height / there.height
    ended = count(there.height, "other job")
    yield FailureEvidence(
        source="node",
        what=f"within {duration(NEAR)} of its end {failed.height} of {ended} on the same nodes failed"
        + (f", of {count(users, 'other user')}" if users else ""),
        family="node_failure" if users >= 3 and share >= 0.6 else None,
        worth=0.45 if users >= 3 and share >= 0.6 else 0.0,
    )


def _sick_nodes(job: Job, others: pl.DataFrame) -> Iterator[FailureEvidence]:
    """Whether failures of the system's kind, as this one is, gather on its nodes: then these are sick.

    A file system that is lost fails jobs everywhere.
    """
    assert job.end is not None
    if not _is_system(job) or not job.nodes:
        return
    mine = set(names(job.nodes))
    near = pl.col("end").is_between(job.end - SICK, job.end + SICK) & pl.col("nodes").is_not_null()
    failed = others.filter(near & _BY_SYSTEM)
    here = sum(bool(mine & set(names(nodes))) for nodes in failed["nodes"])
    if here >= SICK_JOBS and here >= SICK_SHARE * failed.height:
        many = count(here, "other job")
        yield FailureEvidence(
            source="node",
            what=f"within {duration(SICK)} of its end {many} on the same nodes failed by the system, "
            f"elsewhere {failed.height - here}",
            family="node_failure",
            worth=0.7,
        )


def _burst(job: Job, others: pl.DataFrame) -> Iterator[FailureEvidence]:
    """Whether many users' jobs failed within the same minute: then it was not this job."""
    assert job.end is not None
    # A job that failed by itself at the time of an outage is no part of it: its exit code is of another kind.
    alike = _BY_SYSTEM if _is_system(job) else ~_BY_SYSTEM
    # Jobs that began together, when nodes became free, also fail together of mistakes of their own. An outage
    # strikes those that had run for a while. And people are counted, not the tasks of their arrays.
    failed = others.filter(pl.col("outcome").is_in(_FAILURES) & alike & _HAD_RUN)
    if job.user:
        failed = failed.filter(pl.col("user") != job.user)
    now = failed.filter(pl.col("end").is_between(job.end - BURST, job.end + BURST))
    users = now["user"].n_unique()
    windows = failed.select("user", pl.col("end") // (2 * BURST)).unique().height
    usual = windows * 2 * BURST / (_DAY + SICK)
    if users < max(BURST_USERS, BURST_TIMES * usual):
        return
    many = f"{count(now.height, 'job')} of {count(users, 'other user')}"
    yield FailureEvidence(
        source="cluster",
        what=f"within a minute of its end {many} failed that had run for a while; usual is {usual:.1f}",
        family="outage",
        worth=0.7,
    )
