"""Verdicts: when a job is likely to fail, when there is a warning, and when there is no verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.assess.assessment import (
    Assessment,
    CauseOfFailure,
    Failure,
    Finding,
    Oddity,
    Oddness,
    Route,
    Verdict,
)
from forewarn.assess.codes import OddityCode, SummaryCode
from forewarn.assess.finding_codes import FindingCode
from forewarn.assess.risk_parts import OwnFailures, with_own_failures
from forewarn.assess.verdict import with_verdict
from forewarn.assess.wording import summary
from forewarn.evidence import Statement
from forewarn.learn.fitting.evidence_levels import AbstentionCode
from forewarn.serve.cli.commands.predict import _cells

PLAIN = Assessment(
    cluster="c",
    job_id=None,
    submit=0,
    user="ann",
    name="run",
    partition="main",
    made_at=0,
    phase="submit",
    route=Route(model="c.submit.generic", version=1, phase="submit", feature_set="generic"),
)


ERROR = Finding(rule="r", code=FindingCode.EMPTY_SCRIPT, severity="error")
DOUBT = Finding(rule="r", code=FindingCode.NO_CONDA, values={"environment": "x"})
NOTE = replace(DOUBT, severity="note")
ODD = Oddity(rule="r", code=OddityCode.NO_NODE_FITS, values={"partition": ""})


def summary_of(assessment: Assessment) -> str:
    return summary(with_verdict(assessment))


def failing(p: float, threshold: float = 0.2) -> Failure:
    return Failure(probability=p, threshold=threshold, warns=p >= threshold, base_rate=0.1, rests_on=100)


@pytest.mark.parametrize(
    ("assessment", "verdict"),
    [
        (replace(PLAIN, failure=failing(0.05)), Verdict.FINE),
        (replace(PLAIN, failure=failing(0.3)), Verdict.WARNING),
        (replace(PLAIN, failure=failing(0.6)), Verdict.LIKELY_TO_FAIL),
        (replace(PLAIN, failure=failing(0.6, threshold=0.8)), Verdict.LIKELY_TO_FAIL),
        (replace(PLAIN, failure=failing(0.42, threshold=0.45)), Verdict.WARNING),
        (replace(PLAIN, failure=replace(failing(0.35, threshold=0.5), base_rate=0.34)), Verdict.CANNOT_SAY),
        (replace(PLAIN, failure=replace(failing(0.42, threshold=0.5), base_rate=0.34)), Verdict.WARNING),
        (PLAIN, Verdict.CANNOT_SAY),
        (replace(PLAIN, findings=(ERROR,)), Verdict.LIKELY_TO_FAIL),
        (replace(PLAIN, findings=(DOUBT,)), Verdict.WARNING),
        (
            replace(PLAIN, failure=failing(0.01), findings=(NOTE,)),
            Verdict.FINE,
        ),
        (
            replace(PLAIN, oddness=Oddness(oddities=(replace(ODD, impossible=True),))),
            Verdict.LIKELY_TO_FAIL,
        ),
        (
            replace(PLAIN, failure=failing(0.01), oddness=Oddness(oddities=(ODD,))),
            Verdict.WARNING,
        ),
    ],
)
def test_the_verdict(assessment: Assessment, verdict: Verdict) -> None:
    assert with_verdict(assessment).verdict is verdict
    assert summary_of(assessment)


def test_the_first_problem_is_named_and_the_others_are_counted() -> None:
    some = replace(PLAIN, findings=(ERROR, DOUBT, replace(ERROR, line=2), replace(ERROR, line=3)))
    assert (
        summary_of(some)
        == "this job cannot run: the script is empty: sbatch refuses it (and 2 more problems)"
    )
    assert with_verdict(some).summary == Statement(SummaryCode.CANNOT_RUN, {"problems": 3})


def test_a_warning_says_why_where_the_numbers_would_not() -> None:
    """42 % was called fine, and 15 % a warning where 20 % of all jobs fail."""
    high = summary_of(replace(PLAIN, failure=failing(0.42, threshold=0.45)))
    assert "below this model's threshold of 45%" in high
    low = summary_of(replace(PLAIN, failure=replace(failing(0.15, threshold=0.12), base_rate=0.2)))
    assert "below the average, but above this model's threshold of 12%" in low
    plain = summary_of(replace(PLAIN, failure=failing(0.3)))
    assert "threshold" not in plain


def test_the_summary_has_the_cause_and_the_hours_at_stake() -> None:
    causes = (
        CauseOfFailure(outcome="timeout", kind="limit", probability=0.4),
        CauseOfFailure(outcome="failed", kind="user", probability=0.2),
    )
    assessment = replace(PLAIN, failure=replace(failing(0.6), causes=causes), hours_at_risk=12.34)
    text = "60% risk of failure (cluster average 10%), most likely cause: time limit; 12.3 node hours at risk"
    assert summary_of(assessment) == text
    # From few failures only the usual shares of causes are known, which tell nothing of this job.
    assert assessment.failure
    unlearnt = replace(assessment, failure=replace(assessment.failure, causes_learnt=False))
    assert summary_of(unlearnt) == text.replace(", most likely cause: time limit", "")


def test_what_cannot_run_has_its_risk_once_that_is_fixed() -> None:
    assessment = with_verdict(replace(PLAIN, failure=failing(0.14), findings=(ERROR,)))
    assert assessment.verdict is Verdict.LIKELY_TO_FAIL
    assert "sbatch refuses it; once that is fixed: 14% risk of failure" in summary(assessment)


def test_an_estimate_without_training_says_so() -> None:
    rough = replace(PLAIN.route, model="online", version=None)
    assert "no trained model" in summary_of(replace(PLAIN, route=rough, failure=failing(0.2)))


def test_an_estimate_beside_a_model_does_not_say_that_there_is_none() -> None:
    passed = (Statement(AbstentionCode.ONE_OR_TWO, {"model": "generic"}),)
    rough = replace(PLAIN.route, model="online", version=None, passed=passed)
    text = summary_of(replace(PLAIN, route=rough, failure=failing(0.4, threshold=0.5)))
    assert ", since the model knows too few such jobs " in text
    assert "below this estimate's threshold of 50%" in text


def test_a_problem_in_the_script_is_named_beside_a_high_risk() -> None:
    for p in (0.3, 0.6):
        both = summary_of(replace(PLAIN, failure=failing(p), findings=(DOUBT,)))
        assert both.startswith("the script activates x, but there is no conda here; ")


def test_silence_is_explained_without_the_name_of_a_feature_set() -> None:
    passed = (Statement(AbstentionCode.NO_JOB, {"model": "generic"}),)
    silent = replace(PLAIN.route, model=None, passed=passed)
    assert summary_of(replace(PLAIN, route=silent)).startswith("not enough evidence: no earlier job")


def test_causes_lean_on_what_own_runs_died_of() -> None:
    """All three were killed for memory, but the page named an error of the program as the cause."""
    usual = (
        CauseOfFailure(outcome="failed", kind="user", probability=0.5),
        CauseOfFailure(outcome="timeout", kind="limit", probability=0.1),
    )
    failure = replace(failing(0.6), causes=usual, causes_learnt=False)
    killed = with_own_failures(failure, OwnFailures(3.0, 1.0, 0.0))
    assert killed.causes[0].outcome == "out_of_memory"
    assert killed.causes_learnt
    assert sum(cause.probability for cause in killed.causes) == pytest.approx(0.6)
    by_itself = with_own_failures(failure, OwnFailures(3.0, 0.0, 0.0)).causes
    assert {cause.outcome: round(cause.probability, 2) for cause in by_itself} == {
        "failed": 0.56,
        "timeout": 0.04,
    }
    assert with_own_failures(failure, OwnFailures(0.0, 1.0, 0.0)) is failure


def test_exit_codes_are_those_of_a_check() -> None:
    assert [verdict.exit_code for verdict in Verdict] == [0, 1, 2, 3]


def test_predict_names_the_cause_that_the_summary_names() -> None:
    causes = (
        CauseOfFailure(outcome="timeout", kind="limit", probability=0.25),
        CauseOfFailure(outcome="failed", kind="user", probability=0.2),
        CauseOfFailure(outcome="failed", kind="system", probability=0.15),
    )
    failure = replace(failing(0.6), causes=causes)
    assert failure.by_outcome == pytest.approx({"failed": 0.35, "timeout": 0.25})
    assessed = with_verdict(replace(PLAIN, failure=failure))
    assert "most likely cause: program error" in summary(assessed)
    assert "program error 35%" in _cells(assessed)
