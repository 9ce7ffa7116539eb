"""The id of an event: its place in the stream, from which a reader continues, even after a restart.

The store numbers assessments in the order in which they were saved, whoever saved them. The id of the event
of an assessment is that number. An event of a job is not kept; its id is the number of the assessment before
it, the run of the service, and a count within the run. So every id says which assessments a reader has had.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from forewarn.errors import UsageError

_FORM = re.compile(r"(\d{1,18})(?:\.(\d{1,18})\.(\d{1,18}))?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class EventId:
    """A place in the stream of events; a later event has a greater one.

    >>> str(EventId(17)), str(EventId(17, 1_700_000_000_000, 2))
    ('17', '17.1700000000000.2')
    >>> EventId(17) < EventId.parse("17.1700000000000.2") < EventId(18)
    True
    """

    number: int  # of the newest assessment up to here
    run: int = 0  # of the service: when it began, in milliseconds; 0: the assessment itself
    count: int = 0  # of events of jobs in this run

    def __str__(self) -> str:
        return f"{self.number}.{self.run}.{self.count}" if self.run else str(self.number)

    @classmethod
    def parse(cls, text: str) -> EventId:
        """Read the id of an event; `UsageError` for anything else."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise UsageError(f"not the id of an event: {text[:60]!a}; take it from an event of /v1/events")
        number, run, count = match.groups()
        return cls(int(number), int(run or 0), int(count or 0))
