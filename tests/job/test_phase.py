"""Tests of phases: their names, and what is known at each."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from forewarn.errors import UsageError
from forewarn.job.phase import MEASURED, PHASES, POSTHOC, Phase, phase_of


@pytest.mark.parametrize("phase", PHASES)
def test_a_phase_is_its_name_wherever_it_is_written(phase: Phase) -> None:
    assert json.loads(json.dumps({phase: phase})) == {str(phase): str(phase)}
    assert phase == Phase(f"{phase}")
    for again in (copy.deepcopy(phase), pickle.loads(pickle.dumps(phase))):
        assert (again, again.elapsed) == (phase, phase.elapsed)


def test_a_later_phase_sees_all_that_an_earlier_one_sees() -> None:
    assert [[late.reaches(first) for first in PHASES] for late in PHASES] == [[True, False], [True, True]]
    assert [phase.elapsed for phase in PHASES] == [None, 0]


def test_what_is_known_at_the_end_is_no_phase() -> None:
    assert (*PHASES, POSTHOC) == MEASURED
    assert phase_of(POSTHOC) is Phase.SUBMIT
    for name in (POSTHOC, "running", ""):
        with pytest.raises(UsageError, match=f"no phase '{name}'; choose from submit, start"):
            Phase(name)
