"""Which submitted jobs wait for the end of which others."""

from __future__ import annotations

import re
from dataclasses import dataclass

from forewarn.sources.simulator.live.admission import refused

_PART = re.compile(r"(afterok|afterany|afternotok):(\d+)(?:_(\d+))?|(singleton)")


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: how another job, or all tasks of an array, must have ended."""

    kind: str  # afterok, afterany, afternotok, singleton
    number: int | None = None
    task: int | None = None


@dataclass(frozen=True, slots=True)
class Dependency:
    """The conditions of one job: all of them, or any."""

    conditions: tuple[Condition, ...]
    any_of_them: bool = False


def read_dependency(text: str) -> Dependency:
    """Read a dependency of the kinds that the simulator has; refuse others.

    >>> read_dependency("afterok:7:8,singleton").conditions[1]
    Condition(kind='afterok', number=8, task=None)
    """
    any_of_them = "?" in text
    found: list[Condition] = []
    for part in re.split("[?,]", text):
        kind, *jobs = part.strip().split(":")
        for one in [f"{kind}:{job}" for job in jobs] or [kind]:
            match = _PART.fullmatch(one)
            if match is None:
                raise refused(
                    f"job dependency problem: {one[:60]!r}; afterok, afterany, afternotok and singleton are "
                    "simulated"
                )
            task = None if match[3] is None else int(match[3])
            found.append(Condition(match[1] or match[4], int(match[2]) if match[2] else None, task))
    return Dependency(tuple(found), any_of_them)
