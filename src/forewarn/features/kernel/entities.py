"""Entities whose history is kept (user, request, account, …): their keys and rows."""

from __future__ import annotations

import numpy as np

from forewarn.compiled import entry, inner
from forewarn.features.kernel import layout as L
from forewarn.features.kernel.numbers import mix, pair, whole
from forewarn.features.kernel.state import USED_ROWS, Floats, Hashes, Ints, State


@inner
def request_hash(x: Floats, a: Hashes) -> np.uint64:
    """Hash a request: equal for jobs that request the same."""
    h = mix(whole(x[L.X_CPUS]), whole(x[L.X_LIMIT]))
    h = mix(h, mix(whole(x[L.X_NODES]), whole(x[L.X_TASKS])))
    h = mix(h, mix(whole(x[L.X_MEMORY]), whole(x[L.X_GPUS])))
    return mix(h, mix(a[L.A_PARTITION], a[L.A_QOS]))


@inner
def entity_keys(x: Floats, a: Hashes, keys: Hashes) -> None:
    """Compute the keys of the entities that a job belongs to."""
    user, name = a[L.A_USER], a[L.A_NAME]
    request = request_hash(x, a)
    queue = mix(a[L.A_PARTITION], a[L.A_QOS]) if a[L.A_PARTITION] != 0 or a[L.A_QOS] != 0 else np.uint64(0)
    named_request = mix(name, request) if name != 0 else np.uint64(0)
    keys[L.E_USER] = pair(L.E_USER, user, np.uint64(1))
    keys[L.E_USER_REQUEST] = pair(L.E_USER_REQUEST, user, request)
    keys[L.E_USER_NAME] = pair(L.E_USER_NAME, user, name)
    keys[L.E_USER_DIR] = pair(L.E_USER_DIR, user, a[L.A_DIR])
    keys[L.E_USER_NAME_REQUEST] = pair(L.E_USER_NAME_REQUEST, user, named_request)
    keys[L.E_USER_CPUS] = pair(L.E_USER_CPUS, user, mix(np.uint64(7), whole(x[L.X_CPUS])))
    keys[L.E_USER_PARTITION] = pair(L.E_USER_PARTITION, user, queue)
    keys[L.E_GROUP] = pair(L.E_GROUP, a[L.A_GROUP], np.uint64(1))
    keys[L.E_ACCOUNT] = pair(L.E_ACCOUNT, a[L.A_ACCOUNT], np.uint64(1))
    keys[L.E_NAME] = pair(L.E_NAME, name, np.uint64(1))
    keys[L.E_SCRIPT] = pair(L.E_SCRIPT, a[L.A_SCRIPT], np.uint64(1))
    keys[L.E_PARTITION] = pair(L.E_PARTITION, queue, np.uint64(1))
    keys[L.E_REQUEST] = pair(L.E_REQUEST, request, np.uint64(1))
    keys[L.E_ARRAY] = pair(L.E_ARRAY, whole(x[L.X_ARRAY_JOB]), np.uint64(1))


@inner
def table_place(st: State, key: np.uint64) -> int:
    """Find where a key is in the table or, if absent, the empty place where it belongs."""
    mask = st.table_key.shape[0] - 1
    place = np.int64(key >> np.uint64(7)) & mask
    while st.table_key[place] != 0 and st.table_key[place] != key:
        place = (place + 1) & mask
    return place


@inner
def row_of(st: State, key: np.uint64) -> int:
    """Return the row of an entity, created if new; row 0 for no entity. The caller has ensured room."""
    if key == 0:
        return 0
    place = table_place(st, key)
    if st.table_key[place] != 0:
        return st.table_row[place]
    row = st.used[USED_ROWS]
    st.used[USED_ROWS] += 1
    st.table_key[place] = key
    st.table_row[place] = row
    st.key[row] = key
    st.entity[row] = st.entity[0]  # nobody's row is never written: it is what a new entity starts from
    return row


@inner
def rows_of(st: State, keys: Hashes, rows: Ints) -> None:
    """Find the rows of a job's entities."""
    for e in range(L.N_ENTITIES):
        rows[e] = row_of(st, keys[e])


keys_of_job = entry(entity_keys)
