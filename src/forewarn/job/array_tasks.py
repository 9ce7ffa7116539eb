"""The tasks that the specification of a job array names."""

from __future__ import annotations

import re

MOST_TASKS = 10_000  # of one array; further tasks get records when they start
_PART = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


def task_numbers(tasks: str, most: int = MOST_TASKS) -> list[int]:
    """List the tasks that an array specification names; of one that Slurm cut short, those that are left.

    >>> task_numbers("0-2,7,10-20:5%2")
    [0, 1, 2, 7, 10, 15, 20]
    >>> task_numbers("1-3,...")
    [1, 2, 3]
    >>> len(task_numbers("0-999999999999"))
    10000
    """
    found: list[int] = []
    for part in tasks.partition("%")[0].split(","):
        match = _PART.fullmatch(part.strip())
        if match is not None and len(found) < most:
            first, last, step = match[1], match[2] or match[1], match[3] or "1"
            # A part of the range: a specification may name more tasks than fit into memory.
            found += range(int(first), int(last) + 1, max(1, int(step)))[: most - len(found)]
    return found[:most]
