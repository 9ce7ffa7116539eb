"""A job is routed to the generic model, else the restricted one, else the online regression, else to none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from forewarn.assess.assessment import Route
from forewarn.assess.champions import Champions
from forewarn.assess.codes import NoteCode, PassCode
from forewarn.assess.risk_parts import OwnFailures
from forewarn.assess.routing import FEWEST_ENDED, FEWEST_FOR_NEW, FEWEST_OWN, ModelAnswer, route_jobs
from forewarn.evidence import Statement, Values
from forewarn.features.kernel.layout import FEATURES
from forewarn.features.slurm_field_differences import ReadingCode
from forewarn.job.record import Job
from forewarn.learn.data.table import JobTable, live_table
from forewarn.learn.families.base import probabilities
from forewarn.learn.fitting.calibration import Calibration
from forewarn.learn.fitting.evidence_levels import AbstentionCode
from forewarn.learn.fitting.pooling import Excess
from forewarn.learn.registry.bundle import Bundle
from forewarn.learn.registry.serving import Serving
from forewarn.store.base import ClusterFacts
from tests.assess.served import JOBS, RATE, promote, small_bundle

NO_JOB_ALIKE, FEW_ALIKE = 3, 4  # levels of evidence of a model with histories
REQUEST_UNKNOWN = 0  # of one without
# Features of a job that its user ran often, of one that is new to its user, and of one that sets no option.
OFTEN = {"user_ended": 20.0, "user_request_ended": 8.0, "user_name_ended": 8.0, "cpus": 4.0, "online": -1.0}
NEW = OFTEN | {"user_request_ended": 0.0, "user_name_ended": 0.0, "online": 0.5}
TWICE = OFTEN | {"user_request_ended": 2.0, "user_name_ended": 1.0, "online": 1.5}
NO_OPTION = {"cpus": np.nan}
EVIDENCE = {"jobs": JOBS, "failure_rate": RATE}


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    return Serving(tmp_path / "models")


def job_table(*jobs: Mapping[str, float], phase: str = "submit") -> JobTable:
    """Return a table of jobs with some features; all others are missing."""
    names = [feature.name for feature in FEATURES]
    rows = np.full((len(jobs), len(names)), np.nan)
    for row, features in zip(rows, jobs, strict=True):
        for name, value in features.items():
            row[names.index(name)] = value
    records = [Job(cluster="alps", job_id=str(i), submit=0, user="ann") for i in range(len(jobs))]
    return live_table("alps", phase, records, rows, 0, ClusterFacts())


def routed(
    serving: Serving,
    *jobs: Mapping[str, float],
    ended: int = 5000,
    recent_rate: float | None = 0.2,
    phase: str = "submit",
) -> list[ModelAnswer]:
    table = job_table(*jobs, phase=phase)
    return route_jobs(table, Champions("alps", serving), ended=ended, recent_rate=recent_rate)


def probability(bundle: Bundle, job: Mapping[str, float]) -> float:
    return float(bundle.calibration(np.array([job["online"]]))[0])


def codes(answer: ModelAnswer) -> list[tuple[object, object]]:
    return [(reason.values.get("model"), reason.code) for reason in answer.route.passed]


def test_the_generic_model_answers(serving: Serving) -> None:
    bundle = small_bundle()
    promote(serving, bundle, 7)
    promote(serving, small_bundle(feature_set="restricted"), 3)
    (answer,) = routed(serving, OFTEN)
    assert answer.route == Route(
        model="alps.submit.generic", version=7, phase="submit", feature_set="generic"
    )
    failure = answer.failure
    assert failure is not None
    assert failure.probability == pytest.approx(probability(bundle, OFTEN))
    assert failure.model_probability == failure.probability
    assert (failure.base_rate, failure.rests_on) == (bundle.base_rate, bundle.jobs)
    assert failure.threshold == bundle.chosen.value
    assert failure.warns == (failure.probability >= failure.threshold)
    assert answer.without_forecast == failure, "this bundle has no forecasts"
    assert answer.champion is not None
    assert answer.champion.version == 7


def test_the_restricted_model_answers_where_the_generic_one_abstains(serving: Serving) -> None:
    restricted = small_bundle(2, feature_set="restricted")
    promote(serving, small_bundle(abstains_at=(NO_JOB_ALIKE,)), 1)
    promote(serving, restricted, 5)
    (answer,) = routed(serving, NEW)
    reason = Statement(AbstentionCode.NONE_ALIKE, {"model": "generic", **EVIDENCE})
    assert answer.route == Route(
        model="alps.submit.restricted",
        version=5,
        phase="submit",
        feature_set="restricted",
        passed=(reason,),
    )
    assert answer.failure is not None
    assert answer.failure.probability == pytest.approx(probability(restricted, NEW))


def test_the_online_regression_answers_where_both_models_abstain(serving: Serving) -> None:
    promote(serving, small_bundle(abstains_at=(FEW_ALIKE,)), 1)
    promote(serving, small_bundle(feature_set="restricted", abstains_at=(REQUEST_UNKNOWN,)), 1)
    job = TWICE | NO_OPTION
    (answer,) = routed(serving, job, ended=300, recent_rate=0.15)
    assert answer.route == Route(
        model="online",
        version=None,
        phase="submit",
        feature_set=None,
        passed=(
            Statement(AbstentionCode.FEW_ALIKE, {"model": "generic", **EVIDENCE}),
            Statement(AbstentionCode.REQUEST_UNKNOWN, {"model": "restricted", **EVIDENCE}),
        ),
    )
    failure = answer.failure
    assert failure is not None
    assert failure.probability == pytest.approx(float(probabilities(np.array([job["online"]]))[0]))
    assert (failure.base_rate, failure.rests_on, failure.threshold) == (0.15, 300, 0.3)
    assert failure.warns
    assert answer.champion is None


def test_none_answers_for_a_job_that_is_new_to_the_models_and_to_the_regression(serving: Serving) -> None:
    promote(serving, small_bundle(abstains_at=(NO_JOB_ALIKE,)), 1)
    promote(serving, small_bundle(feature_set="restricted", abstains_at=(REQUEST_UNKNOWN,)), 1)
    (answer,) = routed(serving, NEW | NO_OPTION, ended=100_000)
    assert answer.route == Route(
        model=None,
        version=None,
        phase="submit",
        feature_set=None,
        passed=(
            Statement(AbstentionCode.NONE_ALIKE, {"model": "generic", **EVIDENCE}),
            Statement(AbstentionCode.REQUEST_UNKNOWN, {"model": "restricted", **EVIDENCE}),
            Statement(PassCode.NOTHING_LIKE_IT, {"model": "online"}),
        ),
    )
    assert (answer.failure, answer.without_forecast, answer.champion, answer.matrix) == (None,) * 4


@pytest.mark.parametrize(
    ("job", "ended", "own", "needed"),
    [
        (OFTEN, FEWEST_ENDED - 1, 20, FEWEST_ENDED),
        (OFTEN, FEWEST_ENDED, FEWEST_OWN - 1, FEWEST_ENDED),
        (NEW, FEWEST_FOR_NEW - 1, 20, FEWEST_FOR_NEW),
    ],
)
def test_without_a_model_the_regression_needs_jobs(
    serving: Serving, job: dict[str, float], ended: int, own: int, needed: int
) -> None:
    (answer,) = routed(serving, job | {"user_ended": float(own)}, ended=ended)
    missing: Values = {
        "model": "online",
        "jobs": ended,
        "jobs_of_user": own,
        "is_new": job is NEW,
        "jobs_needed": needed,
        "jobs_of_user_needed": FEWEST_OWN,
    }
    assert answer.route.model is None
    assert answer.route.passed == (
        Statement(PassCode.NO_MODEL),
        Statement(PassCode.TOO_FEW_JOBS, missing),
    )
    assert answer.failure is None


@pytest.mark.parametrize(("job", "ended"), [(OFTEN, FEWEST_ENDED), (NEW, FEWEST_FOR_NEW)])
def test_without_a_model_the_regression_answers_from_enough_jobs_on(
    serving: Serving, job: dict[str, float], ended: int
) -> None:
    (answer,) = routed(serving, job | {"user_ended": float(FEWEST_OWN)}, ended=ended)
    assert answer.route.model == "online"
    assert answer.route.passed == (Statement(PassCode.NO_MODEL),)
    assert answer.failure is not None
    (unknown,) = routed(serving, job, ended=ended, recent_rate=None)
    assert unknown.route.model is None, "without a recent failure rate there is no threshold"


def test_the_regression_is_calibrated_by_its_own_record() -> None:
    table = job_table(OFTEN)
    platt = Calibration("platt", 0.5, -1.0)
    (answer,) = route_jobs(
        table, Champions("alps", None), ended=5000, recent_rate=0.2, untrained=lambda: platt
    )
    assert answer.failure is not None
    assert answer.failure.probability == pytest.approx(float(platt(np.array([OFTEN["online"]]))[0]))


def test_the_user_s_failures_of_the_same_job_raise_the_regression_s_risk(serving: Serving) -> None:
    always_failed = {"user_name_request_streak": 5.0, "user_name_request_rate100": 1.0}
    plain, failing = routed(serving, OFTEN, OFTEN | always_failed)
    assert plain.failure is not None
    assert failing.failure is not None
    assert failing.failure.model_probability == plain.failure.probability
    assert failing.failure.probability > plain.failure.probability + 0.1


def test_a_model_s_answer_has_the_user_s_own_failures(serving: Serving) -> None:
    promote(serving, small_bundle(), 1)
    killed = {
        "user_name_request_streak": 5.0,
        "user_name_request_rate100": 1.0,
        "user_name_memory15": 1.0,
        "user_name_limit15": 0.0,
    }
    plain, failing = routed(serving, OFTEN, OFTEN | killed)
    assert plain.own_failures == OwnFailures(0.0, 0.0, 0.0)
    assert failing.own_failures == OwnFailures(5.0, 1.0, 0.0)


def test_each_job_of_a_table_has_its_own_route(serving: Serving) -> None:
    generic = small_bundle(abstains_at=(NO_JOB_ALIKE, FEW_ALIKE))
    restricted = small_bundle(2, feature_set="restricted", abstains_at=(REQUEST_UNKNOWN,))
    promote(serving, generic, 1)
    promote(serving, restricted, 1)
    jobs = [NEW, OFTEN, NEW | NO_OPTION, TWICE | NO_OPTION, OFTEN | {"online": 2.0}, TWICE]
    answers = routed(serving, *jobs)
    assert [answer.route.model for answer in answers] == [
        "alps.submit.restricted", "alps.submit.generic", None, "online", "alps.submit.generic",
        "alps.submit.restricted",
    ]  # fmt: skip
    assert [codes(answer) for answer in answers] == [
        [("generic", AbstentionCode.NONE_ALIKE)],
        [],
        [
            ("generic", AbstentionCode.NONE_ALIKE),
            ("restricted", AbstentionCode.REQUEST_UNKNOWN),
            ("online", PassCode.NOTHING_LIKE_IT),
        ],
        [("generic", AbstentionCode.FEW_ALIKE), ("restricted", AbstentionCode.REQUEST_UNKNOWN)],
        [],
        [("generic", AbstentionCode.FEW_ALIKE)],
    ]
    for place, bundle in ((0, restricted), (1, generic), (4, generic), (5, restricted)):
        answer, job = answers[place], jobs[place]
        assert answer.failure is not None
        assert answer.failure.probability == pytest.approx(probability(bundle, job))
        assert answer.matrix is not None
        seen = answer.matrix.values[answer.row, answer.matrix.names.index("online")]
        assert seen == job["online"], "the row of the matrix is this job's"


def test_a_model_that_learnt_with_other_treatments_of_fields_is_passed_over(serving: Serving) -> None:
    promote(serving, small_bundle(reading={"cpus_asked": "hidden"}), 1)
    promote(serving, small_bundle(feature_set="restricted"), 1)
    (answer,) = routed(serving, OFTEN)
    assert answer.route.model == "alps.submit.restricted"
    (reason,) = answer.route.passed
    assert (reason.code, reason.values["model"]) == (ReadingCode.OTHERWISE, "generic")
    assert reason.values["fields"] == ("cpus_asked",)


def test_a_model_of_another_phase_does_not_answer(serving: Serving) -> None:
    promote(serving, small_bundle(), 1)
    (answer,) = routed(serving, OFTEN, phase="start")
    assert (answer.route.model, answer.route.phase) == ("online", "start")
    assert answer.route.passed == (Statement(PassCode.NO_MODEL),)


def test_a_model_that_serves_against_its_report_is_recorded_with_a_caveat(serving: Serving) -> None:
    promote(serving, small_bundle(may_serve=False), 2)
    (answer,) = routed(serving, OFTEN)
    values: Values = {"model": "alps.submit.generic", "version": 2}
    assert answer.route.caveat == Statement(NoteCode.AGAINST_REPORT, values)


def test_forecasts_are_computed_only_for_models_that_are_asked(serving: Serving) -> None:
    promote(serving, small_bundle(abstains_at=(NO_JOB_ALIKE,)), 1)
    promote(serving, small_bundle(feature_set="restricted"), 1)
    asked: list[str] = []

    def excess(bundle: Bundle) -> Excess:
        asked.append(bundle.facts.feature_set)
        return {}

    champions = Champions("alps", serving)
    route_jobs(job_table(OFTEN), champions, excess=excess, ended=5000, recent_rate=0.2)
    assert asked == ["generic"]
    route_jobs(job_table(OFTEN, NEW), champions, excess=excess, ended=5000, recent_rate=0.2)
    assert asked == ["generic", "generic", "restricted"]
