"""Node hours at risk: by cause, what has run by then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.assess.assessment import CauseOfFailure, Failure
from forewarn.assess.hours import hours_at_risk
from tests.assess.test_advice import Lognormal

TWO = Failure(
    probability=0.5,
    threshold=0.3,
    warns=True,
    base_rate=0.1,
    rests_on=100,
    causes=(
        CauseOfFailure(outcome="timeout", kind="limit", probability=0.3),
        CauseOfFailure(outcome="failed", kind="user", probability=0.2),
    ),
)
SHORT = Lognormal(time=3600, spread=0.01)


def test_a_time_out_costs_all_of_the_limit() -> None:
    assert hours_at_risk(TWO, SHORT, 10 * 3600, 4) == pytest.approx(4 * (0.3 * 10 + 0.2 * 1), rel=0.01)


def test_what_such_failures_used_before_counts() -> None:
    spent = {("failed", "user"): 0.01}
    assert hours_at_risk(TWO, SHORT, 10 * 3600, 1, spent) == pytest.approx(0.3 * 10 + 0.2 * 0.1, rel=0.01)


def test_without_a_run_time_what_was_asked_stands_in() -> None:
    assert hours_at_risk(TWO, Lognormal(), 7200, 1) == pytest.approx(1.0)
    assert hours_at_risk(TWO, Lognormal(), None, 1) is None
    assert hours_at_risk(None, SHORT, 7200, 1) is None
    assert hours_at_risk(replace(TWO, causes=()), SHORT, 7200, 1) == pytest.approx(0.5, rel=0.01)
