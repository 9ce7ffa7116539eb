"""The state that the kernel keeps of a cluster: arrays that grow, and the room they need."""

from __future__ import annotations

from contextlib import suppress
from mmap import MADV_NOHUGEPAGE, mmap
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from forewarn.compiled import entry
from forewarn.features.kernel import layout as L

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Slots = NDArray[np.int32]
T = TypeVar("T", bound=np.generic)

SUBMIT, START, KNOWN = 0, 1, 2
WAITING = 3  # no event: a look at a job that waits, as if it started then
NEVER = 9  # no event is of this kind: nothing is emitted
USED_ROWS, USED_RINGS, FREE_FLIGHTS = 0, 1, 2
FEW_ROWS = 2000  # entities, up to which their table is built uncompiled


class State(NamedTuple):
    """The kernel's whole state of a cluster."""

    table_key: Hashes  # open addressing: key …
    table_row: Ints  # … to row
    used: Ints  # rows, rings, free places for jobs in flight
    key: Hashes  # of each row
    entity: Floats  # rows × STATE; row 0 is nobody and is never written
    ring: Floats  # rings × RING_JOBS × RING
    weight: Floats  # WEIGHT_SLOTS × WEIGHT
    cluster: Floats
    flight_key: Hashes  # jobs in flight × ENTITIES
    flight_row: Ints  # … and the rows that these have
    flight_slot: Slots  # jobs in flight × KEYS
    flight: Floats  # jobs in flight × FLIGHT
    flight_free: Ints


def new_weights() -> Floats:
    """Allocate a regression that has learned nothing."""
    return np.zeros((L.WEIGHT_SLOTS, len(L.WEIGHT)))


def sparse_weights() -> Floats:
    """Allocate such weights for a process that needs few rows: only touched pages take memory.

    Where the kernel gives memory in huge pages, eighty rows would clear a hundred and sixty megabytes.
    """
    table = mmap(-1, L.WEIGHT_SLOTS * len(L.WEIGHT) * 8)
    with suppress(OSError, AttributeError):  # not every system has huge pages, or says so
        table.madvise(MADV_NOHUGEPAGE)
    return np.frombuffer(table).reshape(L.WEIGHT_SLOTS, len(L.WEIGHT))


def new_state(weight: Floats | None = None) -> State:
    """Create an empty state, optionally with an existing table of weights."""
    entity = np.zeros((1, L.N_STATE))
    entity[0, [L.S_LAST, L.S_LAST_END, L.S_LAST_FAIL, L.S_LAST_SUBMIT, L.S_NEWEST_START]] = np.nan
    entity[0, [L.S_LAST_RUN_LOG, L.S_LAST_LIMIT_LOG, L.S_LAST_CPUS_LOG]] = np.nan
    used = np.zeros(3, np.int64)
    used[USED_ROWS] = 1
    return State(
        table_key=np.zeros(2, np.uint64),
        table_row=np.zeros(2, np.int64),
        used=used,
        key=np.zeros(1, np.uint64),
        entity=entity,
        ring=np.full((0, L.RING_JOBS, L.N_RING), np.nan),
        weight=new_weights() if weight is None else weight,
        cluster=np.zeros(len(L.CLUSTER)),
        flight_key=np.zeros((0, L.N_ENTITIES), np.uint64),
        flight_row=np.zeros((0, L.N_ENTITIES), np.int64),
        flight_slot=np.zeros((0, L.N_KEYS), np.int32),
        flight=np.full((0, len(L.FLIGHT)), np.nan),
        flight_free=np.zeros(0, np.int64),
    )


def with_room(state: State, *, rows: int, rings: int, flights: int) -> State:
    """Return the state with room for so many new entities, rings and live jobs; unchanged if it has room."""
    used, free = int(state.used[USED_ROWS]), int(state.used[FREE_FLIGHTS])
    if used + rows > state.entity.shape[0]:
        size = _doubled(state.entity.shape[0], used + rows)
        state = state._replace(
            table_key=np.zeros(2 * size, np.uint64),
            table_row=np.zeros(2 * size, np.int64),
            key=_longer(state.key, size),
            entity=_longer(state.entity, size),
        )
        index_rows(state)
    rings += int(state.used[USED_RINGS])
    if rings > state.ring.shape[0]:
        state = state._replace(ring=_longer(state.ring, _doubled(state.ring.shape[0], rings)))
    if flights > free:
        before = state.flight.shape[0]
        size = _doubled(before, before + flights - free)
        fresh = _longer(state.flight_free, size)
        fresh[free : free + size - before] = np.arange(size - 1, before - 1, -1)
        state.used[FREE_FLIGHTS] += size - before
        state = state._replace(
            flight_key=_longer(state.flight_key, size),
            flight_row=_longer(state.flight_row, size),
            flight_slot=_longer(state.flight_slot, size),
            flight=_longer(state.flight, size),
            flight_free=fresh,
        )
    return state


def _doubled(size: int, needed: int) -> int:
    size = max(size, 64)
    while size < needed:
        size *= 2
    return size


def _longer(array: NDArray[T], size: int) -> NDArray[T]:
    grown = np.zeros((size, *array.shape[1:]), array.dtype)
    grown[: array.shape[0]] = array
    return grown


def index_rows(state: State) -> None:
    """Build the table from keys to rows."""
    # Few rows are not worth loading the compiler for.
    fill = _fill_table if state.used[USED_ROWS] > FEW_ROWS else _fill_table.plain
    fill(state.key, int(state.used[USED_ROWS]), state.table_key, state.table_row)


@entry
def _fill_table(keys: Hashes, used: int, table_key: Hashes, table_row: Ints) -> None:
    mask = table_key.shape[0] - 1
    for row in range(1, used):
        place = np.int64(keys[row] >> np.uint64(7)) & mask
        while table_key[place] != 0:
            place = (place + 1) & mask
        table_key[place] = keys[row]
        table_row[place] = row
