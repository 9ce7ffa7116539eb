"""Similar jobs: the user's own, earlier, the most alike first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.assess.similar import Similar, similar_jobs, similarity
from forewarn.assess.user_history import read_history
from forewarn.assess.wording import each, words
from forewarn.config import Config
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.online import OnlineFeatures
from forewarn.job.columns import to_frame
from forewarn.job.outcomes import POLICIES, FailurePolicy
from forewarn.job.record import Job, Observation
from forewarn.store.base import ClusterFacts, Store
from forewarn.store.opening import open_store

GIB = 1 << 30
WASTED = POLICIES["wasted"]
NOW = 1_700_000_000


def job(number: int, **fields: Any) -> Job:
    usual: dict[str, Any] = {
        "cluster": "c", "job_id": str(number), "submit": NOW + 10 * number,
        "user": "ann", "name": f"fit_{number:03}", "work_dir": "/home/ann/fit", "partition": "main",
        "cpus_asked": 4, "nodes_asked": 1, "memory_asked": 8 * GIB, "memory_per": "node", "time_limit": 3600,
        "start": NOW + 10 * number, "end": NOW + 10 * number + 600, "outcome": "completed",
    }  # fmt: skip
    return Job(**(usual | fields))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(Config(home=tmp_path / "home")) as opened:
        yield opened


def keep(store: Store, *jobs: Job) -> None:
    seen = [
        Observation(seen_at=one.end or one.submit, source="test", reconstructed=True, record=one)
        for one in jobs
    ]
    with store.writing() as writer:
        writer.observe("job", to_frame(seen))


def similar(store: Store, asked: Job, policy: FailurePolicy, *, at: int | None = None) -> Similar:
    at = asked.submit if at is None else at
    past = read_history(store, "c", at, ClusterFacts(), [asked.user] if asked.user else [])
    return similar_jobs(past, asked, policy, at=at)


def test_the_user_s_own_jobs_and_no_others(store: Store) -> None:
    keep(
        store,
        job(1, outcome="out_of_memory"),
        job(2, outcome="failed", memory_asked=16 * GIB),
        job(3, user="bob", outcome="failed"),
        job(4, name="other", work_dir="/scratch", outcome="failed"),
        job(5, outcome=None, end=None),
    )
    found = similar(store, job(9, submit=NOW + 86_400), WASTED)
    assert [one.job_id for one in found.jobs] == ["1", "2"]
    assert found.jobs[0].similarity == 1.0
    assert each(found.jobs[1].differs) == ["memory 16 GiB instead of 8 GiB"]
    assert found.jobs[0].run_time == 600
    assert found.tally
    assert words(found.tally) == "both of your most similar jobs failed, 1 out of memory"


def test_what_was_not_known_then_does_not_count(store: Store) -> None:
    keep(store, job(1, end=NOW + 50_000), job(2, end=NOW + 2_000))
    asked = job(9, submit=NOW + 10_000)
    assert [one.job_id for one in similar(store, asked, WASTED).jobs] == ["2"]
    assert [one.jobs for one in similar(store, asked, WASTED, at=NOW + 99_999).jobs] == [2], "sent together"


def test_jobs_of_years_ago_are_found(store: Store) -> None:
    keep(store, job(1))
    later = similar(store, job(9, submit=NOW + 9 * 365 * 86_400), WASTED)
    assert [one.job_id for one in later.jobs] == ["1"]


def test_tasks_of_the_same_array_are_no_experience(store: Store) -> None:
    keep(store, job(1, array_job_id=7), job(2, array_job_id=6))
    asked = job(9, submit=NOW + 10_000, array_job_id=7)
    assert [one.job_id for one in similar(store, asked, WASTED).jobs] == ["2"]


def test_an_array_and_a_bulk_count_as_one_job_each(store: Store) -> None:
    """A hundred tasks of the last array would leave no room for anything else."""
    tasks = [
        job(
            100 + n, job_id=f"50_{n}", submit=NOW, array_job_id=50, outcome="failed" if n < 3 else "completed"
        )
        for n in range(100)
    ]
    bulk = [job(300 + n, submit=NOW + 2000 + 30 * n, outcome="timeout", end=NOW + 9000) for n in range(40)]
    alone = [job(1, submit=NOW - 5000), job(2, submit=NOW - 4000, memory_asked=16 * GIB)]
    keep(store, *alone, *tasks, *bulk)
    found = similar(store, job(999, submit=NOW + 86_400), WASTED)
    assert [(one.job_id, one.jobs, dict(one.outcomes)) for one in found.jobs] == [
        ("339", 40, {"timeout": 40}),
        ("50_99", 100, {"completed": 97, "failed": 3}),
        ("1", 1, {"completed": 1}),
        ("2", 1, {"completed": 1}),
    ]
    assert (found.jobs[1].outcome, found.jobs[1].run_time) == ("completed", 600)
    assert found.tally
    assert (
        words(found.tally) == "43 of your 142 most similar jobs (4 submissions) failed, 40 at the time limit"
    )


def test_the_run_time_is_that_of_the_job_it_stands_beside(store: Store) -> None:
    """Not the longest of those submitted together, which may have ended differently."""
    longest = job(300, submit=NOW, outcome="failed", end=NOW + 9000)
    keep(store, longest, *(job(301 + n, submit=NOW + n, end=NOW + n + 1000) for n in range(3)))
    found = similar(store, job(999, submit=NOW + 86_400), WASTED)
    (shown,) = found.jobs
    assert (shown.job_id, shown.outcome) == ("303", "completed")
    assert shown.run_time is not None
    assert found.longest is not None
    assert shown.run_time < 1000 < found.longest, "a shorter time limit must still hold the longest"


def test_a_large_array_does_not_hide_what_was_before(store: Store) -> None:
    keep(store, job(1, submit=NOW - 9000), *(job(n, submit=NOW, array_job_id=5) for n in range(100, 1100)))
    assert [one.jobs for one in similar(store, job(9, submit=NOW + 86_400), WASTED).jobs] == [1000, 1]


def test_nobody_s_job(store: Store) -> None:
    keep(store, job(1, user=None))
    assert similar(store, job(9, user=None, submit=NOW + 10_000), WASTED).tally is None


def test_similarity() -> None:
    one = job(1)
    assert similarity(one, job(2)) == 1.0, "a number in the name is the run's"
    assert similarity(one, job(2, cpus_asked=8)) > similarity(one, job(2, cpus_asked=64))
    assert similarity(one, job(2, time_limit=None)) < 0.2
    assert similarity(job(1, script_hash="a"), job(2, script_hash="b")) < 1.0


def test_what_failed_is_what_the_policy_says(store: Store) -> None:
    """SWF has no time-outs: a job cancelled at its limit ran out of time."""
    keep(
        store,
        job(1, outcome="cancelled", end=NOW + 10 + 3600, submit=NOW - 9000),
        job(2, outcome="cancelled", submit=NOW - 6000),
        job(3, submit=NOW - 3000),
    )
    asked = job(9, submit=NOW + 86_400)
    found = similar(store, asked, WASTED)
    assert found.tally
    assert words(found.tally) == "1 of your 3 most similar jobs failed, at the time limit"
    assert {one.job_id: one.outcome for one in found.jobs} == {
        "1": "timeout",
        "2": "cancelled",
        "3": "completed",
    }
    strict = similar(store, asked, POLICIES["papers"]).tally
    assert strict
    assert words(strict) == "2 of your 3 most similar jobs failed, 1 at the time limit"


REQUESTS = st.fixed_dictionaries(
    {
        "name": st.sampled_from([None, "fit_1", "fit_22", "prepare"]),
        "application": st.sampled_from([None, None, "vasp", "namd"]),
        "work_dir": st.sampled_from([None, "/home/ann/fit", "/scratch/ann/run7"]),
        "partition": st.sampled_from([None, "main", "long"]),
        "qos": st.sampled_from([None, "high"]),
        "cpus_asked": st.none() | st.integers(1, 4096),
        "nodes_asked": st.none() | st.integers(1, 64),
        "memory_asked": st.none() | st.integers(0, 1 << 40),
        "memory_per": st.sampled_from([None, "node", "cpu", "gpu"]),
        "time_limit": st.none() | st.integers(60, 10**6),
    }
)


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(REQUESTS, REQUESTS), min_size=1, max_size=4))
def test_the_features_measure_the_same(online: OnlineFeatures, pairs: list[tuple[Any, Any]]) -> None:
    """All but GPUs and scripts, which the features do not keep of ended jobs."""
    for asked, before in pairs:
        number = 10 * len(online_users)
        online_users.append(f"u{number}")
        fields = {"user": online_users[-1], "outcome": None, "start": None, "end": None}
        earlier = job(number, **(fields | before))
        new = job(number + 1, **(fields | asked))
        online.submit(earlier)
        online.ended(job(number, **(fields | before | {"outcome": "completed"})), NOW + 10 * number)
        row = online.submit(new)
        assert row[L.F_SIMILAR_BEST] == pytest.approx(similarity(new, earlier), rel=1e-9, abs=1e-300)


online_users: list[str] = []


@pytest.fixture(scope="module")
def online() -> OnlineFeatures:
    return OnlineFeatures("c", WASTED)
