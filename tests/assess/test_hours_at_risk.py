"""Node hours at risk: by cause, what has run by then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from forewarn.assess.assessment import CauseOfFailure, Failure
from forewarn.assess.codes import HoursCode
from forewarn.assess.hours_at_risk import CauseKey, hours_at_risk
from forewarn.assess.wording import words

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
SHORT = 3600.0  # seconds that it is foreseen to run


def hours(
    failure: Failure, run_time: float | None, limit: int, nodes: int, spent: Mapping[CauseKey, float] = {}
) -> float:
    found = hours_at_risk(failure, run_time, limit, nodes, spent)
    assert found is not None
    return found.hours


def test_a_time_out_costs_all_of_the_limit() -> None:
    assert hours(TWO, SHORT, 10 * 3600, 4) == pytest.approx(4 * (0.3 * 10 + 0.2 * 1), rel=0.01)


def test_what_such_failures_used_before_counts() -> None:
    spent: dict[tuple[str, str | None], float] = {("failed", "user"): 0.01}
    assert hours(TWO, SHORT, 10 * 3600, 1, spent) == pytest.approx(0.3 * 10 + 0.2 * 0.1, rel=0.01)


def test_without_a_run_time_what_was_asked_stands_in() -> None:
    assert hours(TWO, None, 7200, 1) == pytest.approx(1.0)
    assert hours_at_risk(TWO, None, None, 1) is None
    assert hours_at_risk(None, SHORT, 7200, 1) is None
    assert hours(replace(TWO, causes=()), SHORT, 7200, 1) == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize(
    ("run_time", "spent", "code", "shares"),
    [
        (SHORT, {("failed", "user"): 0.01}, HoursCode.BY_CAUSE, (1.0, 0.01)),
        (SHORT, {}, HoursCode.BY_RUN_TIME, (1.0,)),
        (None, {}, HoursCode.BY_TIME_LIMIT, (1.0,)),
    ],
)
def test_how_they_were_estimated_is_stated(
    run_time: float | None, spent: Mapping[CauseKey, float], code: HoursCode, shares: tuple[float, ...]
) -> None:
    found = hours_at_risk(TWO, run_time, 36_000, 4, spent)
    assert found is not None
    assert found.by.code is code
    values = found.by.values
    assert (values["nodes"], values["limit"], values["shares"]) == (4, 36_000, shares)
    assert (values["run_time"] is None) == (code is HoursCode.BY_TIME_LIMIT)
    assert words(found.by).startswith("on 4 nodes; ")
