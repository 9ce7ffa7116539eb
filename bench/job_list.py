"""Pages of a list of 100,000 jobs, beside a plain Polars sort of the same frame.

    python bench/job_list.py [--jobs 100000]

Simulated jobs within the last month, a fifth of them pending, each with an assessment. After one page that
reads all from the store, each kind of page is asked 50 times; the baseline sorts the whole frame by hours at
risk and takes its first 100 rows as dictionaries, in the same run. Then a trend of the same jobs, by user.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from forewarn.config import Config
from forewarn.job.columns import SCHEMAS, complete
from forewarn.learn.registry.serving import Serving
from forewarn.operate.job_list import JobList
from forewarn.operate.trends import Trends
from forewarn.operate.visibility import Visibility
from forewarn.store.base import ASSESSMENT_SCHEMA, ClusterFacts, Store
from forewarn.store.opening import open_store

NOW = int(time.time())
TIMES = 50


def write(store: Store, jobs: int, first: int = 0) -> None:
    """Write simulated jobs with an assessment each."""
    random = np.random.default_rng(first + 1)
    number = np.arange(first, first + jobs)
    submit = NOW - random.integers(60, 29 * 86400, jobs)
    pending = random.random(jobs) < 0.2
    frame = pl.DataFrame(
        {
            "cluster": "alps",
            "job_id": pl.Series(number).cast(pl.String),
            "submit": submit,
            "user": [f"user{n}" for n in random.zipf(1.3, jobs) % 500],
            "account": [f"account{n}" for n in random.integers(0, 40, jobs)],
            "partition": random.choice(["main", "gpu", "long"], jobs),
            "name": [f"run-{n % 977}" for n in number],
            "state": np.where(pending, "PENDING", "COMPLETED"),
            "outcome": pl.Series(np.where(pending, "", "completed")).replace("", None),
            "start": pl.Series(submit + 30).set(pl.Series(pending), None),
            "end": pl.Series(submit + 50).set(pl.Series(pending), None),
            "time_limit": random.integers(1, 100, jobs) * 600,
            "seen_at": NOW,
            "source": "bench",
            "reconstructed": False,
        }
    )
    assessments = frame.select("cluster", "job_id", "submit").with_columns(
        phase=pl.lit("submit"),
        model=pl.lit("alps.submit.generic/1"),
        made_at=pl.col("submit") + 5,
        probability=pl.Series(random.random(jobs)),
        threshold=pl.lit(0.4),
        verdict=pl.Series(random.choice(["fine", "warning", "likely_to_fail"], jobs)),
        hours_at_risk=pl.Series(random.exponential(5, jobs)),
        cause=pl.Series(random.choice(["failed", "timeout", "out_of_memory"], jobs)),
        body=pl.lit(None, pl.String),
    )
    with store.writing() as writer:
        writer.observe("job", complete(frame).select(*SCHEMAS["job"]))
        writer.keep_assessments(assessments.select(*ASSESSMENT_SCHEMA))
        writer.describe_cluster("alps", ClusterFacts())


def median(call: Callable[[], Any]) -> float:
    """Return the median milliseconds of a call."""
    seconds = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds) * 1e3


def main(jobs: int) -> None:
    """Measure and print a table."""
    with tempfile.TemporaryDirectory() as scratch, open_store(Config(home=Path(scratch) / "home")) as store:
        write(store, jobs)
        listed = JobList(store)
        begun = time.perf_counter()
        first = listed.page()
        print(
            f"{first.total:,} jobs; the first page, which reads them all: {time.perf_counter() - begun:.2f} s"
        )
        frame = listed.follow().frame
        plain = median(
            lambda: frame.sort("hours_at_risk", descending=True, nulls_last=True).head(100).to_dicts()
        )
        one = Visibility.of(users=["user1"], accounts=["account3"])
        middle = first.next
        pages: dict[str, Callable[[], Any]] = {
            "100 jobs by hours at risk": lambda: listed.page(),
            "the next 100, by a cursor": lambda: listed.page(after=middle),
            "1,000 jobs": lambda: listed.page(limit=1000),
            "pending, of one partition": lambda: listed.page(state="pending", partition="gpu"),
            "of one cause, from 50% on": lambda: listed.page(cause="timeout", least_probability=0.5),
            "a search in id and name": lambda: listed.page(search="run-12"),
            "what one user may see": lambda: listed.page(visible=one),
            "by user name": lambda: listed.page(order="user"),
        }
        print(f"| page | ms | of a plain sort ({plain:.1f} ms) |\n|---|---|---|")
        for name, ask in pages.items():
            took = median(ask)
            print(f"| {name} | {took:.1f} | {took / plain:.2f} |")
        rows = listed.follow()
        write(store, 1000, first=jobs)
        begun = time.perf_counter()
        rows = rows.updated(store)
        print(f"following 1,000 new jobs with assessments: {(time.perf_counter() - begun) * 1e3:.0f} ms")
        print(f"a look at the store with nothing new: {median(lambda: rows.updated(store)):.1f} ms")
        trends = Trends(store, Serving(Path(scratch) / "models"), "wasted")
        begun = time.perf_counter()
        trends.trend("user")
        print(f"a trend by user and week: {(time.perf_counter() - begun) * 1e3:.0f} ms, ", end="")
        print(f"again, for one user: {median(lambda: trends.trend('user', visible=one)):.0f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    main(parser.parse_args().jobs)
