"""The loop over events: the only entry to the kernel, in batch and online."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forewarn.compiled import entry, inner
from forewarn.features.kernel import layout as L
from forewarn.features.kernel.cluster import advance
from forewarn.features.kernel.emit import emit, emit_start
from forewarn.features.kernel.entities import entity_keys, rows_of
from forewarn.features.kernel.regression import regression_slots
from forewarn.features.kernel.state import START, SUBMIT, WAITING, Floats, Hashes, Ints, State
from forewarn.features.kernel.update import ended, started, submitted


@inner
def walk_events(
    st: State,
    times: Ints,
    kinds: NDArray[np.int8],
    jobs: Ints,
    numbers: Floats,
    atoms: Hashes,
    numbers_at_start: Floats,
    atoms_at_start: Hashes,
    results: Floats,
    node_first: Ints,
    node_keys: Hashes,
    places: Ints,
    emitted: int,
    out: Floats,
) -> int:
    """Process events in order; return how many rows of `out` were written.

    `jobs` says which row of the arrays an event is about; `places` keeps where each job in flight is.
    """
    keys = np.zeros(L.N_ENTITIES, np.uint64)
    rows = np.zeros(L.N_ENTITIES, np.int64)
    slots = np.zeros(L.N_KEYS, np.int32)
    written = 0
    for i in range(times.shape[0]):
        t, j = np.float64(times[i]), jobs[i]
        nodes = node_keys[node_first[j] : node_first[j + 1]]
        if kinds[i] == SUBMIT:
            entity_keys(numbers[j], atoms[j], keys)
            rows_of(st, keys, rows)
            regression_slots(st, t, numbers[j], keys, rows, slots)
            if emitted == SUBMIT:
                emit(st, t, numbers[j], atoms[j], keys, rows, slots, out[written])
                written += 1
            advance(st, t)
            places[j] = submitted(st, t, numbers[j], atoms[j], keys, rows, slots)
        elif kinds[i] == START:
            if emitted == START:
                x, a = numbers_at_start[j], atoms_at_start[j]
                entity_keys(x, a, keys)
                rows_of(st, keys, rows)
                regression_slots(st, t, x, keys, rows, slots)
                for k in L.SUBMIT_KEYS:
                    slots[k] = st.flight_slot[places[j], k]
                emit(st, t, x, a, keys, rows, slots, out[written])
                emit_start(st, t, x, places[j], rows[L.E_USER], nodes, out[written])
                written += 1
            advance(st, t)
            started(st, t, places[j])
        elif kinds[i] == WAITING:
            x, a = numbers[j].copy(), atoms[j]
            for given in L.GIVEN:
                x[given] = np.nan
            entity_keys(x, a, keys)
            rows_of(st, keys, rows)
            regression_slots(st, t, x, keys, rows, slots)
            for k in L.SUBMIT_KEYS:
                slots[k] = st.flight_slot[places[j], k]
            emit(st, t, x, a, keys, rows, slots, out[written])
            emit_start(st, t, x, places[j], rows[L.E_USER], nodes[:0], out[written])
            written += 1
        else:
            advance(st, t)
            ended(st, t, places[j], results[j], nodes)
            places[j] = -1
    return written


run = entry(walk_events)
