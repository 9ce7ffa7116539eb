"""Counts of ended jobs by period, group and user, from which trends are made for a caller's view."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from forewarn.errors import BundleError, UsageError
from forewarn.features.labels import fails
from forewarn.job.columns import KEYS
from forewarn.job.outcomes import POLICIES
from forewarn.learn.data.job_details import OUTCOME_COLUMNS, REQUEST_COLUMNS, describe_stored_jobs
from forewarn.operate.breakdown import LABEL_COLUMNS, PERIODS, count_groups, job_counts
from forewarn.operate.job_fields import moment_text
from forewarn.operate.queries import Query, timezones
from forewarn.store.base import ClusterFacts, Store

if TYPE_CHECKING:
    from forewarn.learn.heads.profiles import Profiles
    from forewarn.learn.registry.serving import Serving

DAY = 86400
GROUPS = ("user", "account", "partition", "profile", "cluster", "outcome")
# A job ends at most so long after its submit, or it is not counted: the store is read by submit.
LONGEST = 90 * DAY
_KEY = list(KEYS["job"])
_HOURS = ("nodes_given", "cpus_given", "cpus_asked")
_WHO = ("user", "account")
SUMS = (
    *("jobs", "judged", "failed", "node_hours", "wasted_node_hours", "core_hours", "wasted_core_hours"),
    *("assessed", "assessed_failed", "alerts", "right_alerts"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendQuestion:
    """What is counted: ended jobs by group, in whole days, weeks or months."""

    by: str | None  # one of `GROUPS`; None: all jobs together
    every: str  # one of `PERIODS`
    first: str  # period
    last: str
    since: int  # of the first period
    until: int  # end of the last period, at most now

    @classmethod
    def of(cls, by: str | None, every: str, since: int, until: int, zone: str) -> TrendQuestion:
        """Build a question from a time range, widened to whole periods of a time zone."""
        if by is not None and by not in GROUPS:
            raise UsageError(f"by: trends are not grouped by {by!r}; choose from {', '.join(GROUPS)}")
        if every not in PERIODS:
            raise UsageError(f"every: no period {every!r}; choose from {', '.join(PERIODS)}")
        if since >= until:
            raise UsageError("since: the time range is empty; it must begin before its end")
        first, last = (period_of(at, every, zone) for at in (since, until - 1))
        # The longest period has 31 days: what is read beyond the range is dropped by its period.
        return cls(by=by, every=every, first=first, last=last, since=since - 31 * DAY, until=until + 31 * DAY)


def period_of(at: int, every: str, zone: str) -> str:
    """Write the period of a moment.

    >>> period_of(1_700_000_000, "week", "UTC"), period_of(1_700_000_000, "month", "UTC")
    ('2023-W46', '2023-11')
    """
    return datetime.fromtimestamp(at, UTC).astimezone(ZoneInfo(zone)).strftime(PERIODS[every])


def count_trend(
    store: Store, query: Query, question: TrendQuestion, policy: str, serving: Serving
) -> pl.DataFrame:
    """Count ended jobs: one row for each period, group, user and account, with the columns `SUMS`.

    Jobs count in the period in which they ended: by submit, the newest periods would lack the long ones. Of
    several assessments of a job, the last one before its end counts.
    """
    zones = timezones(store)
    groups = {
        "period": moment_text(pl.col("end"), zones, PERIODS[question.every]),
        "group": pl.lit(None, pl.String) if question.by is None else pl.col(_column(question.by)),
        **{name: pl.col(name) for name in _WHO},
    }
    counted = count_groups(_frames(store, query, question, policy, serving), groups, _sums(policy))
    counted = counted.with_columns(pl.col(SUMS[3:7]).cast(pl.Float64), pl.col("group").cast(pl.String))
    return counted.filter(pl.col("period").is_between(pl.lit(question.first), pl.lit(question.last)))


def _frames(
    store: Store, query: Query, question: TrendQuestion, policy: str, serving: Serving
) -> Iterator[pl.DataFrame]:
    """Read the jobs that ended, with their last prediction and their group."""
    columns = list(dict.fromkeys((*_KEY, *_WHO, "partition", *LABEL_COLUMNS, *_HOURS)))
    if question.by == "profile":
        columns = list(dict.fromkeys((*columns, *REQUEST_COLUMNS, *OUTCOME_COLUMNS)))
    begin = question.since - LONGEST
    selected = Query(
        clusters=query.clusters, where=query.where, job_ids=query.job_ids, since=begin, until=question.until
    )
    predictions = _predictions(store, question.since - LONGEST)
    profiles = _ProfileNames(store, serving)
    in_range = pl.col("end").is_between(question.since, question.until) & pl.col("outcome").is_not_null()
    for frame in selected.all(store, columns):
        ended = frame.filter(in_range)
        if question.by == "profile":
            ended = profiles.added_to(ended)
        failed = ended.with_columns(fails(POLICIES[policy]).alias("_failed"))
        yield failed.join(_last_before_end(predictions, failed), on=_KEY, how="left")


def _predictions(store: Store, since: int) -> pl.DataFrame:
    """Read the stored predictions, without those in which no model answered."""
    columns = [*_KEY, "made_at", "probability", "threshold"]
    predictions = store.assessments(since=since, columns=columns).drop_nulls()
    return predictions.with_columns((pl.col("probability") >= pl.col("threshold")).alias("_warned"))


def _last_before_end(predictions: pl.DataFrame, ended: pl.DataFrame) -> pl.DataFrame:
    before = predictions.join(ended.select(*_KEY, "end"), on=_KEY, how="inner").filter(
        pl.col("made_at") <= pl.col("end")
    )
    return before.unique(_KEY, keep="last", maintain_order=True).select(*_KEY, "_warned")


def _sums(policy: str) -> list[pl.Expr]:
    ran = (pl.col("end") - pl.col("start") - pl.col("suspended").fill_null(0)).clip(0).fill_null(0) / 3600
    # A log without nodes (SWF) counts processors, which on its machines were nodes.
    nodes = pl.coalesce("nodes_given", "cpus_given").fill_null(1).clip(1)
    cores = pl.coalesce("cpus_given", "cpus_asked").fill_null(0)
    failed = pl.col("_failed") == 1
    judged, warned = pl.col("_failed").is_not_null() & pl.col("_warned").is_not_null(), pl.col("_warned")
    counts = {
        "assessed": judged,
        "assessed_failed": judged & failed,
        "alerts": judged & warned,
        "right_alerts": judged & warned & failed,
    }
    return [
        *job_counts(policy),
        (ran * nodes).sum().alias("node_hours"),
        (ran * nodes).filter(failed.fill_null(False)).sum().alias("wasted_node_hours"),
        (ran * cores).sum().alias("core_hours"),
        (ran * cores).filter(failed.fill_null(False)).sum().alias("wasted_core_hours"),
        *(test.sum().cast(pl.Int64).alias(name) for name, test in counts.items()),
    ]


def _column(by: str) -> str:
    return "_profile" if by == "profile" else by


class _ProfileNames:
    """The nearest profile of each job, by the profiles of the model that serves its cluster."""

    def __init__(self, store: Store, serving: Serving) -> None:
        self._facts, self._serving = store.clusters(), serving
        self._profiles: dict[str, Profiles | None] = {}

    def added_to(self, jobs: pl.DataFrame) -> pl.DataFrame:
        """Return the jobs with their profile; null where no model with profiles serves."""
        parts = [
            part.with_columns(self._names(cluster, part))
            for (cluster,), part in jobs.partition_by("cluster", as_dict=True, maintain_order=True).items()
        ]
        return pl.concat(parts) if parts else jobs.with_columns(pl.lit(None, pl.String).alias("_profile"))

    def _names(self, cluster: object, jobs: pl.DataFrame) -> pl.Series:
        name = str(cluster)
        if name not in self._profiles:
            self._profiles[name] = None
            with suppress(BundleError):  # damaged: its jobs are of no known profile
                self._profiles[name] = _profiles_of(self._serving, name)
        profiles = self._profiles[name]
        if profiles is None:
            return pl.Series("_profile", [None] * jobs.height, pl.String)
        # How active the user was at submit is not stored; the profile follows from the rest of the request.
        about = describe_stored_jobs(jobs, self._facts.get(name, ClusterFacts())).with_columns(
            pl.lit(None, pl.String).alias("activity")
        )
        nearest = profiles.posterior(about, "submit").argmax(axis=1)
        return pl.Series("_profile", np.array(profiles.words, dtype=object)[nearest].tolist(), pl.String)


def _profiles_of(serving: Serving, cluster: str) -> Profiles | None:
    """Read the profiles of the cluster's model at submit, without loading the model."""
    from forewarn.learn.heads.profiles import Profiles
    from forewarn.learn.registry.bundle import PROFILES
    from forewarn.learn.registry.serving import ModelName

    for feature_set in ("generic", "swf", "restricted"):
        folder = serving.champion(ModelName(cluster, "submit", feature_set))
        if folder is not None and (folder / PROFILES).exists():
            return Profiles.from_json(json.loads((folder / PROFILES).read_text(encoding="utf-8")))
    return None


def sums_of(counted: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Sum the counts of users by some columns, with the number of users and their names."""
    users = pl.col("user").drop_nulls().unique()
    return counted.group_by(by, maintain_order=True).agg(pl.col(SUMS).sum(), users.alias("users"))
