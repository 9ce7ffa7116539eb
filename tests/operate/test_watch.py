"""Live jobs are assessed as they come, and again when what is known of them changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forewarn.features.online import OnlineFeatures
from forewarn.features.present import is_current
from forewarn.job.outcomes import POLICIES
from forewarn.job.record import Job
from forewarn.learn.serving import Serving
from forewarn.operate.collect import Collector, Round
from forewarn.operate.watch import Watch
from forewarn.store.base import Store
from forewarn.store.embedded import open_store
from tests.operate.fake_scheduler import FakeScheduler, Row, job
from tests.sources.fake_slurmrestd import NOW, FakeTime

POLICY = POLICIES["wasted"]


@pytest.fixture
def slurm() -> FakeScheduler:
    """A cluster that has run for a while: every other job fails, ann's."""
    ended = [
        job(n, NOW - 7200 + 10 * n, end=NOW - 7000 + 10 * n)
        | {"user": "ann" if n % 2 else "bob", "outcome": "failed" if n % 2 else "completed", "cpus_asked": 4}
        for n in range(1, 300)
    ]
    return FakeScheduler(FakeTime(), ended=ended)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def collector(store: Store, slurm: FakeScheduler, tmp_path: Path) -> Collector:
    watch = Watch(store, Serving(tmp_path / "models"), "c")
    return Collector(store, slurm, since=NOW - 86400, clock=slurm.time.clock, watch=watch)


def one_round(collector: Collector, slurm: FakeScheduler, *, seconds: int = 60) -> Round:
    slurm.time.now += seconds
    return next(iter(collector.once()))


def waits(number: int | str, slurm: FakeScheduler, user: str = "ann", **fields: Any) -> Row:
    row = job(number, int(slurm.time.now), user=user, cpus_asked=4, **fields)
    slurm.live.append(row)
    return row


def ends(row: Row, slurm: FakeScheduler, outcome: str) -> None:
    slurm.live.remove(row)
    start = row.get("start") or int(slurm.time.now) + 10
    slurm.ended.append(
        job(row["job_id"], row["submit"], start=start, end=int(slurm.time.now) + 30)
        | {"user": row["user"], "cpus_asked": 4, "outcome": outcome, "state": outcome.upper()}
    )


def said_of(store: Store) -> list[str]:
    return store.predictions(cluster="c")["job_id"].to_list()


def test_a_job_is_assessed_when_it_comes_and_when_it_starts_and_not_between(
    collector: Collector, slurm: FakeScheduler, store: Store
) -> None:
    one_round(collector, slurm)
    row = waits(500, slurm)
    came = one_round(collector, slurm)
    assert (came.assessed, came.warned, said_of(store)) == (1, 1, ["500"])
    assert one_round(collector, slurm).assessed == 0
    row |= {"state": "RUNNING", "start": int(slurm.time.now)}
    assert one_round(collector, slurm).assessed == 1
    assert one_round(collector, slurm).assessed == 0


def test_it_is_assessed_again_when_one_like_it_ends(
    collector: Collector, slurm: FakeScheduler, store: Store
) -> None:
    one_round(collector, slurm)
    first, _, other = waits(500, slurm), waits(501, slurm), waits(502, slurm, user="bob")
    assert one_round(collector, slurm).assessed == 3
    ends(other, slurm, "completed")
    assert one_round(collector, slurm).assessed == 0, "nobody like it waits"
    ends(first, slurm, "completed")
    assert one_round(collector, slurm).assessed == 1
    told = store.predictions(cluster="c").filter(job_id="501")["probability"]
    assert told[1] < told[0], "one like it went well for once"


def test_all_are_assessed_again_in_a_burst_of_failures(collector: Collector, slurm: FakeScheduler) -> None:
    one_round(collector, slurm)
    rows = [waits(600 + n, slurm, user=f"u{n}") for n in range(6)]
    waits(700, slurm, user="zoe", cpus_given=1)
    one_round(collector, slurm)
    for row in rows:
        ends(row, slurm, "failed")
    assert one_round(collector, slurm).assessed == 1, "zoe's, which is like none of them"


def test_an_array_that_waits_is_assessed_once(
    collector: Collector, slurm: FakeScheduler, store: Store
) -> None:
    one_round(collector, slurm)
    waits("800_[1-50]", slurm, array_job_id=800, array_tasks="1-50")
    assert one_round(collector, slurm).assessed == 1
    assert said_of(store) == ["800_1"]


def test_the_state_that_it_keeps_is_that_of_a_walk_over_the_history(
    collector: Collector, slurm: FakeScheduler, store: Store
) -> None:
    random = np.random.default_rng(0)
    one_round(collector, slurm)
    number = 1000
    for _ in range(12):
        for _ in range(int(random.integers(0, 4))):
            number += 1
            waits(number, slurm, user=str(random.choice(["ann", "bob", "cy"])))
        for row in list(slurm.live):
            dice = random.random()
            if row["state"] == "PENDING" and dice < 0.4:
                row |= {"state": "RUNNING", "start": int(slurm.time.now) + 5}
            elif dice < 0.6:
                ends(row, slurm, str(random.choice(["completed", "failed"])))
        one_round(collector, slurm)
        assert is_current(store, "c", POLICY)
    kept, walked = OnlineFeatures.load(store, "c", POLICY), OnlineFeatures.from_history(store, "c", POLICY)
    assert kept.places.keys() == walked.places.keys()
    new = Job(cluster="c", job_id="9999", submit=int(slurm.time.now) + 100, user="ann", cpus_asked=4)
    np.testing.assert_allclose(kept.submit(new), walked.submit(new), rtol=1e-6)


def test_a_new_process_goes_on_where_the_old_one_was(
    collector: Collector, slurm: FakeScheduler, store: Store, tmp_path: Path
) -> None:
    one_round(collector, slurm)
    row = waits(500, slurm)
    one_round(collector, slurm)
    watch = Watch(store, Serving(tmp_path / "models"), "c")
    again = Collector(store, slurm, clock=slurm.time.clock, watch=watch)
    assert one_round(again, slurm).assessed == 0
    row |= {"state": "RUNNING", "start": int(slurm.time.now)}
    assert one_round(again, slurm).assessed == 1
