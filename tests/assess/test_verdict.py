"""The whole in one word: what makes a job likely to fail, what is a warning, and when nothing is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.assess.assessment import (
    Assessment,
    Failure,
    Finding,
    Oddity,
    Oddness,
    Quantiles,
    Resources,
    Route,
    RunTime,
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
SOME = Quantiles(low=1, median=2, high=3)


def failing(p: float, threshold: float = 0.2) -> Failure:
    return Failure(probability=p, threshold=threshold, warns=p >= threshold, base_rate=0.1, rests_on=100)


def outgrowing(memory: float | None = None, time: float | None = None) -> Assessment:
    return replace(
        PLAIN,
        failure=failing(0.1),
        resources=Resources(memory=SOME, over_memory=memory),
        run_time=RunTime(seconds=SOME, limit=60, over_limit=time, rests_on=1),
    )


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (replace(PLAIN, failure=failing(0.05)), Verdict.FINE),
        (replace(PLAIN, failure=failing(0.3)), Verdict.WARNING),
        (replace(PLAIN, failure=failing(0.6)), Verdict.LIKELY_TO_FAIL),
        (replace(PLAIN, failure=failing(0.6, threshold=0.8)), Verdict.LIKELY_TO_FAIL),
        (outgrowing(memory=0.3), Verdict.FINE),
        (outgrowing(memory=0.6), Verdict.WARNING),
        (outgrowing(time=0.6), Verdict.WARNING),
        (outgrowing(memory=0.95), Verdict.LIKELY_TO_FAIL),
        (PLAIN, Verdict.CANNOT_SAY),
        (replace(outgrowing(memory=0.95), failure=None), Verdict.CANNOT_SAY),
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
    assert judged(replace(PLAIN, findings=errors)).summary == "it cannot go well: first (and 2 more)"


def test_exit_codes_are_those_of_a_check() -> None:
    assert [verdict.exit_code for verdict in Verdict] == [0, 1, 2, 3]
