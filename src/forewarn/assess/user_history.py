"""Earlier jobs of users: what they used, what they usually request, and in which partitions they ran.

A `UserHistory` is one frame of jobs, sorted by user and by the time at which the outcome became known, with
columns derived at their first use. A short-lived process reads the jobs of one user (`read_history`); a
long-lived one holds those of all users (`operate/engine.py`) and replaces what changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.assess.oddness.usual import FEWEST as FEWEST_USUAL
from forewarn.assess.oddness.usual import UsualRequest
from forewarn.job.columns import JOB_SCHEMA
from forewarn.learn.data.job_details import OUTCOME_COLUMNS, REQUEST_COLUMNS, describe_stored_jobs
from forewarn.learn.heads.usage.history import HISTORY
from forewarn.learn.heads.usage.quantities import QUANTITIES, targets_of
from forewarn.store.base import KNOWN_AT, ClusterFacts, Store
from forewarn.store.filters import OneOf

HISTORY_DAYS = 180  # days of a user's jobs that are read
OLDER_JOBS = 2000  # jobs that are read of a user who submitted nothing in that time
NEVER = 2**62  # `known_at` of a job whose outcome is not known yet
# The columns read of earlier jobs: request, outcome and use, and what Slurm filled in.
COLUMNS = (
    *dict.fromkeys((*REQUEST_COLUMNS, *OUTCOME_COLUMNS)),
    *("group", "account", "work_dir", "script_hash", "array_job_id", "defaulted"),
    KNOWN_AT,
)
Floats = NDArray[np.float64]


class EarlierUsage(NamedTuple):
    """Earlier use of one quantity: the columns of `learn.heads.usage.history.HISTORY`."""

    last_two: float
    median: float
    name_last_two: float
    name_median: float


_NOTHING = EarlierUsage(*[np.nan] * len(HISTORY))


class UserHistory:
    """Earlier jobs of one or many users of a cluster. It never changes."""

    def __init__(self, jobs: pl.DataFrame, facts: ClusterFacts) -> None:
        known_at = pl.col(KNOWN_AT).fill_null(NEVER)
        self.jobs = jobs.filter(pl.col("user").is_not_null()).sort("user", known_at, "submit")
        self.facts = facts
        self._usage: dict[tuple[str, str | None, int, bool], Mapping[str, EarlierUsage]] = {}
        self.decisions: dict[
            tuple[str, int], Any
        ] = {}  # cache of `similar.py`: decisions of a user's known jobs

    @cached_property
    def _slices(self) -> dict[str, slice]:
        """The rows of each user's jobs."""
        lengths = self.jobs.group_by("user", maintain_order=True).len()
        ends = np.cumsum(lengths["len"].to_numpy())
        starts = ends - lengths["len"].to_numpy()
        return {
            user: slice(int(start), int(end))
            for user, start, end in zip(lengths["user"], starts, ends, strict=True)
        }

    @cached_property
    def known_at(self) -> NDArray[np.int64]:
        """When each outcome became known; `NEVER` where it is not known."""
        return self.jobs[KNOWN_AT].fill_null(NEVER).to_numpy()

    @property
    def users(self) -> Iterable[str]:
        """The users with jobs in this history."""
        return self._slices.keys()

    def rows_of(self, user: str | None) -> slice:
        """Return the rows of a user's jobs; an empty slice for an unknown user."""
        return self._slices.get(user or "", slice(0, 0))

    def of(self, user: str | None) -> pl.DataFrame:
        """Return a user's jobs."""
        rows = self.rows_of(user)
        return self.jobs.slice(rows.start, rows.stop - rows.start)

    def known(self, user: str | None, at: int) -> slice:
        """Return the rows of a user's jobs whose outcome was known before a moment."""
        rows = self.rows_of(user)
        return slice(rows.start, rows.start + int(np.searchsorted(self.known_at[rows], at)))

    @cached_property
    def _about(self) -> pl.DataFrame:
        return describe_stored_jobs(self.jobs, self.facts)

    @cached_property
    def _labels(self) -> NDArray[np.object_]:
        return self._about["label"].to_numpy()

    @cached_property
    def _values(self) -> dict[bool, dict[str, Floats]]:
        """The use of each quantity by each job, by whether the cluster enforces time limits."""
        missing = np.full(self._about.height, np.nan)
        return {
            enforced: {
                name: target.value for name, target in targets_of(self._about, missing, enforced).items()
            }
            for enforced in (False, True)
        }

    def usage(
        self, user: str | None, label: str | None, at: int, limits_kept: bool
    ) -> Mapping[str, EarlierUsage]:
        """Return the use of each quantity by a user's earlier jobs, and by those of this name among them.

        `limits_kept` tells whether the cluster enforces time limits.
        """
        rows = self.known(user, at)
        if rows.start == rows.stop:
            return dict.fromkeys(QUANTITIES, _NOTHING)
        key = user or "", label, rows.stop, limits_kept
        if key not in self._usage:
            same = np.zeros(rows.stop - rows.start, bool) if label is None else self._labels[rows] == label
            if label is not None and not same.any():  # the cache must not grow with unknown names
                return self.usage(user, None, at, limits_kept)
            self._usage[key] = {
                name: EarlierUsage(*_middle(values[rows]), *_middle(values[rows][same]))
                for name, values in self._values[limits_kept].items()
            }
        return self._usage[key]

    @cached_property
    def _usual(self) -> dict[str, UsualRequest | None]:
        return {}

    def usual(self, user: str | None) -> UsualRequest | None:
        """Return what a user usually requests; None for a user with too few jobs."""
        if user is None:
            return None
        if user not in self._usual and user in self._slices:
            jobs = self.of(user)
            self._usual[user] = UsualRequest.of(jobs) if jobs.height >= FEWEST_USUAL else None
        return self._usual.get(user)

    def partitions(self, user: str | None) -> frozenset[str]:
        """Return the partitions in which the user has run jobs; which others they may use is not recorded."""
        jobs = self.of(user)
        return frozenset(
            name for name in jobs.filter(pl.col("start").is_not_null())["partition"].unique() if name
        )


class UserHistories(Protocol):
    """A source of users' earlier jobs."""

    def prepare(self, users: Collection[str | None]) -> None:
        """Announce the users whose history will be needed, so that it is read at once."""

    def history_of(self, user: str | None) -> UserHistory:
        """Return a history that contains this user's jobs, if there are any."""


class StoredUserHistories:
    """Users' earlier jobs, read from a store on demand: for a short-lived process."""

    def __init__(self, store: Store, cluster: str, at: int, facts: ClusterFacts) -> None:
        self._store, self._cluster, self._at, self._facts = store, cluster, at, facts
        self._histories: dict[str, UserHistory] = {}
        self._empty = UserHistory(pl.DataFrame(schema=history_schema()), facts)

    def prepare(self, users: Collection[str | None]) -> None:
        """Read the jobs of those users that were not read yet, in one scan."""
        missing = sorted({user for user in users if user is not None and user not in self._histories})
        if missing:
            history = read_history(self._store, self._cluster, self._at, self._facts, missing)
            self._histories.update(dict.fromkeys(missing, history))

    def history_of(self, user: str | None) -> UserHistory:
        """Return a history that contains this user's jobs, if there are any."""
        if user is None:
            return self._empty
        self.prepare([user])
        return self._histories[user]


def read_history(
    store: Store, cluster: str, at: int, facts: ClusterFacts, users: Sequence[str] | None = None
) -> UserHistory:
    """Read the jobs of some or all users, submitted in the half year before a moment.

    For users without a job in that time, read their newest earlier ones.
    """
    since = at - HISTORY_DAYS * 86400
    of_users = None if users is None else OneOf("user", tuple(users))
    frames = [pl.DataFrame(schema=history_schema())]
    frames += store.scan(cluster=cluster, since=since, until=at + 1, columns=COLUMNS, where=of_users)
    recent = {user for frame in frames for user in frame["user"].unique()}
    earlier = set(users) if users is not None else _users_before(store, cluster, since)
    if missing := earlier - recent:
        where = OneOf("user", tuple(sorted(missing)))
        older = pl.concat(
            [frames[0], *store.scan(cluster=cluster, until=since, columns=COLUMNS, where=where)]
        )
        frames.append(older.group_by("user", maintain_order=True).tail(OLDER_JOBS).select(older.columns))
    return UserHistory(pl.concat(frames), facts)


def _users_before(store: Store, cluster: str, at: int) -> set[str]:
    frames = store.scan(cluster=cluster, until=at, columns=["user"])
    return {user for frame in frames for user in frame["user"].unique() if user is not None}


def history_schema() -> dict[str, pl.DataType]:
    """Return the columns of a history's jobs."""
    return {name: JOB_SCHEMA.get(name, pl.Int64()) for name in COLUMNS}


def _middle(values: Floats) -> tuple[float, float]:
    """Return the mean of the last two finite values, and the median of all."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.nan, np.nan
    return float(finite[-2:].mean()), float(np.median(finite))


def earlier_usage(
    histories: UserHistories,
    about: pl.DataFrame,
    quantities: Sequence[str],
    at: int,
    limits_kept: bool,
) -> dict[str, dict[str, Floats]]:
    """Return the use by the same users' earlier jobs for rows of `JobTable.about`, for a usage forecast."""
    usages = [
        histories.history_of(user).usage(user, label, at, limits_kept)
        for user, label in zip(about["user"].to_list(), about["label"].to_list(), strict=True)
    ]
    return {
        name: dict(
            zip(HISTORY, np.array([usage[name] for usage in usages]).reshape(-1, len(HISTORY)).T, strict=True)
        )
        for name in quantities
    }
