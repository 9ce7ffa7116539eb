"""The phases of a job at which its risk is predicted; models are trained and served for each.

This is the one place that names them. A phase is its name, as it stands in bundles, commands and JSON, with
the time that the job has run by then: a phase of running jobs is one more line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from forewarn.errors import UsageError

# In order: seconds since the start of the job, None before it.
_ELAPSED: Mapping[str, int | None] = MappingProxyType({"submit": None, "start": 0})


class Phase(str):
    """A point in a job's life, with everything that is known by then and nothing later.

    >>> Phase.START == "start", Phase("start").elapsed, Phase.SUBMIT.reaches(Phase.START)
    (True, 0, False)
    """

    __slots__ = ()
    SUBMIT: ClassVar[Phase]
    START: ClassVar[Phase]

    def __new__(cls, name: str) -> Phase:
        """Return the phase of that name; `UsageError` where there is none."""
        if name not in _ELAPSED:
            raise UsageError(f"no phase {name!r}; choose from {', '.join(_ELAPSED)}")
        return super().__new__(cls, name)

    @property
    def elapsed(self) -> int | None:
        """Seconds that the job has run; None before its start."""
        return _ELAPSED[self]

    def reaches(self, first: Phase) -> bool:
        """Check whether what is known from the phase `first` on is known at this one."""
        return first.elapsed is None or (self.elapsed is not None and self.elapsed >= first.elapsed)


Phase.SUBMIT, Phase.START = PHASES = Phase("submit"), Phase("start")

# Not a phase, since nothing can be served then: jobs at their submit, with what they used, which is known
# only at their end. Measured for comparison with published tables, which used it too.
POSTHOC = "posthoc"
MEASURED = (*PHASES, POSTHOC)


def phase_of(measured: str) -> Phase:
    """Return the phase whose features a model uses that is measured at one of `MEASURED`.

    >>> phase_of("posthoc"), phase_of("start")
    ('submit', 'start')
    """
    return Phase.SUBMIT if measured == POSTHOC else Phase(measured)
