"""What a threshold means in alerts, by the stored assessments of a month, before and after a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from forewarn.features.labels import fails
from forewarn.features.missing_fields import wilson
from forewarn.job.columns import KEYS, SCHEMAS
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.registry.serving import ModelName
from forewarn.store.base import Store
from forewarn.store.filters import Lists

DAYS = 30
DAY = 86400
_KEY = list(KEYS["job"])
_LABELS = ("outcome", "start", "end", "suspended", "time_limit")
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFigures:
    """The alerts of some jobs at a threshold, and how many of them were right."""

    threshold: float
    alerts: int  # also of jobs that have not ended
    alerts_a_day: float | None  # None: by less than a day of assessments
    judged: int  # alerts of jobs that have ended
    right: int  # of these, failures
    precision: float | None
    precision_interval: Interval | None  # 95%
    recall: float | None
    recall_interval: Interval | None

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "threshold": self.threshold,
            "alerts": self.alerts,
            "alerts_a_day": self.alerts_a_day,
            "judged_alerts": self.judged,
            "right_alerts": self.right,
            "precision": self.precision,
            "precision_interval": self.precision_interval and list(self.precision_interval),
            "recall": self.recall,
            "recall_interval": self.recall_interval and list(self.recall_interval),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdEffect:
    """The alerts of a model's last month before and after a change of its threshold."""

    since: int
    days: float  # covered by assessments
    jobs: int  # assessed by the model, and under this threshold
    ended: int  # of these, ended and in the population
    failed: int
    before: AlertFigures
    after: AlertFigures

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "since": self.since,
            "days": self.days,
            "jobs": self.jobs,
            "ended": self.ended,
            "failed": self.failed,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
        }


def threshold_effect(
    store: Store,
    model: ModelName,
    *,
    before: float,
    after: float,
    population: str,
    partition: str | None = None,
    apart: frozenset[str] = frozenset(),
    at: int,
) -> ThresholdEffect:
    """Count alerts by the stored assessments of the last month, whatever threshold they were judged at.

    Parameters
    ----------
    population
        Of the model: which jobs count, and which of them failed.
    partition
        Only jobs of this partition; None: all but those of the partitions in `apart`.
    """
    since = at - DAYS * DAY
    jobs = _assessed(store, model, since, at)
    if partition is not None:
        jobs = jobs.filter(Lists("partition", (partition,)).polars())
    elif apart:
        jobs = jobs.filter(~Lists("partition", tuple(sorted(apart))).polars())
    jobs = jobs.with_columns(fails(POPULATIONS[population].policy).alias("failed"))
    first = jobs["made_at"].min()
    days = (at - first) / DAY if isinstance(first, int) else 0.0
    ended = jobs.filter(pl.col("failed").is_not_null())
    return ThresholdEffect(
        since=since,
        days=days,
        jobs=jobs.height,
        ended=ended.height,
        failed=int(ended["failed"].sum()),
        before=_figures(jobs, before, days),
        after=_figures(jobs, after, days),
    )


def share(part: int, whole: int) -> tuple[float | None, Interval | None]:
    """Return a share with its 95% interval (Wilson); None where there is nothing to divide.

    >>> share(0, 0), share(1, 2)[0]
    ((None, None), 0.5)
    """
    if not whole:
        return None, None
    low, high = wilson(part, whole)
    return part / whole, (max(low, 0.0), min(high, 1.0))


def _assessed(store: Store, model: ModelName, since: int, at: int) -> pl.DataFrame:
    """Return the jobs that the model assessed, each with its last probability, and how it ended."""
    columns = [*_KEY, "phase", "model", "made_at", "probability"]
    assessments = store.assessments(cluster=model.cluster, since=since, until=at + 1, columns=columns)
    of_model = pl.col("model").str.starts_with(f"{model}/") & pl.col("probability").is_not_null()
    last = assessments.filter(of_model).unique(_KEY, keep="last", maintain_order=True)
    names = [*_KEY, "partition", *_LABELS]
    schema = {name: SCHEMAS["job"][name] for name in names}
    earliest: Any = last["submit"].min()
    scan = store.scan(cluster=model.cluster, since=earliest, columns=names) if last.height else ()
    jobs = pl.concat([pl.DataFrame(schema=schema), *(frame.select(names) for frame in scan)])
    return last.join(jobs, on=_KEY, how="inner")


def _figures(jobs: pl.DataFrame, threshold: float, days: float) -> AlertFigures:
    alerts = jobs.filter(pl.col("probability") >= threshold)
    judged = alerts["failed"].drop_nulls()
    right, failed = int(judged.sum()), int(jobs["failed"].sum())
    precision, precision_interval = share(right, judged.len())
    recall, recall_interval = share(right, failed)
    return AlertFigures(
        threshold=threshold,
        alerts=alerts.height,
        alerts_a_day=alerts.height / days if days >= 1 else None,
        judged=judged.len(),
        right=right,
        precision=precision,
        precision_interval=precision_interval,
        recall=recall,
        recall_interval=recall_interval,
    )
