"""A heap of events, and of pending jobs: rows of time, order, kind, subject, stamp.

Order makes ties deterministic. A stamp tells an event that is out of date from one that holds.
"""

from __future__ import annotations

from typing import Any

from forewarn.compiled import inner, typed

COLUMNS = 5
TIME, ORDER, KIND, WHO, STAMP = range(COLUMNS)

WAKE, END, CHANGE, IMPATIENT, CRASH, FALL_ILL, DRAIN, REPAIRED, OUTAGE, OUTAGE_OVER, DRIFT = range(11)


@typed("boolean(int64[:,::1], int64, int64)")
def _before(heap: Any, i: int, j: int) -> bool:
    if heap[i, TIME] != heap[j, TIME]:
        return bool(heap[i, TIME] < heap[j, TIME])
    return bool(heap[i, ORDER] < heap[j, ORDER])


@typed("void(int64[:,::1], int64, int64)")
def _swap(heap: Any, i: int, j: int) -> None:
    for c in range(COLUMNS):
        heap[i, c], heap[j, c] = heap[j, c], heap[i, c]


@typed("void(int64[:,::1], int64, int64, int64, int64, int64, int64)")
def heap_push(heap: Any, count: int, time: int, order: int, kind: int, who: int, stamp: int) -> None:
    """Add a row to a heap of `count` rows."""
    i = count
    heap[i, TIME], heap[i, ORDER], heap[i, KIND], heap[i, WHO], heap[i, STAMP] = time, order, kind, who, stamp
    while i > 0:
        parent = (i - 1) >> 1
        if not _before(heap, i, parent):
            break
        _swap(heap, i, parent)
        i = parent


@typed("void(int64[:,::1], int64)")
def heap_pop(heap: Any, count: int) -> None:
    """Remove the first row of a heap of `count` rows; it then has one less."""
    last = count - 1
    _swap(heap, 0, last)
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            break
        if child + 1 < last and _before(heap, child + 1, child):
            child += 1
        if not _before(heap, child, i):
            break
        _swap(heap, child, i)
        i = child


@inner
def schedule_event(w: Any, time: int, kind: int, who: int, stamp: int) -> None:
    """Add an event."""
    clock = w.clock[0]
    heap_push(w.events, clock.events, time, clock.order, kind, who, stamp)
    clock.events += 1
    clock.order += 1
