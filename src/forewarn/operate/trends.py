"""Failure rates and wasted hours over time, by user, account, partition, profile, cluster or outcome.

Whoever may not see all jobs gets figures of the jobs they see by name, and of others' jobs only figures over
at least five other users (`others_view`). The counts are kept in memory until the store changes.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal, Unpack

import polars as pl

from forewarn.learn.registry.serving import Serving
from forewarn.operate.job_list import check_encodable
from forewarn.operate.long_reads import reading_alone
from forewarn.operate.queries import JobFilters, Query, query_of, timezones
from forewarn.operate.threshold_effect import Interval, share
from forewarn.operate.trend_counts import DAY, TrendQuestion, count_trend, period_of, sums_of
from forewarn.operate.visibility import EVERYTHING, FEWEST_USERS, Visibility
from forewarn.store.base import Store

PERIODS_SHOWN: Mapping[str, int] = {"day": 30, "week": 13, "month": 12}  # by default
_SECONDS: Mapping[str, int] = {"day": DAY, "week": 7 * DAY, "month": 30 * DAY}
OTHERS_EVERY = "week"  # the only period of figures about others: see `others_view`
REMEMBERED = 16  # questions whose counts stay in memory
# Stored assessments have no revision: figures about alerts may be so many seconds old.
OLDEST = 60.0
Whose = Literal["all", "own", "others"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendFigures:
    """The figures of some ended jobs."""

    jobs: int
    judged: int  # that the failure policy counts
    failed: int
    users: int
    node_hours: float
    wasted_node_hours: float  # of failed jobs
    core_hours: float
    wasted_core_hours: float
    assessed: int  # judged jobs with a prediction before their end
    assessed_failed: int
    alerts: int
    right_alerts: int

    @property
    def failure_rate(self) -> tuple[float | None, Interval | None]:
        """The share of judged jobs that failed, with its 95% interval as if jobs were independent."""
        return share(self.failed, self.judged)

    @property
    def precision(self) -> tuple[float | None, Interval | None]:
        """The share of alerts that were right."""
        return share(self.right_alerts, self.alerts)

    @property
    def recall(self) -> tuple[float | None, Interval | None]:
        """The share of the failures with a prediction that had an alert."""
        return share(self.right_alerts, self.assessed_failed)

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        shares = {"failure_rate": self.failure_rate, "precision": self.precision, "recall": self.recall}
        values: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        for name, (value, interval) in shares.items():
            values |= {name: value, f"{name}_interval": interval and list(interval)}
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendRow:
    """The figures of one group in one period."""

    period: str  # 2026-11-18, 2026-W47, 2026-11
    group: str | None  # None: all, or the groups that are too small to be shown apart
    whose: Whose
    figures: TrendFigures

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "period": self.period,
            "group": self.group,
            "whose": self.whose,
            **self.figures.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Figures over time, in order of period, then the most wasted node hours first."""

    by: str | None
    every: str
    policy: str
    first: str
    last: str
    rows: tuple[TrendRow, ...]

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "by": self.by,
            "every": self.every,
            "policy": self.policy,
            "first": self.first,
            "last": self.last,
            "rows": [row.to_json() for row in self.rows],
        }


class Trends:
    """The trends of one store. Any number of threads may ask it at once."""

    def __init__(
        self, store: Store, serving: Serving, policy: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._store, self._serving, self._policy, self._clock = store, serving, policy, clock
        self._lock, self._long_read = Lock(), Lock()
        self._counts: OrderedDict[object, tuple[float, pl.DataFrame]] = OrderedDict()

    def trend(
        self,
        by: str | None = None,
        *,
        every: str = "week",
        visible: Visibility = EVERYTHING,
        **which: Unpack[JobFilters],
    ) -> Trend:
        """Compute figures of the jobs that ended in each period.

        Parameters
        ----------
        by
            user, account, partition, profile, cluster or outcome; None: all jobs together.
        every
            day, week or month, in the time zone of the clusters.
        visible
            The jobs that the caller sees by name. Figures about others are in rows of their own, by week and
            without filters only.
        which
            Filters as in `Site.jobs`. `since` and `until` are of the end here, widened to whole periods; by
            default the last 30 days, 13 weeks or 12 months.
        """
        check_encodable(which)
        at = int(self._clock())
        query = query_of(self._store, **which)
        zone = self._zone(query)
        end = at if query.until is None else query.until
        length = PERIODS_SHOWN.get(every, 1) * _SECONDS.get(every, DAY)
        begin = end - length if query.since is None else query.since
        question = TrendQuestion.of(by, every, begin, end, zone)
        counted = self._counted(query, question)
        rows = _rows(counted.filter(visible.polars()), "all" if visible.sees_all else "own")
        is_filtered = any(value for name, value in which.items() if name not in ("since", "until"))
        if not visible.sees_all and every == OTHERS_EVERY and not is_filtered:
            # The current week is not over: who looked twice would see the job that ended in between.
            over = pl.col("period") < period_of(at, every, zone)
            rows += _rows(others_view(counted.filter(~visible.polars() & over)), "others")
        rows.sort(key=lambda row: (row.period, -row.figures.wasted_node_hours, row.group or "", row.whose))
        return Trend(
            by=by,
            every=every,
            policy=self._policy,
            first=question.first,
            last=question.last,
            rows=tuple(rows),
        )

    def _counted(self, query: Query, question: TrendQuestion) -> pl.DataFrame:
        """Count the jobs, or return what was counted before if the store is the same."""
        names = sorted(self._store.clusters())
        state = tuple(
            (name, self._store.revision(cluster=name), self._store.removals(cluster=name)) for name in names
        )
        what = (question.by, question.every, question.first, question.last)
        key = (*what, tuple(query.clusters), query.where, tuple(query.job_ids or ()), state)
        now = self._clock()
        if (found := self._remembered(key, now)) is not None:
            return found
        with reading_alone(self._long_read):
            if (found := self._remembered(key, now)) is not None:  # counted while this one waited
                return found
            counted = count_trend(self._store, query, question, self._policy, self._serving)
            with self._lock:
                self._counts[key] = now, counted
                while len(self._counts) > REMEMBERED:
                    self._counts.popitem(last=False)
        return counted

    def _remembered(self, key: object, now: float) -> pl.DataFrame | None:
        with self._lock:
            found = self._counts.get(key)
            if found is None or abs(now - found[0]) > OLDEST:
                return None
            self._counts.move_to_end(key)
            return found[1]

    def _zone(self, query: Query) -> str:
        zones = {
            zone
            for name, zone in timezones(self._store).items()
            if not query.clusters or name in query.clusters
        }
        return zones.pop() if len(zones) == 1 else "UTC"


def others_view(counted: pl.DataFrame) -> pl.DataFrame:
    """Reduce the counts of others' jobs to what may be shown: groups of at least five users.

    Smaller groups of a period are put together, under no name, with the next larger ones until these have
    five users, too: otherwise what is missing from the whole would be theirs. If all together have fewer,
    nothing of the period is shown. It holds for one division of time only (whole weeks that are over, no
    filters): what lies between two overlapping periods or selections could be the jobs of one user.
    """
    parts = []
    for (_,), period in counted.partition_by("period", as_dict=True, maintain_order=True).items():
        groups = sums_of(period, ["group"]).sort(pl.col("users").list.len(), "group")
        pooled: list[str | None] = []
        users: set[str] = set()
        for group, names in groups.select("group", "users").iter_rows():
            if len(names) >= FEWEST_USERS and (not pooled or len(users) >= FEWEST_USERS):
                break
            pooled.append(group)
            users |= set(names)
        if pooled and len(users) < FEWEST_USERS:
            continue
        is_pooled = pl.col("group").is_in(pooled, nulls_equal=True)
        parts.append(period.with_columns(pl.when(~is_pooled).then("group").alias("group")))
    return pl.concat(parts) if parts else counted.clear()


def _rows(counted: pl.DataFrame, whose: Whose) -> list[TrendRow]:
    rows = []
    for row in sums_of(counted, ["period", "group"]).iter_rows(named=True):
        period, group, users = row.pop("period"), row.pop("group"), row.pop("users")
        figures = TrendFigures(**row, users=len(users))
        rows.append(TrendRow(period=period, group=group, whose=whose, figures=figures))
    return rows
