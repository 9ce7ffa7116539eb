"""Trends: failure rates and wasted hours over time, and what who may not see all jobs gets of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from forewarn.config import Config
from forewarn.errors import UsageError
from forewarn.job.record import Job
from forewarn.learn.heads.profiles import Profiles
from forewarn.learn.registry.serving import Serving
from forewarn.operate import trends as trends_module
from forewarn.operate.breakdown import break_down
from forewarn.operate.queries import query_of
from forewarn.operate.trend_counts import count_trend
from forewarn.operate.trends import Trend, Trends
from forewarn.operate.visibility import Visibility
from forewarn.store.base import Store
from forewarn.store.opening import open_store
from tests.assess.served import promote, small_bundle
from tests.learn.conftest import cluster, table
from tests.operate.job_homes import write_assessments, write_jobs

__all__ = ["cluster", "table"]

DAY = 86400
NOW = int(datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp())  # a Wednesday, in week 47
LAST_WEEK = NOW - 7 * DAY
_numbers = iter(range(1, 10**6))


def ended(user: str | None, outcome: str = "completed", end: int = LAST_WEEK, **fields: Any) -> Job:
    """Return a job that ran for an hour on two nodes with four CPUs each."""
    given: dict[str, Any] = {
        "cluster": "c",
        "partition": "main",
        "account": "physics",
        "state": outcome.upper(),
    }
    given |= {"start": end - 3600, "end": end, "nodes_given": 2, "cpus_given": 8, "outcome": outcome}
    return Job(job_id=str(next(_numbers)), submit=end - 4000, user=user, **given | fields)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(Config(home=tmp_path / "home")) as opened:
        yield opened


@pytest.fixture
def trends(store: Store, tmp_path: Path) -> Trends:
    return Trends(store, Serving(tmp_path / "models"), "wasted", clock=lambda: NOW)


def table_of(found: Trend, *names: str) -> list[tuple[Any, ...]]:
    rows = [row.to_json() for row in found.rows]
    return [tuple(row[name] for name in ("period", "group", *names)) for row in rows]


def test_rates_and_wasted_hours_by_partition_and_week(store: Store, trends: Trends) -> None:
    jobs = [
        *(ended("ann", "failed", partition="gpu") for _ in range(3)),
        ended("bob", "completed", partition="gpu"),
        ended("bob", "cancelled", partition="gpu"),  # outside the population
        ended("ann", "timeout", end=NOW - 14 * DAY),
        Job(cluster="c", job_id="live", submit=NOW - 50, user="ann", partition="gpu", state="RUNNING"),
    ]
    write_jobs(store, jobs)
    found = trends.trend("partition")
    assert table_of(
        found, "jobs", "judged", "failed", "wasted_node_hours", "wasted_core_hours", "node_hours"
    ) == [
        ("2026-W45", "main", 1, 1, 1, 2.0, 8.0, 2.0),
        ("2026-W46", "gpu", 5, 4, 3, 6.0, 24.0, 10.0),
    ]
    figures = found.rows[1].figures
    rate, interval = figures.failure_rate
    assert rate == 0.75
    assert interval is not None
    assert interval[0] < 0.75 < interval[1]
    assert (figures.users, figures.precision, figures.recall) == (2, (None, None), (None, None))
    assert (found.every, found.last, found.policy) == ("week", "2026-W47", "wasted")
    assert json.loads(json.dumps(found.to_json()))["rows"][1]["failure_rate"] == 0.75


def test_a_job_counts_in_the_period_in_which_it_ended(store: Store, trends: Trends) -> None:
    end = int(datetime(2026, 11, 1, 1, tzinfo=UTC).timestamp())
    write_jobs(store, [replace(ended("ann", "failed", end=end), submit=end - 5 * DAY)])
    assert table_of(trends.trend(every="month"), "failed") == [("2026-11", None, 1)]
    assert table_of(trends.trend(every="day"), "failed") == [("2026-11-01", None, 1)]
    assert trends.trend(every="day", since=NOW - 2 * DAY).rows == ()
    assert trends.trend(every="month", until=end - DAY).rows == ()
    whole = trends.trend(every="month", since=end + 9 * DAY)
    assert table_of(whole, "failed") == [("2026-11", None, 1)], "widened to whole months"


def test_periods_are_those_of_the_clusters_time_zone(store: Store, trends: Trends) -> None:
    end = int(datetime(2026, 10, 31, 23, 30, tzinfo=UTC).timestamp())
    write_jobs(store, [ended("ann", end=end)], timezone="Europe/Zurich")
    assert table_of(trends.trend(every="day"), "jobs") == [("2026-11-01", None, 1)]


def test_the_same_counts_as_a_breakdown(store: Store, trends: Trends) -> None:
    dice = random.Random(1)
    outcomes = ["completed", "failed", "timeout", "cancelled"]
    write_jobs(store, [ended(dice.choice("abcd"), dice.choice(outcomes)) for _ in range(60)])
    counted = break_down(store, query_of(store), "user", "wasted").groups
    by_trend = {row[1]: row[2:] for row in table_of(trends.trend("user"), "jobs", "judged", "failed")}
    assert by_trend == {user: tuple(counts) for user, *counts in counted.rows()}


def test_alerts_are_those_of_the_last_prediction_before_the_end(store: Store, trends: Trends) -> None:
    jobs = [ended("ann", outcome) for outcome in ("failed", "failed", "completed", "completed", "failed")]
    write_jobs(store, jobs)

    def prediction(job: Job, p: float | None, before: int) -> dict[str, Any]:
        key = {"cluster": "c", "job_id": job.job_id, "submit": job.submit, "made_at": (job.end or 0) - before}
        return {**key, "probability": p, "threshold": 0.4}

    risks = [
        (0, 0.1, 900),
        (0, 0.9, 60),
        (0, 0.1, -60),
        (1, 0.1, 60),
        (2, 0.5, 60),
        (3, 0.2, 60),
        (4, None, 9),
    ]
    write_assessments(store, (prediction(jobs[n], p, before) for n, p, before in risks))
    (row,) = trends.trend().rows
    figures = row.figures
    assert (figures.assessed, figures.alerts, figures.right_alerts) == (4, 2, 1)
    assert figures.precision[0] == 0.5
    assert figures.recall[0] == 0.5


def test_filters_narrow_it(store: Store, trends: Trends) -> None:
    write_jobs(store, [ended("ann", "failed"), ended("bob"), ended("bob", partition="gpu")])
    assert table_of(trends.trend("user", user="bob"), "jobs") == [("2026-W46", "bob", 2)]
    assert table_of(trends.trend("user", partition="gpu"), "jobs") == [("2026-W46", "bob", 1)]
    assert table_of(trends.trend("outcome", state="failed"), "jobs") == [("2026-W46", "failed", 1)]
    assert table_of(trends.trend("cluster", cluster="c"), "jobs") == [("2026-W46", "c", 3)]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"by": "shoe"}, {"every": "hour"}, {"since": NOW, "until": NOW - 5}, {"user": "\ud800"}),
        *({"shoe": "x"}, {"state": "asleep"}, {"since": "yesterday-ish"}),
    ],
)
def test_bad_input_is_refused_by_name(store: Store, trends: Trends, wrong: Any) -> None:
    with pytest.raises(UsageError):
        trends.trend(**wrong)


# --- what who may not see all jobs gets -----------------------------------------------------------------


ANN = Visibility.of(users=["ann"])


def of_others(found: Trend) -> list[tuple[str | None, int, int]]:
    return [(row.group, row.figures.jobs, row.figures.users) for row in found.rows if row.whose == "others"]


def test_own_rows_by_name_and_others_only_together(store: Store, trends: Trends) -> None:
    write_jobs(store, [ended("ann", "failed"), *(ended(f"u{n}") for n in range(5))])
    found = trends.trend("user", visible=ANN)
    assert [(row.group, row.whose) for row in found.rows] == [("ann", "own"), (None, "others")]
    assert of_others(found) == [(None, 5, 5)]
    assert "u1" not in json.dumps(found.to_json())


def test_the_asker_is_not_one_of_the_five(store: Store, trends: Trends) -> None:
    write_jobs(store, [ended("ann"), *(ended(f"u{n}") for n in range(4))])
    for by in (None, "user", "partition", "account", "cluster", "outcome"):
        found = trends.trend(by, visible=ANN)
        assert of_others(found) == []
        assert [row.figures.jobs for row in found.rows] == [1], "only the own one"


def test_small_groups_are_put_together_until_the_rest_has_five_users(store: Store, trends: Trends) -> None:
    """Else the whole without the shown groups would be the jobs of the one in the small group."""
    write_jobs(
        store,
        [
            *(ended(f"u{n}", partition="main") for n in range(9)),
            *(ended(f"u{n}", partition="gpu") for n in range(6)),
            ended("solo", "failed", partition="tiny"),
        ],
    )
    assert of_others(trends.trend("partition", visible=ANN)) == [(None, 7, 7), ("main", 9, 9)]
    assert of_others(trends.trend(visible=ANN)) == [(None, 16, 10)]


def test_jobs_of_no_known_user_are_not_shown_alone(store: Store, trends: Trends) -> None:
    write_jobs(store, [ended(None, partition="odd"), *(ended(f"u{n}") for n in range(6))])
    assert of_others(trends.trend("partition", visible=ANN)) == [(None, 7, 6)]


@pytest.mark.parametrize("seed", range(20))
def test_no_difference_of_shown_figures_is_of_fewer_than_five_others(
    store: Store, trends: Trends, seed: int
) -> None:
    """Whatever is shown by partition, account or outcome, the rest of the whole has none or five users."""
    dice = random.Random(seed)
    users = [f"u{n}" for n in range(dice.choice([4, 6, 9, 15]))]
    jobs = [
        ended(
            dice.choice(users),
            dice.choice(["completed", "failed", "timeout"]),
            partition=dice.choice("pqrst"),
            account=dice.choice("xyz"),
        )
        for _ in range(dice.choice([5, 12, 40]))
    ]
    write_jobs(store, [*jobs, ended("ann")])
    for by in ("partition", "account", "outcome", "user"):
        rows = [row for row in trends.trend(by, visible=ANN).rows if row.whose == "others"]
        assert all(row.figures.users >= 5 for row in rows)
        shown = {row.group for row in rows}
        rest = {job.user for job in jobs if getattr(job, by) not in shown}
        assert len(rest) >= 5 or not rest or not rows
        if rows:
            assert sum(row.figures.jobs for row in rows) == len(jobs)


def test_others_are_shown_by_whole_weeks_that_are_over_and_without_filters(
    store: Store, trends: Trends
) -> None:
    """Two overlapping selections would differ by what may be one user's jobs."""
    write_jobs(store, [ended(f"u{n}", end=end) for n in range(6) for end in (LAST_WEEK, NOW - 60)])
    assert [row.period for row in trends.trend(visible=ANN).rows] == ["2026-W46"]
    for more in (
        {"every": "day"},
        {"every": "month"},
        {"partition": "main"},
        {"user": "u1"},
        {"cluster": "c"},
    ):
        assert trends.trend(visible=ANN, **more).rows == ()
    shorter = trends.trend(visible=ANN, since=LAST_WEEK - 60, until=LAST_WEEK + 60)
    assert of_others(shorter) == [(None, 6, 6)], "a shorter time is the same week"


def test_a_coordinator_sees_the_users_of_the_account(store: Store, trends: Trends) -> None:
    chemists = [ended(f"chem{n}", "failed", account="chemistry") for n in range(2)]
    write_jobs(store, [*chemists, ended("ann"), *(ended(f"u{n}") for n in range(3))])
    coordinator = Visibility.of(users=["ann"], accounts=["chemistry"])
    found = trends.trend("user", visible=coordinator)
    assert sorted(row.group or "" for row in found.rows) == ["ann", "chem0", "chem1"]
    assert {row.whose for row in found.rows} == {"own"}


# --- memory -----------------------------------------------------------------------------------------------


def test_counts_stay_in_memory_until_the_store_changes(
    store: Store, trends: Trends, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jobs(store, [ended("ann")])
    calls: list[object] = []
    count = count_trend

    def counting(*arguments: Any) -> Any:
        calls.append(arguments)
        return count(*arguments)

    monkeypatch.setattr(trends_module, "count_trend", counting)
    trends.trend("user")
    trends.trend("user", visible=ANN)
    assert len(calls) == 1, "one count serves every caller"
    trends.trend("account")
    assert len(calls) == 2
    write_jobs(store, [ended("bob")])
    assert len(trends.trend("user").rows) == 2
    assert len(calls) == 3


@pytest.mark.slow
def test_groups_are_the_profiles_of_the_model_that_serves(
    store: Store, trends: Trends, tmp_path: Path, table: Any
) -> None:
    rows = table.labelled.nonzero()[0]
    profiles = Profiles.fit(table, rows, seed=1, k=3)
    bundle = replace(small_bundle(cluster="c"), profiles=profiles)
    jobs = [
        ended(
            "ann",
            cpus_asked=cpus,
            nodes_asked=1,
            memory_asked=cpus << 30,
            memory_per="node",
            time_limit=limit,
        )
        for cpus, limit in ((1, 600), (2, 3600), (64, 86400)) * 5
    ]
    write_jobs(store, [*jobs, ended("bob", cluster="d")])
    assert {row.group for row in trends.trend("profile").rows} == {None}, "no model has profiles"
    promote(Serving(tmp_path / "models"), bundle, 1)
    write_jobs(store, [ended("cy")])
    groups = {row.group: row.figures.jobs for row in trends.trend("profile").rows}
    assert set(groups) <= {*profiles.words, None}
    assert groups[None] == 1, "the cluster without a model"
    assert sum(groups.values()) == 17
