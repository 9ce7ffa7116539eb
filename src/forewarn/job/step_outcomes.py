"""The outcome of a job by its steps, where the job's own state says only that it failed.

When a step is killed for its memory, the batch script goes on and ends with an exit code of its own: Slurm
calls the job FAILED, 1:0, and only the step OUT_OF_MEMORY. The same holds for a step that reached its time
limit or lost a node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from forewarn.job.outcomes import OUTCOME_OF_STATE, Outcome

# States of a step that name the cause. FAILED does not, and CANCELLED is also the state of a step that was
# killed by a signal, or that ended with its job.
EXACT_STATES: Mapping[str, Outcome] = MappingProxyType(
    {state: OUTCOME_OF_STATE[state] for state in ("OUT_OF_MEMORY", "TIMEOUT", "NODE_FAIL")}
)
# Not a signal's number: Slurm's mark, in place of a signal, of a step that was killed for its memory.
OUT_OF_MEMORY_SIGNAL = 125
_WHOLE_JOB = ("batch", "interactive")  # steps that last as long as the job
_ADOPTED = "extern"  # holds processes not started by the job, such as a login to its node


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The end of one step of a job, and when it ran."""

    name: str  # batch, extern, 0, 1 …
    state: str | None
    start: int | None = None
    end: int | None = None


def outcome_of_steps(steps: Sequence[StepEnd]) -> Outcome | None:
    """Return the outcome of a job that Slurm calls FAILED, where one of its steps gives it more exactly.

    The last step with an exact state decides, unless another step failed that was started after it had ended:
    then the script went on, and failed for another reason. A step that ran at the same time may have failed
    because of it.

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
