"""Merging and splitting of segments, so that scans stay fast and small.

- Small writes make small segments. Sixteen of about one size become one (sizes in steps of sixteen), so
  a row is rewritten a few times in its life and there are never many small segments.
- A log that is not in order of time makes segments that all overlap, and a scan would have to hold them
  all. Where more rows overlap than a scan should hold, they are sorted into segments of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import polars as pl

from forewarn.store.segments import SEGMENT_ROWS, TIME, Segment, Segments, between

STEP = 16
FULL_ROWS = 65_536  # STEP ** 4; from here on a segment is large enough
CROWDED_ROWS = 2_000_000


def small_ones(found: Sequence[Segment]) -> list[Segment]:
    """Return segments that are due to be merged, or none."""
    sizes: dict[int, list[Segment]] = {}
    for segment in found:
        if segment.rows < FULL_ROWS:
            sizes.setdefault((segment.rows.bit_length() - 1) // 4, []).append(segment)
    return next((same for same in sizes.values() if len(same) >= STEP), [])


def crowded_ones(found: Sequence[Segment], limit: int = CROWDED_ROWS) -> list[Segment]:
    """Return segments that overlap where more than `limit` rows do, or none.

    Those that only touch do not count: a job array can have more rows of one submit time than that.
    """
    ends = [(s.last_time, False, -s.rows) for s in found if s.last_time > s.first_time]
    begins = [(s.first_time, True, s.rows) for s in found if s.last_time > s.first_time]
    depth, crowds, crowd_begins = 0, [], None
    for time, _, rows in sorted(ends + begins):
        depth += rows
        if depth > limit and crowd_begins is None:
            crowd_begins = time
        elif depth <= limit and crowd_begins is not None:
            crowds.append((crowd_begins, time))
            crowd_begins = None
    return [s for s in found if any(s.first_time < end and s.last_time > begin for begin, end in crowds)]


def rewrite(segments: Segments, group: Sequence[Segment], rows: int = SEGMENT_ROWS) -> list[Segment]:
    """Rewrite segments into ones with separate time ranges, holding one range in memory at a time."""
    kind, cluster = group[0].kind, group[0].cluster
    rewritten: list[Segment] = []
    cuts: list[int | None] = [*_cuts(segments, group, rows), None]
    for since, until in pairwise(cuts):
        parts = [
            segments.read(segment, where=between(kind, since, until))
            for segment in group
            if segment.may_hold(since, until)
        ]
        rewritten += segments.add(kind, cluster, pl.concat(parts))
    segments.drop(group)
    return rewritten


def _cuts(segments: Segments, group: Iterable[Segment], rows: int) -> list[int]:
    """Return times that cut the segments' rows into parts of about `rows` rows."""
    times = np.concatenate([segments.read(s, [TIME[s.kind]])[TIME[s.kind]].to_numpy() for s in group])
    times.sort()
    return [int(time) for time in np.unique(times[::rows])]
