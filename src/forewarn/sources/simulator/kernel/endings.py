"""What ends a job: the earliest of all events that would.

The one place where truth becomes an outcome. The simulation asks it when a job starts and whenever
something strikes from outside; `replay` asks it again with another request.
"""

from __future__ import annotations

from typing import Any

from forewarn.compiled import typed

NONE, MEMORY, TIME, SCRIPT, INPUT, NODE, FILE_SYSTEM, USER_CANCEL, PREEMPTED = range(9)
CAUSES = (
    *("none", "memory", "time", "script", "input"),
    *("node", "file_system", "user_cancel", "preempted"),
)
NEVER = -1


@typed("UniTuple(int64, 2)(" + ", ".join(["int64"] * 12) + ")")
def first_ending(
    need_time: Any,
    limit: Any,
    kill_delay: Any,
    need_memory: Any,
    memory: Any,
    peak_after: Any,
    bug_after: Any,
    bug_cause: Any,
    node_after: Any,
    outage_after: Any,
    cancel_after: Any,
    preempt_after: Any,
) -> Any:
    """Return cause and seconds after the start. Of two at the same second the earlier in this list wins.

    A time limit strikes up to half a minute late, since Slurm looks only so often (`kill_delay`).
    """
    cause, after = NONE, need_time
    if need_memory > memory and peak_after < after:
        cause, after = MEMORY, peak_after
    if limit + kill_delay < after:
        cause, after = TIME, limit + kill_delay
    if 0 <= bug_after < after:
        cause, after = bug_cause, bug_after
    if 0 <= node_after < after:
        cause, after = NODE, node_after
    if 0 <= outage_after < after:
        cause, after = FILE_SYSTEM, outage_after
    if 0 <= cancel_after < after:
        cause, after = USER_CANCEL, cancel_after
    if 0 <= preempt_after < after:
        cause, after = PREEMPTED, preempt_after
    return cause, after
