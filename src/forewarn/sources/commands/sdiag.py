"""Reader of the output of `sdiag`."""

from __future__ import annotations

import re

from forewarn.errors import CommandError
from forewarn.sources.slurm.scheduler import Diagnosis

_AT = re.compile(r"sdiag output at .*\((\d+)\)")
_SINCE = re.compile(r"Data since .*\((\d+)\)")
_CALL = re.compile(r"^\s+(\w+)\s+\(\s*\d+\) count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)", re.MULTILINE)


def read_sdiag(text: str) -> Diagnosis:
    """Read the counters that are used.

    >>> read_sdiag("sdiag output at Tue Nov 17 (1794906108)\\nJobs running:   2\\n").jobs_running
    2
    """
    at = _AT.search(text)
    if at is None:
        raise CommandError("sdiag: no time in its output: it is not Slurm's sdiag")
    since = _SINCE.search(text)
    by_type = text.partition("statistics by message type")[2].partition("statistics by user")[0]
    return Diagnosis(
        at=int(at[1]),
        since=int(since[1]) if since else None,
        jobs_pending=_count("Jobs pending", text),
        jobs_running=_count("Jobs running", text),
        threads=_count("Server thread count", text),
        database_queue=_count("DBD Agent queue size", text),
        calls={name: (int(count), int(total) / 1e6) for name, count, total in _CALL.findall(by_type)},
    )


def _count(name: str, text: str) -> int | None:
    match = re.search(rf"^{name}:\s*(\d+)$", text, re.MULTILINE)
    return int(match[1]) if match else None
