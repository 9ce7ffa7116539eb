"""Experience with retries: how often resubmissions in a history completed, by cause, change and attempt.

The chance of a retry is a rate that narrows down from general to particular: typical clusters, this cluster,
this attempt, this user, this request. Each level is pulled towards the one before it by `STRENGTH` cases, so
a few cases move it a little and many decide it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

import polars as pl

from forewarn.assess.retry.resubmissions import RequestChange, completed_column, empty_jobs, resubmissions
from forewarn.assess.retry.verdict import RetryCause

STRENGTH = 5.0  # cases
FEWEST_USERS = 5  # whose jobs may be counted together: rates over fewer would tell of single people
LAST_ATTEMPT = 4  # attempts from here on are counted together
FEWEST_RATIOS = 20  # resubmissions that a factor is taken from
_SUFFICES = 0.9  # share of them that it would have been enough for

# Rates where a cluster has no cases of its own: second attempts in the simulator's default scenario, or in
# CTC-SP2 and Graham where they are lower, rounded. They were counted once; no bench prints them.
_TYPICAL: Mapping[tuple[RetryCause, RequestChange], float] = MappingProxyType(
    {
        (RetryCause.MEMORY, RequestChange.NONE): 0.08,
        (RetryCause.MEMORY, RequestChange.MEMORY): 0.8,
        (RetryCause.TIME, RequestChange.NONE): 0.17,
        (RetryCause.TIME, RequestChange.TIME): 0.6,
        (RetryCause.NODE, RequestChange.NONE): 0.6,
        (RetryCause.PASSING, RequestChange.NONE): 0.75,
        (RetryCause.PREEMPTED, RequestChange.NONE): 0.6,
        (RetryCause.AT_ONCE, RequestChange.NONE): 0.2,
        (RetryCause.PROGRAM, RequestChange.NONE): 0.4,
    }
)

# Resubmissions of a program that failed within a minute complete mostly because it was corrected, which a
# record without the script does not show. On the simulator's truth (seed 21 of docs/measurements.md), chances
# below one half came to an eighth of what was stated.
UNCHANGED = 0.125


@dataclass(frozen=True, slots=True)
class Tries:
    """A number of resubmissions, and how many of them completed; all of one failed job count as one."""

    tried: float = 0.0
    completed: float = 0.0
    users: int = 0

    def without(self, part: Tries) -> Tries:
        """Leave out some of them."""
        return Tries(self.tried - part.tried, self.completed - part.completed, self.users)

    def towards(self, general: float) -> float:
        """Return the rate, pulled towards a more general one."""
        return (self.completed + STRENGTH * general) / (self.tried + STRENGTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryChance:
    """The probability that a retry completes, and the cases that it rests on."""

    probability: float  # of those who resubmitted, and may have corrected something
    unchanged: float  # of the same script again
    cluster: Tries  # of all users, where they are enough; at this attempt
    user: Tries  # the user's own, with the same cause and change
    request: Tries  # of the same request


class RetryExperience:
    """What became of the resubmissions in one cluster's history."""

    def __init__(self, found: pl.DataFrame) -> None:
        """Keep the resubmissions of a history: a frame of `resubmissions`."""
        self.jobs = found
        self._retried = (
            found.filter(pl.col("before_cause").is_not_null())
            .with_columns(completed=completed_column(), attempt=pl.col("attempt").clip(2, LAST_ATTEMPT))
            .filter(pl.col("completed").is_not_null())
        )
        # What a change of the script, or another input, did for a program that failed is no retry's merit.
        program = pl.col("before_cause").is_in([str(RetryCause.AT_ONCE), str(RetryCause.PROGRAM)])
        self._counted = self._retried.filter(~program | pl.col("alike"))
        self._same_scripts = _share_of_same_scripts(self._counted)
        cells = self._counted.group_by("before_cause", "change", "attempt").agg(
            tried=pl.col("weight").sum(),
            completed=pl.col("weight").filter("completed").sum(),
            users=pl.col("user").unique(),
        )
        self._cells = {
            (row["before_cause"], row["change"], row["attempt"]): row for row in cells.iter_rows(named=True)
        }

    @classmethod
    def of(cls, jobs: pl.DataFrame) -> Self:
        """Find the resubmissions among the jobs of a cluster."""
        return cls(resubmissions(jobs))

    @classmethod
    def none(cls) -> Self:
        """Return the experience of a cluster without history."""
        return cls.of(empty_jobs())

    def chance(
        self,
        cause: RetryCause,
        change: RequestChange,
        attempt: int,
        *,
        user: str | None = None,
        request: int | None = None,
    ) -> RetryChance:
        """Estimate the chance that an attempt completes; `attempt` is its number, 2 for the first retry."""
        typical = _TYPICAL.get((cause, change), 0.1)
        at_attempt = min(max(attempt, 2), LAST_ATTEMPT)
        rows = [self._cells.get((cause, change, one)) for one in range(2, LAST_ATTEMPT + 1)]
        known = [row for row in rows if row is not None]
        users = {name for row in known for name in row["users"]}
        everywhere = Tries(sum(r["tried"] for r in known), sum(r["completed"] for r in known), len(users))
        here = Tries()
        row = self._cells.get((cause, change, at_attempt))
        own, same = self._own(cause, change, at_attempt, user, request)
        rate = typical
        if everywhere.users >= FEWEST_USERS:
            rate = everywhere.towards(typical)
        if row is not None and len(row["users"]) >= FEWEST_USERS:
            here = Tries(row["tried"], row["completed"], len(row["users"]))
            rate = here.without(own).towards(rate)
        rate = same.towards(own.without(same).towards(rate))  # no case counts twice
        unchanged = rate * (self._same_scripts + (1 - self._same_scripts) * UNCHANGED)
        return RetryChance(
            probability=rate,
            unchanged=unchanged if cause is RetryCause.AT_ONCE else rate,
            cluster=here,
            user=own,
            request=same,
        )

    def _own(
        self, cause: RetryCause, change: RequestChange, attempt: int, user: str | None, request: int | None
    ) -> tuple[Tries, Tries]:
        """Count the user's own cases, and those of the request: at this attempt, as rates fall with it."""
        if user is None:
            return Tries(), Tries()
        own = self._counted.filter(
            (pl.col("user") == user)
            & (pl.col("before_cause") == str(cause))
            & (pl.col("change") == str(change))
            & (pl.col("attempt") == attempt)
        )
        same = own.filter(pl.col("request") == request) if request is not None else own.clear()
        return tuple(  # type: ignore[return-value]
            Tries(float(part["weight"].sum()), float(part.filter("completed")["weight"].sum()), 1)
            if part.height
            else Tries()
            for part in (own, same)
        )

    def memory_factor(self) -> float | None:
        """Return the factor of the old memory request that sufficed for most jobs that ran out of memory."""
        tasks = pl.col("tasks_asked").fill_null(1) / pl.col("nodes_asked").fill_null(1).clip(1)
        used = pl.col("max_memory") * tasks.clip(1)
        return self._factor(RetryCause.MEMORY, RequestChange.MEMORY, used / pl.col("before_memory"))

    def time_factor(self) -> float | None:
        """Return the factor of the old time limit that sufficed for most jobs that reached it."""
        ran = pl.col("end") - pl.col("start") - pl.col("suspended").fill_null(0)
        return self._factor(RetryCause.TIME, RequestChange.TIME, ran / pl.col("before_time_limit"))

    def _factor(self, cause: RetryCause, change: RequestChange, ratio: pl.Expr) -> float | None:
        of_these = (pl.col("before_cause") == str(cause)) & pl.col("change").is_in(
            [str(change), str(RequestChange.BOTH)]
        )
        ratios = (
            self._retried.filter(of_these & pl.col("completed")).select(ratio=ratio)["ratio"].drop_nulls()
        )
        # A resubmission that needed less than the old limit did other work, and tells nothing of this need.
        ratios = ratios.filter(ratios >= 1.0)
        if ratios.len() < FEWEST_RATIOS:
            return None
        return ratios.quantile(_SUFFICES, "linear")


def _share_of_same_scripts(counted: pl.DataFrame) -> float:
    """Return the share of retries after a failure at once whose script is known to be the same."""
    at_once = counted.filter(pl.col("before_cause") == str(RetryCause.AT_ONCE))
    is_same = (pl.col("script_hash") == pl.col("before_script_hash")).fill_null(False)
    total = float(at_once["weight"].sum())
    return float(at_once.filter(is_same)["weight"].sum()) / total if total else 0.0
