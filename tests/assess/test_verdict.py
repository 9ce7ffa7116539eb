"""The whole in one word: what makes a job likely to fail, what is a warning, and when nothing is said."""

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
from forewarn.assess.verdict import judged

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


def failing(p: float, threshold: float = 0.2) -> Failure:
    return Failure(probability=p, threshold=threshold, warns=p >= threshold, base_rate=0.1, rests_on=100)


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (replace(PLAIN, failure=failing(0.05)), Verdict.FINE),
        (replace(PLAIN, failure=failing(0.3)), Verdict.WARNING),
        (replace(PLAIN, failure=failing(0.6)), Verdict.LIKELY_TO_FAIL),
        (replace(PLAIN, failure=failing(0.6, threshold=0.8)), Verdict.LIKELY_TO_FAIL),
        (replace(PLAIN, failure=failing(0.42, threshold=0.45)), Verdict.WARNING),
        (PLAIN, Verdict.CANNOT_SAY),
        (replace(PLAIN, findings=(Finding(rule="r", what="w", severity="error"),)), Verdict.LIKELY_TO_FAIL),
        (replace(PLAIN, findings=(Finding(rule="r", what="w"),)), Verdict.WARNING),
        (
            replace(PLAIN, failure=failing(0.01), findings=(Finding(rule="r", what="w", severity="note"),)),
            Verdict.FINE,
        ),
        (
            replace(PLAIN, oddness=Oddness(oddities=(Oddity(rule="r", what="w", impossible=True),))),
            Verdict.LIKELY_TO_FAIL,
        ),
        (
            replace(PLAIN, failure=failing(0.01), oddness=Oddness(oddities=(Oddity(rule="r", what="w"),))),
            Verdict.WARNING,
        ),
    ],
)
def test_the_verdict(made: Assessment, verdict: Verdict) -> None:
    assert judged(made).verdict is verdict
    assert judged(made).summary


def test_what_is_first_is_said_and_the_rest_is_counted() -> None:
    errors = tuple(Finding(rule="r", what=what, severity="error") for what in ("first", "second", "third"))
    assert judged(replace(PLAIN, findings=errors)).summary == "this job cannot run: first (and 2 more)"


def test_a_warning_says_why_where_the_numbers_would_not() -> None:
    """42 % was called fine, and 15 % a warning where 20 % of all jobs fail."""
    high = judged(replace(PLAIN, failure=failing(0.42, threshold=0.45))).summary
    assert "below this model's threshold of 45%" in high
    low = judged(replace(PLAIN, failure=replace(failing(0.15, threshold=0.12), base_rate=0.2))).summary
    assert "below the average, but above this model's threshold of 12%" in low
    plain = judged(replace(PLAIN, failure=failing(0.3))).summary
    assert "threshold" not in plain


def test_the_summary_has_the_cause_and_the_hours_at_stake() -> None:
    causes = (
        CauseOfFailure(outcome="timeout", kind="limit", probability=0.4),
        CauseOfFailure(outcome="failed", kind="user", probability=0.2),
    )
    made = replace(PLAIN, failure=replace(failing(0.6), causes=causes), hours_at_risk=12.34)
    said = "60% risk of failure, most likely at its time limit; the average is 10%; 12.3 node hours at risk"
    assert judged(made).summary == said
    # From few failures only the usual shares of causes are known, which tell nothing of this job.
    assert made.failure
    unlearnt = replace(made, failure=replace(made.failure, causes_learnt=False))
    assert judged(unlearnt).summary == said.replace(", most likely at its time limit", "")


def test_what_cannot_run_has_its_risk_once_that_is_fixed() -> None:
    error = Finding(rule="r", what="no shebang", severity="error")
    made = judged(replace(PLAIN, failure=failing(0.14), findings=(error,)))
    assert made.verdict is Verdict.LIKELY_TO_FAIL
    assert made.summary.startswith("this job cannot run: no shebang; once that is fixed: 14% risk of failure")


def test_an_estimate_without_training_says_so() -> None:
    rough = replace(PLAIN.route, model="online", version=None)
    assert "no trained model" in judged(replace(PLAIN, route=rough, failure=failing(0.2))).summary


def test_exit_codes_are_those_of_a_check() -> None:
    assert [verdict.exit_code for verdict in Verdict] == [0, 1, 2, 3]
