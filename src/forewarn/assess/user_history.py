"""What users' earlier jobs tell of their next one: what they used, what they usually request, where they ran.

One frame of jobs, sorted by user and by when their ending became known, and columns made of it when they are
first needed. A short-lived process reads the jobs of one user (`read_past`); a long-lived one holds those of
all users (`operate/engine.py`) and replaces what changed.
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
from forewarn.learn.data.table import ASKED, BECAME, described
from forewarn.learn.heads.usage.history import HISTORY
from forewarn.learn.heads.usage.quantities import QUANTITIES, targets_of
from forewarn.store.base import KNOWN_AT, ClusterFacts, Store
from forewarn.store.filters import OneOf

PAST_DAYS = 180  # within which a user's jobs tell of the next one
OLDER_JOBS = 2000  # of a user who submitted nothing in that time
NEVER = 2**62  # when an ending becomes known of which nothing is known yet
# All that is asked of earlier jobs: what they asked for, what became of them, and what Slurm filled in.
COLUMNS = (
    *dict.fromkeys((*ASKED, *BECAME)),
    *("group", "account", "work_dir", "script_hash", "array_job_id", "defaulted"),
    KNOWN_AT,
)
Floats = NDArray[np.float64]


class EarlierUsage(NamedTuple):
    """What the user's earlier jobs used of one quantity: the columns of `learn.heads.usage.history.HISTORY`."""

    last_two: float
    median: float
    name_last_two: float
    name_median: float


_NOTHING = EarlierUsage(*[np.nan] * len(HISTORY))


class UserHistory:
    """Earlier jobs of one or many users of a cluster; nothing of it changes."""

    def __init__(self, jobs: pl.DataFrame, facts: ClusterFacts) -> None:
        known = pl.col(KNOWN_AT).fill_null(NEVER)
        self.jobs = jobs.filter(pl.col("user").is_not_null()).sort("user", known, "submit")
        self.facts = facts
        self._used: dict[tuple[str, str | None, int, bool], Mapping[str, EarlierUsage]] = {}
        self.decisions: dict[tuple[str, int], Any] = {}  # what `similar.py` has made of a user's known jobs

    @cached_property
    def _slices(self) -> dict[str, slice]:
        """Where each user's jobs lie."""
        lengths = self.jobs.group_by("user", maintain_order=True).len()
        ends = np.cumsum(lengths["len"].to_numpy())
        starts = ends - lengths["len"].to_numpy()
        return {
            user: slice(int(start), int(end))
            for user, start, end in zip(lengths["user"], starts, ends, strict=True)
        }

    @cached_property
    def known_at(self) -> NDArray[np.int64]:
        """When each ending became known; `NEVER` where there is none."""
        return self.jobs[KNOWN_AT].fill_null(NEVER).to_numpy()

    @property
    def users(self) -> Iterable[str]:
        """Of whom there are jobs."""
        return self._slices.keys()

    def rows_of(self, user: str | None) -> slice:
        """Where a user's jobs lie; nowhere, of an unknown one."""
        return self._slices.get(user or "", slice(0, 0))

    def of(self, user: str | None) -> pl.DataFrame:
        """A user's jobs."""
        rows = self.rows_of(user)
        return self.jobs.slice(rows.start, rows.stop - rows.start)

    def known(self, user: str | None, at: int) -> slice:
        """Where those of them lie whose ending was known before a moment."""
        rows = self.rows_of(user)
        return slice(rows.start, rows.start + int(np.searchsorted(self.known_at[rows], at)))

    @cached_property
    def _about(self) -> pl.DataFrame:
        return described(self.jobs, self.facts)

    @cached_property
    def _labels(self) -> NDArray[np.object_]:
        return self._about["label"].to_numpy()

    @cached_property
    def _values(self) -> dict[bool, dict[str, Floats]]:
        """What each job used of each quantity, by whether jobs are stopped at their limit."""
        nothing = np.full(self._about.height, np.nan)
        return {
            kept: {name: target.value for name, target in targets_of(self._about, nothing, kept).items()}
            for kept in (False, True)
        }

    def used(
        self, user: str | None, label: str | None, at: int, limits_kept: bool
    ) -> Mapping[str, EarlierUsage]:
        """What a user's earlier jobs, and those of this name among them, used of each quantity."""
        rows = self.known(user, at)
        if rows.start == rows.stop:
            return dict.fromkeys(QUANTITIES, _NOTHING)
        key = user or "", label, rows.stop, limits_kept
        if key not in self._used:
            same = np.zeros(rows.stop - rows.start, bool) if label is None else self._labels[rows] == label
            if label is not None and not same.any():  # what is kept must not grow with names that are asked
                return self.used(user, None, at, limits_kept)
            self._used[key] = {
                name: EarlierUsage(*_middle(values[rows]), *_middle(values[rows][same]))
                for name, values in self._values[limits_kept].items()
            }
        return self._used[key]

    @cached_property
    def _usual(self) -> dict[str, UsualRequest | None]:
        return {}

    def usual(self, user: str | None) -> UsualRequest | None:
        """What a user usually requests; None where they are new."""
        if user is None:
            return None
        if user not in self._usual and user in self._slices:
            jobs = self.of(user)
            self._usual[user] = UsualRequest.of(jobs) if jobs.height >= FEWEST_USUAL else None
        return self._usual.get(user)

    def partitions(self, user: str | None) -> frozenset[str]:
        """Where the user has run jobs before: what else is open to them nobody here knows."""
        jobs = self.of(user)
        return frozenset(
            name for name in jobs.filter(pl.col("start").is_not_null())["partition"].unique() if name
        )


class UserHistories(Protocol):
    """Who knows users' earlier jobs."""

    def prepare(self, users: Collection[str | None]) -> None:
        """Say of whom something will be asked, so that it is read at once."""

    def past_of(self, user: str | None) -> UserHistory:
        """A past that holds this user's jobs, if there are any."""


class StoredUserHistories:
    """Users' earlier jobs read from a store when they are asked for: for a short-lived process."""

    def __init__(self, store: Store, cluster: str, at: int, facts: ClusterFacts) -> None:
        self._store, self._cluster, self._at, self._facts = store, cluster, at, facts
        self._pasts: dict[str, UserHistory] = {}
        self._nobody = UserHistory(pl.DataFrame(schema=past_schema()), facts)

    def prepare(self, users: Collection[str | None]) -> None:
        """Read the jobs of all of these that were not read yet, in one scan."""
        missing = sorted({user for user in users if user is not None and user not in self._pasts})
        if missing:
            past = read_past(self._store, self._cluster, self._at, self._facts, missing)
            self._pasts.update(dict.fromkeys(missing, past))

    def past_of(self, user: str | None) -> UserHistory:
        """A past that holds this user's jobs, if there are any."""
        if user is None:
            return self._nobody
        self.prepare([user])
        return self._pasts[user]


def read_past(
    store: Store, cluster: str, at: int, facts: ClusterFacts, users: Sequence[str] | None = None
) -> UserHistory:
    """Read the jobs of some users, or of all, that were submitted in the last half year before a moment.

    Of who submitted none in that time, the newest before it.
    """
    since = at - PAST_DAYS * 86400
    wanted = None if users is None else OneOf("user", tuple(users))
    frames = [pl.DataFrame(schema=past_schema())]
    frames += store.scan(cluster=cluster, since=since, until=at + 1, columns=COLUMNS, where=wanted)
    recent = {user for frame in frames for user in frame["user"].unique()}
    earlier = set(users) if users is not None else _users_before(store, cluster, since)
    if missing := earlier - recent:
        where = OneOf("user", tuple(sorted(missing)))
        older = pl.concat(
            [frames[0], *store.scan(cluster=cluster, until=since, columns=COLUMNS, where=where)]
        )
        frames.append(older.group_by("user", maintain_order=True).tail(OLDER_JOBS).select(older.columns))
    return UserHistory(pl.concat(frames), facts)


def _users_before(store: Store, cluster: str, moment: int) -> set[str]:
    frames = store.scan(cluster=cluster, until=moment, columns=["user"])
    return {user for frame in frames for user in frame["user"].unique() if user is not None}


def past_schema() -> dict[str, pl.DataType]:
    """The columns of a past's jobs."""
    return {name: JOB_SCHEMA.get(name, pl.Int64()) for name in COLUMNS}


def _middle(values: Floats) -> tuple[float, float]:
    """The mean of the last two that are known, and the median."""
    there = values[np.isfinite(values)]
    if not len(there):
        return np.nan, np.nan
    return float(there[-2:].mean()), float(np.median(there))


def earlier_used(
    pasts: UserHistories,
    about: pl.DataFrame,
    quantities: Sequence[str],
    at: int,
    limits_kept: bool,
) -> dict[str, dict[str, Floats]]:
    """What the same users' earlier jobs used, for rows of `Table.about`, as `Usage.foresee` takes it."""
    found = [
        pasts.past_of(user).used(user, label, at, limits_kept)
        for user, label in zip(about["user"].to_list(), about["label"].to_list(), strict=True)
    ]
    return {
        name: dict(
            zip(HISTORY, np.array([used[name] for used in found]).reshape(-1, len(HISTORY)).T, strict=True)
        )
        for name in quantities
    }
