"""Lists of jobs: sorted by hours at risk, filtered, restricted to what the caller may see, paged."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.config import Config
from forewarn.errors import StoreError, UsageError
from forewarn.job.record import Job
from forewarn.operate.job_list import MOST, ORDERS, JobList, JobListPage
from forewarn.operate.job_rows import JobRows
from forewarn.operate.visibility import Visibility
from forewarn.store.base import Store
from forewarn.store.opening import open_store
from tests.operate.job_homes import write_assessments, write_jobs

NOW = 1_800_000_000
DAY = 86400


class Clock:
    """A clock that a test sets."""

    now = float(NOW)

    def __call__(self) -> float:
        return self.now


def pending(number: int, user: str = "ann", **fields: Any) -> Job:
    given: dict[str, Any] = {"account": "physics", "partition": "main", "name": f"run{number}"}
    job: dict[str, Any] = given | {"state": "PENDING", "time_limit": 3600} | fields
    return Job(
        cluster=job.pop("cluster", "c"), job_id=str(number), submit=NOW - 1000 + number, user=user, **job
    )


def assessed(job: Job, hours: float | None, p: float | None = 0.5, **more: Any) -> dict[str, Any]:
    key = {"cluster": job.cluster, "job_id": job.job_id, "submit": job.submit, "made_at": NOW - 5}
    return {**key, "probability": p, "threshold": 0.4, "hours_at_risk": hours, "verdict": "warning", **more}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(Config(home=tmp_path / "home")) as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def jobs(store: Store, clock: Clock) -> JobList:
    """Six jobs of three users: 1 to 6 with 1, 2, … hours at risk, but 4, which has no assessment."""
    rows = [
        pending(1),
        pending(2, "bob", account="chemistry", partition="gpu,long"),
        pending(3, "cy", account="chemistry", state="RUNNING", start=NOW - 10),
        pending(4, name=None),
        pending(5, state="FAILED", outcome="failed", start=NOW - 90, end=NOW - 80),
        pending(6, "bob", name="Solver"),
    ]
    write_jobs(store, rows, seen_at=NOW - 10)
    causes = {1: "timeout", 2: "out_of_memory"}
    write_assessments(
        store,
        (
            assessed(
                job, float(job.job_id), 0.1 * int(job.job_id), cause=causes.get(int(job.job_id), "failed")
            )
            for job in rows
            if job.job_id != "4"
        ),
    )
    return JobList(store, clock=clock)


def ids(page: JobListPage) -> str:
    return "".join(job.job["job_id"] for job in page.jobs)


def test_the_most_hours_at_risk_come_first_then_those_without_then_ended_jobs(jobs: JobList) -> None:
    page = jobs.page()
    assert (ids(page), page.total, page.next) == ("632145", 6, None)
    first, *_, last, ended = page.to_json()["jobs"]
    assert (first["user"], first["name"], first["assessment"]["hours_at_risk"]) == ("bob", "Solver", 6.0)
    assert (first["assessment"]["warns"], first["assessment"]["made_at"]) == (True, NOW - 5)
    assert last["assessment"] is None
    assert (ended["state"], ended["assessment"]["hours_at_risk"]) == ("FAILED", 5.0)
    assert json.loads(json.dumps(page.to_json()))["order"] == "hours_at_risk"


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ({"user": "bob"}, "62"),
        ({"user": ["bob", "cy"]}, "632"),
        ({"account": "chemistry"}, "32"),
        ({"partition": "long"}, "2"),
        ({"state": "pending"}, "6214"),
        ({"state": "running,failed"}, "35"),
        ({"cluster": "c"}, "632145"),
        ({"cluster": "d"}, ""),
        ({"job_id": "3,4"}, "34"),
        ({"verdict": "warning"}, "63215"),
        ({"verdict": "fine"}, ""),
        ({"cause": "timeout,out_of_memory"}, "21"),
        ({"phase": "submit"}, "63215"),
        ({"phase": "start"}, ""),
        ({"least_probability": 0.3}, "635"),
        ({"warns": True}, "65"),
        ({"warns": False}, "3214"),
        ({"search": "SOLV"}, "6"),
        ({"search": "run"}, "3215"),
        ({"search": ".*"}, ""),
        ({"since": NOW - 997}, "6345"),
        ({"until": NOW - 997}, "21"),
        ({"user": "bob", "cause": "failed"}, "6"),
    ],
)
def test_filters(jobs: JobList, which: Any, expected: str) -> None:
    page = jobs.page(**which)
    assert (ids(page), page.total) == (expected, len(expected))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"order": "shoe size"}, {"limit": 0}, {"limit": MOST + 1}, {"limit": True}, {"limit": "7"}),
        *({"verdict": "good"}, {"cause": "x' OR 1=1"}, {"phase": "ended"}, {"least_probability": 2}),
        *({"least_probability": True}, {"search": "x" * 201}, {"state": "asleep"}, {"shoe": 1}),
        *({"search": "\ud800"}, {"user": ["\ud800"]}, {"job_id": "1; DROP TABLE"}),
    ],
)
def test_bad_input_is_refused_by_name(jobs: JobList, wrong: Any) -> None:
    with pytest.raises(UsageError):
        jobs.page(**wrong)


def test_who_may_see_less_gets_less_also_in_counts_and_pages(jobs: JobList) -> None:
    bob = Visibility.of(users=["bob"])
    assert (ids(jobs.page(visible=bob)), jobs.page(visible=bob).total) == ("62", 2)
    coordinator = Visibility.of(users=["ann"], accounts=["chemistry"])
    assert ids(jobs.page(visible=coordinator)) == "32145"
    assert jobs.page(visible=Visibility()).total == 0
    assert jobs.page(visible=bob, user="ann").total == 0, "a filter does not widen it"
    assert jobs.page(visible=bob, search="run1").total == 0
    page = jobs.page(visible=bob, limit=1)
    assert (ids(page), page.total) == ("6", 2)
    rest = jobs.page(visible=bob, limit=1, after=page.next)
    assert (ids(rest), rest.next) == ("2", None)


def test_a_job_without_user_or_account_is_nobodys(store: Store, clock: Clock) -> None:
    write_jobs(store, [pending(1, account=None), Job(cluster="c", job_id="2", submit=NOW - 5)])
    listed = JobList(store, clock=clock)
    assert ids(listed.page(visible=Visibility.of(users=["ann"], accounts=["physics"]))) == "1"
    assert listed.page(visible=Visibility.of(accounts=["x"])).total == 0
    assert listed.page().total == 2


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("descending", [True, False, None])
def test_pages_hold_every_job_once_in_every_order(
    store: Store, clock: Clock, order: str, descending: bool | None
) -> None:
    dice = random.Random(order)
    rows = [
        pending(
            n,
            dice.choice("abc"),
            partition=dice.choice(["p", "q", None]),
            nodes_asked=dice.choice([1, 2, None]),
            outcome=dice.choice(["failed", None]),
        )
        for n in range(40)
    ]
    write_jobs(store, rows, seen_at=NOW - 10)
    write_assessments(store, (assessed(job, dice.choice([None, 1.5, 2.5])) for job in rows[:30]))
    listed = JobList(store, clock=clock)
    whole = [job.job["job_id"] for job in listed.page(order=order, descending=descending).jobs]
    assert sorted(map(int, whole)) == list(range(40))
    found: list[str] = []
    after = None
    while True:
        page = listed.page(order=order, descending=descending, limit=7, after=after)
        found += [job.job["job_id"] for job in page.jobs]
        if (after := page.next) is None:
            break
    assert found == whole


def test_jobs_that_come_between_two_pages_move_no_other(jobs: JobList, store: Store, clock: Clock) -> None:
    first = jobs.page(limit=2)
    assert ids(first) == "63"
    new = [pending(7), pending(8)]
    write_jobs(store, new, seen_at=NOW - 1)
    write_assessments(store, [assessed(new[0], 10.0), assessed(new[1], 2.5)])
    clock.now += 2
    second = jobs.page(limit=2, after=first.next)
    assert (ids(second), second.total) == ("82", 8), "what comes after the place is shown, what is before not"
    assert ids(jobs.page(limit=1)) == "7"


def test_a_cursor_belongs_to_its_list_and_is_checked(jobs: JobList) -> None:
    after = jobs.page(limit=2).next
    assert after is not None
    for other in (
        {"user": "bob"},
        {"order": "submit"},
        {"descending": False},
        {"visible": Visibility.of(["a"])},
    ):
        with pytest.raises(UsageError, match="belongs to a list with other filters"):
            jobs.page(after=after, **other)
    list_hash = json.loads(base64.urlsafe_b64decode(after + "=="))[0]
    forged: list[Any] = [
        *(["text", 1, "c", "1"], [1, 1e300, "c", "1"], [1, True, "c", "1"]),
        *([10**30, 1, "c", "1"], [{}, 1, "c", "1"], [1, 1, "\ud800", "1"]),
        *([float("nan"), 1, "c", "1"], [1, 1, None, "1"]),
    ]
    forged = [[list_hash, False, *place] for place in forged]
    forged += [[list_hash, 0, 1, 1, "c", "1"], [list_hash, None, 1, 1, "c", "1"], [list_hash], {}, None, 5]
    texts = [base64.urlsafe_b64encode(json.dumps(one).encode()).decode() for one in forged]
    for text in ("", "!", "é", "A", "x" * 5000, "[" * 3000, *texts):
        with pytest.raises(UsageError, match="after: "):
            jobs.page(after=text)


def test_it_follows_what_is_observed_and_assessed(jobs: JobList, store: Store, clock: Clock) -> None:
    assert ids(jobs.page()) == "632145"
    write_jobs(store, [pending(1, state="RUNNING", start=NOW)], seen_at=NOW)
    write_assessments(store, [assessed(pending(4), 9.0)])
    assert ids(jobs.page()) == "632145", "not within the same second"
    clock.now += 1.5
    page = jobs.page(limit=1)
    assert ids(page) == "4"
    assert ids(jobs.page(state="running")) == "31"
    newer = assessed(pending(1), 20.0, phase="start", made_at=NOW + 1)
    write_assessments(store, [newer])
    clock.now += 1.5
    (first,) = jobs.page(limit=1).jobs
    assert first.assessment is not None
    assert (first.job["job_id"], first.assessment["phase"], first.assessment["hours_at_risk"]) == (
        "1",
        "start",
        20.0,
    )


@pytest.mark.slow
def test_updates_give_the_same_rows_as_a_new_read(store: Store) -> None:
    dice = random.Random(3)
    rows = JobRows.read(store, NOW - 30 * DAY)
    for round_number in range(12):
        changed = [
            pending(
                dice.randrange(30),
                cluster=dice.choice("cd"),
                state=dice.choice(["PENDING", "RUNNING"]),
                nodes_asked=round_number,
            )
            for _ in range(4)
        ]
        write_jobs(store, {job.key: job for job in changed}.values(), seen_at=NOW + round_number)
        assessments = {
            job.key: assessed(job, dice.random(), made_at=NOW + round_number // 2) for job in changed[:2]
        }
        write_assessments(store, assessments.values())
        rows = rows.updated(store)
        assert rows.frame.equals(JobRows.read(store, NOW - 30 * DAY).frame)
    assert rows.updated(store) is rows
    assert rows.frame.height > 20


def test_older_jobs_are_read_from_the_store_when_asked_for(store: Store, clock: Clock) -> None:
    old = Job(
        cluster="c", job_id="1", submit=NOW - 90 * DAY, user="ann", outcome="failed", end=NOW - 89 * DAY
    )
    write_jobs(store, [old, pending(2)])
    listed = JobList(store, clock=clock)
    assert ids(listed.page()) == "2"
    assert ids(listed.page(since=NOW - 100 * DAY)) == "21"
    assert ids(listed.page(since=NOW - 100 * DAY, until=NOW - 80 * DAY)) == "1"
    assert listed.page(since=NOW - 100 * DAY, visible=Visibility.of(["bob"])).total == 0


def test_old_jobs_leave_with_time(store: Store, clock: Clock) -> None:
    write_jobs(store, [pending(1)])
    listed = JobList(store, clock=clock)
    assert listed.page().total == 1
    clock.now += 31 * DAY
    assert listed.page().total == 0


def test_a_store_that_cannot_be_read_leaves_what_is_in_memory(
    jobs: JobList, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.page()

    def broken(*_: object) -> JobRows:
        raise StoreError("disk gone")

    monkeypatch.setattr(JobRows, "updated", broken)
    clock.now += 5
    assert jobs.page().total == 6


def test_an_empty_store_has_an_empty_list(store: Store) -> None:
    page = JobList(store).page()
    assert page.to_json() == {
        "jobs": [],
        "total": 0,
        "next": None,
        "order": "hours_at_risk",
        "descending": True,
    }


def task(number: int, **fields: Any) -> Job:
    return replace(pending(7, **fields), job_id=f"7_{number}", array_job_id=7, array_task_id=number)


@pytest.fixture
def array(jobs: JobList, store: Store, clock: Clock) -> JobList:
    """An array of four pending tasks, of which the second was assessed, and one that runs."""
    tasks = [task(1), task(2), task(3), task(11), task(12, state="RUNNING", start=NOW - 5)]
    write_jobs(store, tasks, seen_at=NOW - 1)
    write_assessments(store, [assessed(tasks[1], 2.5), assessed(tasks[4], 0.5, p=0.9)])
    clock.now += 2
    return jobs


def test_a_pending_array_is_listed_once_with_the_hours_of_all_its_tasks(array: JobList) -> None:
    page = array.page()
    shown = [(one.job["job_id"], one.job["pending_tasks"]) for one in page.jobs]
    assert shown == [("7_2", 4), *((n, None) for n in ("6", "3", "2", "1", "7_12", "4", "5"))]
    assert page.total == 8
    first = page.to_json()["jobs"][0]["assessment"]
    assert (first["hours_at_risk"], first["probability"], first["warns"]) == (10.0, 0.5, True)
    pages, after = "", None
    while True:
        part = array.page(limit=1, after=after)
        pages += ids(part) + " "
        if (after := part.next) is None:
            break
    assert pages.split() == [one for one, _ in shown]


def test_a_task_asked_for_by_its_id_has_the_assessment_of_its_array(array: JobList) -> None:
    rows = {one.job["job_id"]: one for one in array.page(job_id="7").jobs}
    assert rows.keys() == {"7_1", "7_2", "7_3", "7_11", "7_12"}
    hours = {one: row.assessment and row.assessment["hours_at_risk"] for one, row in rows.items()}
    assert hours == {"7_1": 2.5, "7_2": 2.5, "7_3": 2.5, "7_11": 2.5, "7_12": 0.5}
    assert {row.job["pending_tasks"] for row in rows.values()} == {None}


def test_pending_tasks_keep_the_assessment_of_one_that_starts(
    array: JobList, store: Store, clock: Clock
) -> None:
    write_jobs(store, [task(2, state="RUNNING", start=NOW + 1)], seen_at=NOW + 1)
    clock.now += 2
    rows = {one.job["job_id"]: one for one in array.page().jobs}
    first = rows["7_1"]
    assert first.assessment is not None
    assert (first.job["pending_tasks"], first.assessment["hours_at_risk"]) == (3, 7.5)
    running = rows["7_2"].assessment
    assert running is not None
    assert running["hours_at_risk"] == 2.5
    assert "7_3" not in rows
