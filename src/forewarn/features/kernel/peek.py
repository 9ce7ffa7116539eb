"""Features of jobs at a moment, from a state that is not changed: for every reader of the state.

The few rows of the state that a job's features need are copied into a small state of its own, in which the
job itself can be removed or set back to pending before its features are computed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forewarn.compiled import entry, inner
from forewarn.features.kernel import layout as L
from forewarn.features.kernel.emit import emit, emit_start
from forewarn.features.kernel.entities import entity_keys, row_of, rows_of, table_place
from forewarn.features.kernel.regression import regression_slots
from forewarn.features.kernel.state import (
    FREE_FLIGHTS,
    START,
    USED_RINGS,
    USED_ROWS,
    Floats,
    Hashes,
    Ints,
    Slots,
    State,
    new_state,
    with_room,
)
from forewarn.features.kernel.update import not_started, withdrawn


def scratch_state(weight: Floats, nodes: int) -> State:
    """Allocate a state with room for a job's entities, now and at its submit, and its nodes."""
    return with_room(new_state(weight), rows=2 * L.N_ENTITIES + nodes, rings=1, flights=1)


@inner
def _found(st: State, key: np.uint64) -> int:
    """Find the row of an entity; 0 if it is unknown. Nothing is added."""
    if key == 0:
        return 0
    place = table_place(st, key)
    return st.table_row[place] if st.table_key[place] != 0 else 0


@inner
def _copy(st: State, own: State, key: np.uint64) -> int:
    """Copy an entity into the small state; return its row there, 0 if the large state has none."""
    row = _found(st, key)
    if row == 0:
        return 0
    copied = row_of(own, key)
    own.entity[copied] = st.entity[row]
    own.entity[copied, L.S_RING] = 0.0
    return copied


@inner
def _copy_user(st: State, own: State, key: np.uint64) -> None:
    """Copy the user into the small state, with the ring of their last jobs."""
    row, copied = _found(st, key), _copy(st, own, key)
    if row > 0 and st.entity[row, L.S_RING] > 0.0:
        own.ring[0] = st.ring[int(st.entity[row, L.S_RING]) - 1]
        own.used[USED_RINGS] = 1
        own.entity[copied, L.S_RING] = 1.0


@inner
def _forget(own: State) -> None:
    own.table_key[:] = 0
    own.used[USED_ROWS], own.used[USED_RINGS], own.used[FREE_FLIGHTS] = 1, 0, 0


@inner
def _waiting_again(own: State, t: float) -> float:
    """Turn the live job at place 0 back into a pending one; return how long it has waited without its run."""
    submit, start = own.flight[0, L.FL_SUBMIT], own.flight[0, L.FL_START]
    if np.isnan(start):
        return t - submit
    not_started(own, 0)
    return start - submit


@inner
def peek_features(
    st: State,
    own: State,
    at: int,
    kinds: NDArray[np.int8],
    places: Ints,
    numbers: Floats,
    atoms: Hashes,
    node_first: Ints,
    node_keys: Hashes,
    slots: Slots,
    out: Floats,
) -> None:
    """Write the features of some jobs into `out`, and the slots of their keys in the regression into `slots`.

    Each is seen as if it were submitted at the moment (kind SUBMIT), or, where it lies in flight at one of
    `places` (-1 for the others), as if it started then. `own` is a state to copy into (`scratch_state`).
    """
    t = np.float64(at)
    keys = np.zeros(L.N_ENTITIES, np.uint64)
    rows = np.zeros(L.N_ENTITIES, np.int64)
    for j in range(numbers.shape[0]):
        x, a, place = numbers[j], atoms[j], places[j]
        nodes = node_keys[node_first[j] : node_first[j + 1]]
        _forget(own)
        own.cluster[:] = st.cluster
        entity_keys(x, a, keys)
        _copy_user(st, own, keys[L.E_USER])
        for e in range(1, L.N_ENTITIES):
            _copy(st, own, keys[e])
        for key in nodes:
            _copy(st, own, key)
        if place >= 0:
            # What a job in flight asked for at its submit may have changed since, and its entities with it.
            for e in range(L.N_ENTITIES):
                if st.flight_key[place, e] != keys[e]:
                    _copy(st, own, st.flight_key[place, e])
            own.flight_key[0] = st.flight_key[place]
            own.flight_slot[0] = st.flight_slot[place]
            own.flight[0] = st.flight[place]
            waited = _waiting_again(own, t)
            if kinds[j] == START:
                own.flight[0, L.FL_SUBMIT] = t - waited
            else:
                withdrawn(own, 0)
        rows_of(own, keys, rows)
        regression_slots(own, t, x, keys, rows, slots[j])
        if kinds[j] == START:
            for k in L.SUBMIT_KEYS:
                slots[j, k] = own.flight_slot[0, k]
        emit(own, t, x, a, keys, rows, slots[j], out[j])
        if kinds[j] == START:
            emit_start(own, t, x, 0, rows[L.E_USER], nodes, out[j])


look = entry(peek_features)
