"""The phases of a job's life at which its risk is asked: each is what models learn and serve at.

This is the one place that names them. A phase is its name, as it stands in bundles, commands and JSON, and
knows how long the job has run by then: a phase of jobs that run is one more line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from forewarn.errors import UsageError

# In their order: seconds since the start of the job, None before it.
_ELAPSED: Mapping[str, int | None] = MappingProxyType({"submit": None, "start": 0})


class Phase(str):
    """A moment of a job's life: everything that is known by then, and nothing later.

    >>> Phase.START == "start", Phase("start").elapsed, Phase.SUBMIT.reaches(Phase.START)
    (True, 0, False)
    """

    __slots__ = ()
    SUBMIT: ClassVar[Phase]
    START: ClassVar[Phase]

    def __new__(cls, name: str) -> Phase:
        """Take a phase by its name."""
        if name not in _ELAPSED:
            raise UsageError(f"no phase {name!r}; there are {', '.join(_ELAPSED)}")
        return super().__new__(cls, name)

    @property
    def elapsed(self) -> int | None:
        """Seconds that the job has run; None where it has not started."""
        return _ELAPSED[self]

    def reaches(self, first: Phase) -> bool:
        """Whether what exists from that phase on is known at this one."""
        return first.elapsed is None or (self.elapsed is not None and self.elapsed >= first.elapsed)


Phase.SUBMIT, Phase.START = PHASES = Phase("submit"), Phase("start")

# No phase, since nothing can be served then: jobs as of their submit with what they used, which is known only
# at their end. Measured beside the papers' tables, which knew it too.
POSTHOC = "posthoc"
MEASURED = (*PHASES, POSTHOC)


def phase_of(measured: str) -> Phase:
    """Whose features a model has that is measured at one of `MEASURED`.

    >>> phase_of("posthoc"), phase_of("start")
    ('submit', 'start')
    """
    return Phase.SUBMIT if measured == POSTHOC else Phase(measured)
