"""Walk of a hazard model's trees for all bins of a job at once.

A job is one row for each bin, and its rows differ only in the bin and in the bin's distance from each anchor.
Both rise from bin to bin. So the bins that reach a node lie side by side: a split by another column sends all
of them the same way, and a split by the bin or by a distance cuts them in two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forewarn.compiled import entry

Floats32 = NDArray[np.float32]
Ints32 = NDArray[np.int32]


def walk_trees(
    roots: Ints32,
    columns: Ints32,
    conditions: Floats32,
    lefts: Ints32,
    rights: Ints32,
    to_left: NDArray[np.bool_],
    values: Floats32,
    anchors: Floats32,
    borders: Floats32,
    margins: Floats32,
) -> None:
    """Add the leaves of all trees to `margins` (job × bin), tree by tree and in single precision.

    This is the order and the precision of XGBoost, so that the sums equal its own to the last bit.
    A leaf is a node with the column -1, whose condition is its value. `to_left`: where a missing value goes.
    """
    count, bins = values.shape[1], len(borders)
    nodes, firsts, ends = np.empty(64, np.int32), np.empty(64, np.int32), np.empty(64, np.int32)
    for job in range(len(values)):
        for root in roots:
            nodes[0], firsts[0], ends[0] = root, 0, bins
            waiting = 1
            while waiting > 0:
                waiting -= 1
                node, first, end = nodes[waiting], firsts[waiting], ends[waiting]
                while columns[node] >= 0:
                    column, condition = columns[node], conditions[node]
                    cut = first  # the bins before it go left
                    if column < count:
                        value = values[job, column]
                        if value < condition or (np.isnan(value) and to_left[node]):
                            cut = end
                    elif column == count:
                        while cut < end and np.float32(cut) < condition:
                            cut += 1
                    else:
                        anchor = anchors[job, column - count - 1]
                        if np.isnan(anchor):
                            cut = end if to_left[node] else first
                        else:
                            while cut < end and np.float32(borders[cut] - anchor) < condition:
                                cut += 1
                    if cut == end:
                        node = lefts[node]
                    elif cut == first:
                        node = rights[node]
                    else:
                        nodes[waiting], firsts[waiting], ends[waiting] = rights[node], cut, end
                        waiting += 1
                        node, end = lefts[node], cut
                for place in range(first, end):
                    margins[job, place] += conditions[node]


walk = entry(walk_trees)
