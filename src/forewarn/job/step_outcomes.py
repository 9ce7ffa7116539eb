"""How a job ended by its steps, where the state of the job itself only says that it failed.

A batch script whose step is killed for its memory goes on, and ends with an exit code of its own: Slurm calls
the job FAILED, 1:0, and only the step OUT_OF_MEMORY. The same holds for a step that reached its time limit or
lost a node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from forewarn.job.outcomes import OUTCOME_OF_STATE, Outcome

# States of a step that name the cause; FAILED does not, and CANCELLED is also a step that died of a signal,
# or that ended with its job.
EXACT_STATES: Mapping[str, Outcome] = MappingProxyType(
    {state: OUTCOME_OF_STATE[state] for state in ("OUT_OF_MEMORY", "TIMEOUT", "NODE_FAIL")}
)
# No signal has this number: in place of one it is Slurm's mark of a step that was killed for its memory.
OUT_OF_MEMORY_SIGNAL = 125
_WHOLE_JOB = ("batch", "interactive")  # steps that begin and end with the job
_ADOPTED = "extern"  # holds what the job did not start itself, as a login to its node


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How one step of a job ended, and when it ran."""

    name: str  # batch, extern, 0, 1 …
    state: str | None
    start: int | None = None
    end: int | None = None


def outcome_of_steps(steps: Sequence[StepEnd]) -> Outcome | None:
    """The outcome of a job that Slurm calls FAILED, where one of its steps tells it more exactly.

    The last step with an exact state decides, unless another step failed that was started after it had ended:
    then the script went on, and failed of something else. A step that ran beside it may have failed because
    of it.

    >>> killed, failed = StepEnd("0", "OUT_OF_MEMORY", 10, 20), StepEnd("1", "FAILED", 20, 30)
    >>> outcome_of_steps([killed]), outcome_of_steps([killed, failed])
    (<Outcome.OUT_OF_MEMORY: 'out_of_memory'>, None)
    """
    exact = [
        place for place, step in enumerate(steps) if step.state in EXACT_STATES and step.name != _ADOPTED
    ]
    if not exact:
        return None
    last = max(exact, key=lambda place: (steps[place].end or 0, place))
    if any(_failed_after(steps, place, last) for place in range(len(steps))):
        return None
    return EXACT_STATES[str(steps[last].state)]


def _failed_after(steps: Sequence[StepEnd], place: int, before: int) -> bool:
    step, earlier = steps[place], steps[before]
    if step.state != "FAILED" or step.name in (*_WHOLE_JOB, _ADOPTED):
        return False
    if step.start is None or earlier.end is None:
        return place > before
    return step.start >= earlier.end
