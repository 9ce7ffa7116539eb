"""Evidence around the end of a job: events of its nodes, other jobs on them, failures of the cluster.

Other users' jobs appear as numbers only; to one who does not see their jobs, only where they are of at least
five users.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from forewarn.assess.post_mortem import wording
from forewarn.assess.post_mortem.node_lists import names
from forewarn.assess.post_mortem.report import FailureEvidence
from forewarn.job.outcomes import SYSTEM_EXIT_CODES, SYSTEM_SIGNALS, FailureKind, Outcome, failure_kind
from forewarn.job.record import Job
from forewarn.job.units import compress_nodes
from forewarn.store.base import Store
from forewarn.store.filters import Between, Missing

_DAY = 86_400
LONGEST = 14 * _DAY  # seconds before its end; jobs submitted earlier are not read
NEAR = 600  # seconds around the end within which others' ends on the same node count
BURST, BURST_USERS, BURST_TIMES = (
    60,
    4,
    8.0,
)  # seconds; other users whose jobs failed; times the typical number
SICK, SICK_JOBS, SICK_SHARE = 6 * 3600, 2, 0.5  # seconds; jobs on its nodes; share of all such failures
FEWEST_USERS = 5  # others over whom numbers are shown to one who does not see their jobs
LATER = 1800  # seconds after the end within which an event of a node counts
_BAD_STATES = ("DOWN", "FAIL", "NOT_RESPONDING", "POWERED_DOWN", "DRAIN", "ERROR")
# Not those of a failure policy: outcomes that one broken part can cause for jobs of several users.
_FAILURES = [str(o) for o in (Outcome.FAILED, Outcome.NODE_FAIL, Outcome.BOOT_FAIL, Outcome.OUT_OF_MEMORY)]
_OF_NODES = [str(o) for o in (Outcome.FAILED, Outcome.NODE_FAIL, Outcome.BOOT_FAIL)]
_BY_SYSTEM = pl.col("outcome").is_in([str(Outcome.NODE_FAIL), str(Outcome.BOOT_FAIL)]) | (
    pl.col("exit_code").is_in(SYSTEM_EXIT_CODES) | pl.col("exit_signal").is_in(SYSTEM_SIGNALS)
).fill_null(False)


_HAD_RUN = (pl.col("end") - pl.col("start") >= 2 * BURST).fill_null(False)


def _is_system(job: Job) -> bool:
    outcome = Outcome(job.outcome or Outcome.UNKNOWN)
    return failure_kind(outcome, job.exit_code, job.exit_signal) is FailureKind.SYSTEM


def around(store: Store, job: Job, *, sees_all: bool = True) -> Iterator[FailureEvidence]:
    """Yield the evidence around the end of a job; `sees_all` is whether the reader may see others' jobs."""
    if job.end is None or job.start is None:
        return
    yield from _node_events(store, job)
    others = _ends_near(store, job)
    if others.height:
        yield from _same_nodes(job, others, sees_all)
        yield from _sick_nodes(job, others, sees_all)
        yield from _burst(job, others, sees_all)


def _node_events(store: Store, job: Job) -> Iterator[FailureEvidence]:
    """Yield states, reasons and reboots of its nodes during the run and shortly after."""
    assert job.start is not None
    assert job.end is not None
    its_nodes = names(job.nodes)
    if not its_nodes:
        return
    observed = store.observations("node", {"cluster": job.cluster}).filter(pl.col("name").is_in(its_nodes))
    late = job.end + LATER
    during_run = pl.col("seen_at").is_between(job.start, late)
    nodes_of: dict[tuple[str, str], list[str]] = {}
    for row in observed.filter(during_run | pl.col("reason_at").is_between(job.start, late)).iter_rows(
        named=True
    ):
        bad = [word for word in _BAD_STATES if word in (row["state"] or "")]
        reason_at = row["reason_at"] or row["seen_at"]
        if bad and job.start <= reason_at <= late:
            nodes_of.setdefault((bad[0], row["reason"] or ""), []).append(row["name"])
    for (state, reason), nodes in nodes_of.items():
        hard = state != "DRAIN"
        yield FailureEvidence(
            source="node",
            what=wording.node_became(compress_nodes(set(nodes)), state, reason),
            family="node_failure" if hard else None,
            worth=0.8 if hard else 0.0,
        )
    boots = observed.filter((pl.col("boot") > job.start) & (pl.col("boot") <= late))
    if boots.height:
        yield FailureEvidence(
            source="node",
            what=wording.node_rebooted(compress_nodes(sorted(set(boots["name"])))),
            family="node_failure",
            worth=0.75,
        )


def _ends_near(store: Store, job: Job) -> pl.DataFrame:
    """Read the jobs that ended within a day around its end."""
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


def _are_countable(job: Job, *parts: pl.DataFrame) -> bool:
    """Check that each number of jobs is of the user's own alone, or of at least five other users."""
    users = (part.filter(pl.col("user").ne_missing(job.user))["user"].n_unique() for part in parts)
    return all(number == 0 or number >= FEWEST_USERS for number in users)


def _same_nodes(job: Job, others: pl.DataFrame, sees_all: bool) -> Iterator[FailureEvidence]:
    """Yield the outcomes of other jobs that ended on the same nodes at the same time."""
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
    what = wording.failures_on_its_nodes(NEAR, failed.height, there.height, users)
    if not sees_all and not _are_countable(job, failed, there):
        what = wording.some_failures_on_its_nodes(NEAR)
    yield FailureEvidence(
        source="node",
        what=what,
        family="node_failure" if users >= 3 and share >= 0.6 else None,
        worth=0.45 if users >= 3 and share >= 0.6 else 0.0,
    )


def _sick_nodes(job: Job, others: pl.DataFrame, sees_all: bool) -> Iterator[FailureEvidence]:
    """Yield evidence for sick nodes, if system failures such as this one concentrate on its nodes.

    A file system that is lost fails jobs everywhere.
    """
    assert job.end is not None
    if not _is_system(job) or not job.nodes:
        return
    mine = set(names(job.nodes))
    near = pl.col("end").is_between(job.end - SICK, job.end + SICK) & pl.col("nodes").is_not_null()
    failed = others.filter(near & _BY_SYSTEM)
    is_here = pl.Series([bool(mine & set(names(nodes))) for nodes in failed["nodes"]], dtype=pl.Boolean)
    here = int(is_here.sum())
    if here >= SICK_JOBS and here >= SICK_SHARE * failed.height:
        what = wording.system_failures_on_its_nodes(SICK, here, failed.height - here)
        if not sees_all and not _are_countable(job, failed.filter(is_here), failed.filter(~is_here)):
            what = wording.some_system_failures_on_its_nodes(SICK)
        yield FailureEvidence(
            source="node",
            what=what,
            family="node_failure",
            worth=0.7,
        )


def _burst(job: Job, others: pl.DataFrame, sees_all: bool) -> Iterator[FailureEvidence]:
    """Yield evidence for an outage, if jobs of many users failed within the same minute."""
    assert job.end is not None
    # A job that failed by itself during an outage is not part of it: its exit code is not the system's.
    same_kind = _BY_SYSTEM if _is_system(job) else ~_BY_SYSTEM
    # Jobs that started together, when nodes became free, also fail together by their own errors. An outage
    # also hits those that had run for a while. Users are counted, not the tasks of their arrays.
    failed = others.filter(pl.col("outcome").is_in(_FAILURES) & same_kind & _HAD_RUN)
    if job.user:
        failed = failed.filter(pl.col("user") != job.user)
    same_minute = failed.filter(pl.col("end").is_between(job.end - BURST, job.end + BURST))
    users = same_minute["user"].n_unique()
    windows = failed.select("user", pl.col("end") // (2 * BURST)).unique().height
    typical = windows * 2 * BURST / (_DAY + SICK)
    if users < max(BURST_USERS, BURST_TIMES * typical):
        return
    what = wording.burst(same_minute.height, users, typical)
    if not sees_all and not _are_countable(job, same_minute):
        what = wording.SOME_BURST
    yield FailureEvidence(
        source="cluster",
        what=what,
        family="outage",
        worth=0.7,
    )
