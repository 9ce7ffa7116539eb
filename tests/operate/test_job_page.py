"""The page of one job: record, observations, assessments over time, and whether the prediction was right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.assess.assessment import Assessment, Failure, Route, Verdict
from forewarn.config import Config
from forewarn.errors import UnknownJobError
from forewarn.job.record import Job
from forewarn.operate.job_page import JobPage, job_page
from forewarn.operate.predict import save_assessments
from forewarn.operate.visibility import Visibility
from forewarn.store.base import Store
from forewarn.store.opening import open_store
from tests.operate.job_homes import write_assessments, write_jobs

SUBMIT = 1_800_000_000
ROUTE = Route(model="c.submit.generic", version=2, phase="submit", feature_set="generic")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(Config(home=tmp_path / "home")) as opened:
        yield opened


def job(state: str = "PENDING", **fields: Any) -> Job:
    given: dict[str, Any] = {
        "cluster": "c",
        "job_id": "7",
        "submit": SUBMIT,
        "user": "ann",
        "account": "physics",
    }
    return Job(**given | {"state": state} | fields)


def assessment(p: float, made_at: int, submit: int = SUBMIT) -> Assessment:
    failure = Failure(probability=p, threshold=0.4, warns=p >= 0.4, base_rate=0.1, rests_on=100)
    return Assessment(
        cluster="c",
        job_id="7",
        submit=submit,
        user="ann",
        name=None,
        partition=None,
        made_at=made_at,
        phase="submit",
        route=ROUTE,
        failure=failure,
        verdict=Verdict.WARNING,
    )


def page(store: Store, **which: Any) -> JobPage:
    return job_page(store, "7", policy="wasted", **which)


def test_a_pending_job_has_no_result_yet(store: Store) -> None:
    write_jobs(store, [job()], seen_at=SUBMIT + 1)
    save_assessments(store, [assessment(0.2, SUBMIT + 2), assessment(0.6, SUBMIT + 50)])
    found = page(store)
    assert (found.job.user, found.known_at, found.result) == ("ann", None, None)
    assert [(one.made_at, one.warns) for one in found.assessments] == [
        (SUBMIT + 2, False),
        (SUBMIT + 50, True),
    ]
    assert found.newest == assessment(0.6, SUBMIT + 50)
    assert [change.changed["state"] for change in found.observations] == ["PENDING"]


@pytest.mark.parametrize(
    ("outcome", "last", "right"),
    [("failed", 0.6, True), ("completed", 0.6, False), ("failed", 0.1, False), ("completed", 0.1, True)],
)
def test_the_last_prediction_before_the_end_is_compared_with_the_outcome(
    store: Store, outcome: str, last: float, right: bool
) -> None:
    write_jobs(store, [job()], seen_at=SUBMIT + 1)
    ended = job(outcome.upper(), outcome=outcome, start=SUBMIT + 10, end=SUBMIT + 60)
    write_jobs(store, [ended], seen_at=SUBMIT + 61)
    save_assessments(store, [assessment(0.5, SUBMIT + 2), assessment(last, SUBMIT + 30)])
    save_assessments(store, [assessment(1 - last, SUBMIT + 70)])  # after the end: no prediction
    found = page(store)
    assert found.result is not None
    assert (found.result.failed, found.result.is_right) == (outcome == "failed", right)
    assert found.result.assessment.made_at == SUBMIT + 30
    assert found.known_at == SUBMIT + 61
    value = json.loads(json.dumps(found.to_json()))
    assert (value["outcome"], value["prediction"]["right"]) == (outcome, right)
    assert value["newest_assessment"]["made_at"] == SUBMIT + 70
    assert [one["changed"].get("state") for one in value["observations"]] == ["PENDING", outcome.upper()]


def test_outside_the_population_and_without_a_model_there_is_no_right_or_wrong(store: Store) -> None:
    write_jobs(store, [job("CANCELLED", outcome="cancelled", end=SUBMIT + 60)])
    save_assessments(store, [assessment(0.5, SUBMIT + 2)])
    assert page(store).result is None
    write_jobs(store, [job("FAILED", outcome="failed", end=SUBMIT + 90, submit=SUBMIT + 80)])
    key = {"cluster": "c", "job_id": "7", "submit": SUBMIT + 80, "made_at": SUBMIT + 81, "model": "none"}
    write_assessments(store, [key])
    found = page(store)
    assert found.result is not None
    assert (found.result.is_right, found.result.failed) == (None, True)
    assert (found.assessments[0].model, found.newest) == (None, None)


def test_of_several_jobs_with_one_id_the_newest_or_the_one_asked_for(store: Store) -> None:
    rows = [job(), job(submit=SUBMIT + 500), job(submit=SUBMIT + 900, cluster="d")]
    write_jobs(store, rows, seen_at=SUBMIT + 901)
    save_assessments(store, [assessment(0.2, SUBMIT + 2), assessment(0.6, SUBMIT + 502, SUBMIT + 500)])
    assert page(store).job.cluster == "d"
    newest = page(store, cluster="c")
    assert (newest.job.submit, newest.other_submits) == (SUBMIT + 500, (SUBMIT,))
    assert [one.probability for one in newest.assessments] == [0.6]
    first = page(store, cluster="c", submit=SUBMIT)
    assert ([one.probability for one in first.assessments], first.other_submits) == ([0.2], (SUBMIT + 500,))
    assert len(first.observations) == 1


def test_the_number_of_an_array_is_its_most_informative_task(store: Store) -> None:
    def task(number: int, state: str, **more: Any) -> Job:
        return job(state, job_id=f"90_{number}", array_job_id=90, array_task_id=number, **more)

    def ended(number: int, state: str) -> Job:
        return task(
            number, state, outcome=state.lower(), end=SUBMIT + 60, user="bob" if number > 3 else "ann"
        )

    rows = [
        ended(1, "COMPLETED"),
        ended(2, "FAILED"),
        task(3, "RUNNING", start=SUBMIT + 2),
        ended(4, "FAILED"),
    ]
    write_jobs(store, rows, seen_at=SUBMIT + 61)

    def shown(**which: Any) -> tuple[str, str | None, int]:
        found = job_page(store, "90", policy="wasted", **which)
        return found.job.job_id, found.job.outcome, len(found.observations)

    assert shown() == ("90_2", "failed", 1)
    assert shown(visible=Visibility.of(users=["bob"])) == ("90_4", "failed", 1)
    with pytest.raises(UnknownJobError):
        shown(cluster="d")
    with pytest.raises(UnknownJobError):
        shown(visible=Visibility.of(users=["cy"]))


@pytest.mark.parametrize(
    "job_id", ["8", "99999999999999999999", "", "7'; DROP TABLE assessment", "\x1b[2J", "../7", "\ud800"]
)
def test_an_unknown_job_is_an_error_of_its_own(store: Store, job_id: str) -> None:
    write_jobs(store, [job()])
    with pytest.raises(UnknownJobError, match="no job"):
        job_page(store, job_id, policy="wasted")
    assert page(store).job.job_id == "7"


def test_a_job_of_somebody_else_is_as_unknown_as_none(store: Store) -> None:
    write_jobs(store, [job(), job(cluster="d", user="bob")], seen_at=SUBMIT)
    with pytest.raises(UnknownJobError) as hidden:
        page(store, visible=Visibility.of(users=["cy"]))
    with pytest.raises(UnknownJobError) as absent:
        job_page(store, "8", policy="wasted", visible=Visibility.of(users=["cy"]))
    assert str(hidden.value) == str(absent.value).replace("8", "7")
    assert page(store, visible=Visibility.of(users=["bob"])).job.cluster == "d"
    assert page(store, visible=Visibility.of(accounts=["physics"]), cluster="c").job.user == "ann"
