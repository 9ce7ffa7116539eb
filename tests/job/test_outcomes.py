"""Tests of outcomes, kinds of failure, and failure policies."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.config import Config, resolve, settings
from forewarn.errors import UsageError
from forewarn.job.outcomes import (
    LIVE_STATES,
    OUTCOME_OF_STATE,
    POLICIES,
    FailureKind,
    Outcome,
    UnknownStateWarning,
    failure_kind,
    outcome_of_state,
)
from forewarn.job.step_outcomes import StepEnd, outcome_of_steps

OUTCOMES = st.sampled_from(Outcome)
CODES = st.none() | st.integers(0, 255)


def test_a_state_ends_a_job_or_does_not() -> None:
    assert not LIVE_STATES & OUTCOME_OF_STATE.keys()
    assert all(outcome_of_state(state) is None for state in LIVE_STATES)
    assert outcome_of_state(None) is None
    assert set(OUTCOME_OF_STATE.values()) == set(Outcome) - {Outcome.UNKNOWN}


def test_a_state_of_the_future_is_unknown_and_warned_about_once() -> None:
    with pytest.warns(UnknownStateWarning, match="EVAPORATED"):
        assert outcome_of_state("EVAPORATED") is Outcome.UNKNOWN
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert outcome_of_state("EVAPORATED") is Outcome.UNKNOWN


@given(st.none() | OUTCOMES, CODES, CODES, st.booleans())
def test_every_failure_has_a_kind(
    outcome: Outcome | None, code: int | None, signal: int | None, at_limit: bool
) -> None:
    kind = failure_kind(outcome, code, signal, ran_to_limit=at_limit)
    no_failure = outcome in (None, Outcome.COMPLETED, Outcome.UNKNOWN)
    assert (kind is None) == no_failure


@pytest.mark.parametrize(
    ("outcome", "code", "signal", "kind"),
    [
        (Outcome.OUT_OF_MEMORY, 0, 125, FailureKind.LIMIT),
        (Outcome.FAILED, 0, 125, FailureKind.LIMIT),
        (Outcome.FAILED, 0, 9, FailureKind.LIMIT),
        (Outcome.FAILED, 137, 0, FailureKind.LIMIT),  # 128 + 9, as a shell reports it
        (Outcome.FAILED, 9, 0, FailureKind.USER),  # its own code; 137 that sacct printed as 9 is read as 137
        (Outcome.FAILED, 124, 0, FailureKind.LIMIT),  # `timeout`
        (Outcome.FAILED, 143, 0, FailureKind.USER),
        (Outcome.FAILED, 107, 0, FailureKind.SYSTEM),
        (Outcome.FAILED, 135, 0, FailureKind.SYSTEM),
        (Outcome.FAILED, 1, 0, FailureKind.USER),
        (Outcome.FAILED, 139, 0, FailureKind.USER),
        (Outcome.FAILED, None, None, FailureKind.USER),
        (Outcome.NODE_FAIL, 0, 0, FailureKind.SYSTEM),
        (Outcome.CANCELLED, 0, 9, FailureKind.USER),  # scancel may end in SIGKILL: still the user's own doing
        (Outcome.CANCELLED, 0, 15, FailureKind.USER),
    ],
)
def test_kinds(outcome: Outcome, code: int | None, signal: int | None, kind: FailureKind) -> None:
    assert failure_kind(outcome, code, signal) is kind


@given(OUTCOMES, st.booleans())
def test_papers_count_everything_but_completed(outcome: Outcome, at_limit: bool) -> None:
    fails = POLICIES["papers"].fails(outcome, ran_to_limit=at_limit)
    assert fails is (None if outcome is Outcome.UNKNOWN else outcome is not Outcome.COMPLETED)


@given(OUTCOMES, st.booleans())
def test_wasted_leaves_out_what_is_noise(outcome: Outcome, at_limit: bool) -> None:
    fails = POLICIES["wasted"].fails(outcome, ran_to_limit=at_limit)
    if outcome is Outcome.CANCELLED:
        assert fails is (True if at_limit else None)
    elif outcome in (Outcome.PREEMPTED, Outcome.UNKNOWN):
        assert fails is None
    else:
        assert fails is (outcome is not Outcome.COMPLETED)


@given(st.sampled_from(sorted(POLICIES)), st.booleans())
def test_a_job_that_has_not_ended_has_not_failed(policy: str, at_limit: bool) -> None:
    assert POLICIES[policy].fails(None, ran_to_limit=at_limit) is None


def test_policies_are_those_that_can_be_configured() -> None:
    assert settings(Config)["policy"].default in POLICIES
    for name, policy in POLICIES.items():
        assert policy.name == name
        assert resolve({"policy": name}, {}).config.policy == name
    with pytest.raises(UsageError, match=", ".join(sorted(POLICIES, reverse=True))):
        resolve({"policy": "strict"}, {})


def test_a_requeued_run_of_accounting_has_ended() -> None:
    """Otherwise it would count as running forever: `sacct -D` has a record for each run."""
    assert outcome_of_state("REQUEUED") is Outcome.PREEMPTED
    assert POLICIES["wasted"].fails(Outcome.PREEMPTED) is None


# --- by steps ------------------------------------------------------------------------------------

SCRIPT = StepEnd("batch", "FAILED", 0, 100)
KILLED = StepEnd("0", "OUT_OF_MEMORY", 10, 20)


@pytest.mark.parametrize(
    ("steps", "outcome"),
    [
        ([SCRIPT, KILLED], Outcome.OUT_OF_MEMORY),
        ([SCRIPT, StepEnd("0", "TIMEOUT", 10, 20)], Outcome.TIMEOUT),
        ([SCRIPT, StepEnd("0", "NODE_FAIL", 10, 20)], Outcome.NODE_FAIL),
        ([StepEnd("batch", "OUT_OF_MEMORY", 0, 100)], Outcome.OUT_OF_MEMORY),
        # The script went on, and a later step decided.
        ([SCRIPT, KILLED, StepEnd("1", "FAILED", 30, 40)], None),
        ([SCRIPT, KILLED, StepEnd("1", "TIMEOUT", 30, 40)], Outcome.TIMEOUT),
        ([SCRIPT, KILLED, StepEnd("1", "COMPLETED", 30, 40)], Outcome.OUT_OF_MEMORY),
        ([SCRIPT, StepEnd("0", "FAILED", 1, 5), KILLED], Outcome.OUT_OF_MEMORY),
        # It ran beside the step that was killed: it may have failed because of that.
        ([SCRIPT, KILLED, StepEnd("1", "FAILED", 10, 25)], Outcome.OUT_OF_MEMORY),
        ([SCRIPT, KILLED, StepEnd("1", "CANCELLED", 10, 100)], Outcome.OUT_OF_MEMORY),
        # Somebody's login to the node is no part of the job.
        ([SCRIPT, StepEnd("extern", "OUT_OF_MEMORY", 0, 100), StepEnd("0", "FAILED", 1, 2)], None),
        # Without times the order is what there is.
        ([StepEnd("batch", "FAILED"), StepEnd("0", "OUT_OF_MEMORY"), StepEnd("1", "FAILED")], None),
        ([StepEnd("0", "FAILED"), StepEnd("1", "OUT_OF_MEMORY")], Outcome.OUT_OF_MEMORY),
        ([SCRIPT, StepEnd("0", "CANCELLED", 1, 2)], None),
        ([], None),
    ],
)
def test_the_step_that_decided(steps: list[StepEnd], outcome: Outcome | None) -> None:
    assert outcome_of_steps(steps) is outcome
