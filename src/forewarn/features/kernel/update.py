"""Updates of the state by events."""

from __future__ import annotations

import numpy as np

from forewarn.compiled import entry, inner
from forewarn.features.kernel import layout as L
from forewarn.features.kernel.entities import row_of, rows_of
from forewarn.features.kernel.numbers import mix, rate, short, total_memory
from forewarn.features.kernel.regression import bias, decision_weight, learn, logit, recorded
from forewarn.features.kernel.state import FREE_FLIGHTS, USED_RINGS, Floats, Hashes, Ints, Slots, State

FORGOTTEN = 1e-100  # weight of a mean below which it is dropped, long before rounding makes it nonsense


@inner
def _to_ended(s: Floats, t: float, fails: float, limit: float, memory_kill: float) -> None:
    """Record in an entity that one of its jobs ended."""
    s[L.S_ENDED] += 1.0
    s[L.S_FAILED] += fails
    s[L.S_LAST] = fails
    if fails > 0.0:
        s[L.S_STREAK] = max(s[L.S_STREAK], 0.0) + 1.0
        s[L.S_LAST_FAIL] = t
    else:
        s[L.S_STREAK] = min(s[L.S_STREAK], 0.0) - 1.0
    s[L.S_S3], s[L.S_W3] = s[L.S_S3] * L.D3 + fails, s[L.S_W3] * L.D3 + 1.0
    s[L.S_S15], s[L.S_W15] = s[L.S_S15] * L.D15 + fails, s[L.S_W15] * L.D15 + 1.0
    s[L.S_S100], s[L.S_W100] = s[L.S_S100] * L.D100 + fails, s[L.S_W100] * L.D100 + 1.0
    s[L.S_LIMIT15] = s[L.S_LIMIT15] * L.D15 + limit
    s[L.S_MEMORY15] = s[L.S_MEMORY15] * L.D15 + memory_kill
    s[L.S_LAST_END] = t
    # The last four outcomes as bits behind a leading one, so that none, one, two … differ.
    bits = int(s[L.S_OUTCOMES])
    if bits == 0:
        bits = 1
    bits = bits * 2 + int(fails)
    s[L.S_OUTCOMES] = np.float64(bits if bits < 32 else 16 + bits % 16)


@inner
def _run_log(result: Floats) -> float:
    return np.log2(result[L.R_RUN_TIME] + 1.0) if result[L.R_RUN_TIME] >= 0.0 else np.nan


@inner
def _mem_log(result: Floats) -> float:
    """Return the log of memory used; Slurm samples it, so a short job shows 0, which is no measurement."""
    return np.log2(result[L.R_MAX_MEMORY]) if result[L.R_MAX_MEMORY] > 0.0 else np.nan


@inner
def _to_used(s: Floats, f: Floats, result: Floats, run_log: float, mem_log: float) -> None:
    """Record in an entity what one of its jobs requested and used."""
    s[L.S_LAST_RUN_LOG], s[L.S_LAST_HIT] = run_log, result[L.R_LIMIT]
    s[L.S_LAST_LIMIT_LOG], s[L.S_LAST_CPUS_LOG] = f[L.FL_LOG_LIMIT], f[L.FL_LOG_CPUS]
    _to_mean(s, L.S_RUN_LOG, run_log)
    if result[L.R_FAILS] > 0.0:
        _to_mean(s, L.S_FAIL_RUN_LOG, run_log)
    _to_mean(s, L.S_MEM_LOG, mem_log)


@inner
def _to_mean(s: Floats, log: int, value: float) -> None:
    """Update a mean that decays with every ended job, measured or not; its weight is stored behind it.

    So a value that becomes known later has its place by how many jobs ended since: `corrected`.
    """
    weight = log + 1
    s[log] *= L.D8
    s[weight] *= L.D8
    if s[weight] < FORGOTTEN:
        s[log] = s[weight] = 0.0
    if not np.isnan(value):
        s[log] += value
        s[weight] += 1.0


@inner
def submitted(st: State, t: float, x: Floats, a: Hashes, keys: Hashes, rows: Ints, slots: Slots) -> int:
    """Add a pending job."""
    st.used[FREE_FLIGHTS] -= 1
    place = st.flight_free[st.used[FREE_FLIGHTS]]
    st.flight_key[place] = keys
    st.flight_row[place] = rows
    st.flight_slot[place] = slots
    cpus = 1.0 if np.isnan(x[L.X_CPUS]) else x[L.X_CPUS]
    f = st.flight[place]
    f[L.FL_SUBMIT], f[L.FL_START], f[L.FL_CPUS], f[L.FL_REQUEST] = (
        t,
        np.nan,
        cpus,
        short(keys[L.E_USER_REQUEST]),
    )
    f[L.FL_LOG_CPUS], f[L.FL_LOG_LIMIT] = np.log2(x[L.X_CPUS]), np.log2(x[L.X_LIMIT])
    f[L.FL_LOG_MEMORY] = np.log2(total_memory(x) + 1.0)
    f[L.FL_NAME], f[L.FL_DIR] = short(a[L.A_NAME]), short(a[L.A_DIR])
    f[L.FL_PARTITION] = short(mix(a[L.A_PARTITION], a[L.A_QOS]))
    f[L.FL_ONLINE] = bias(st) + logit(st, slots, 0, L.N_KEYS)
    f[L.FL_RISK] = 1.0 / (1.0 + np.exp(-f[L.FL_ONLINE]))
    f[L.FL_WEIGHT] = decision_weight(st, rows)
    st.cluster[L.C_SUBMITS] += 1.0
    f[L.FL_NUMBER] = st.cluster[L.C_SUBMITS]
    f[L.FL_USER_ENDED] = f[L.FL_USER_FAILED] = f[L.FL_BURST] = np.nan
    f[L.FL_QUEUE_WAIT] = f[L.FL_PARTITION_WAIT] = np.nan
    for e in range(L.N_FULL):
        for n in range(L.N_BEFORE):
            f[L.FL_BEFORE + e * L.N_BEFORE + n] = st.entity[rows[e], L.BEFORE[n]]
    if rows[L.E_USER] > 0:
        user = st.entity[rows[L.E_USER]]
        f[L.FL_USER_ENDED], f[L.FL_USER_FAILED] = user[L.S_ENDED], user[L.S_FAILED]
        close = not np.isnan(user[L.S_LAST_SUBMIT]) and t - user[L.S_LAST_SUBMIT] <= 60.0
        f[L.FL_BURST] = user[L.S_BURST]
        user[L.S_BURST] = user[L.S_BURST] + 1.0 if close else 0.0
    for e in range(L.N_ENTITIES):
        if rows[e] > 0:
            s = st.entity[rows[e]]
            s[L.S_IN_FLIGHT] += 1.0
            s[L.S_PENDING_CPUS] += cpus
            s[L.S_LAST_SUBMIT] = t
            s[L.S_NEWEST], s[L.S_STAGE], s[L.S_NEWEST_LIMIT] = f[L.FL_NUMBER], L.PENDING, x[L.X_LIMIT]
            s[L.S_FLIGHT_RISK] += f[L.FL_RISK]
            s[L.S_DIRTY] = 1.0
    st.cluster[L.C_PENDING] += 1.0
    st.cluster[L.C_PENDING_CPUS] += cpus
    st.cluster[L.C_SUBMITS_10M] += 1.0
    return place


@inner
def withdrawn(st: State, place: int) -> None:
    """Remove a live job as if it had not been submitted: a job does not compete with itself.

    One that runs is `not_started` first.

    Whether the job before it, of an entity whose newest it is, has ended since follows from the entity's last
    end: a guess, since that may be the end of a still earlier one. To know it, each entity would have to keep
    the numbers of all its jobs in flight.
    """
    f = st.flight[place]
    rows = np.zeros(L.N_ENTITIES, np.int64)
    rows_of(st, st.flight_key[place], rows)
    cpus = f[L.FL_CPUS]
    for e in range(L.N_ENTITIES):
        if rows[e] == 0:
            continue
        s = st.entity[rows[e]]
        s[L.S_IN_FLIGHT] -= 1.0
        s[L.S_FLIGHT_RISK] = s[L.S_FLIGHT_RISK] - f[L.FL_RISK] if s[L.S_IN_FLIGHT] > 0.0 else 0.0
        s[L.S_PENDING_CPUS] -= cpus
        if e < L.N_FULL and s[L.S_NEWEST] == f[L.FL_NUMBER]:
            for n in range(L.N_BEFORE):
                s[L.BEFORE[n]] = f[L.FL_BEFORE + e * L.N_BEFORE + n]
            if s[L.S_LAST_END] > f[L.FL_SUBMIT] and (s[L.S_STAGE] == L.PENDING or s[L.S_STAGE] == L.RUNNING):
                s[L.S_STAGE] = L.FAILED if s[L.S_LAST] > 0.0 else L.WENT_WELL
            if e == L.E_USER:
                s[L.S_BURST] = f[L.FL_BURST]
    c = st.cluster
    c[L.C_PENDING] -= 1.0
    c[L.C_PENDING_CPUS] -= cpus
    c[L.C_SUBMITS_10M] = max(0.0, c[L.C_SUBMITS_10M] - np.exp2((f[L.FL_SUBMIT] - c[L.C_AT]) / 600.0))


@inner
def not_started(st: State, place: int) -> None:
    """Undo the start of a live job: it waits again, as a model saw jobs at their start.

    How long others have waited is set to what it was just before; what started after it is not in that.
    """
    f = st.flight[place]
    rows = np.zeros(L.N_ENTITIES, np.int64)
    rows_of(st, st.flight_key[place], rows)
    cpus = f[L.FL_CPUS]
    for e in range(L.N_ENTITIES):
        if rows[e] > 0:
            s = st.entity[rows[e]]
            s[L.S_RUNNING] -= 1.0
            s[L.S_RUNNING_STARTS] -= f[L.FL_START]
            if s[L.S_NEWEST] == f[L.FL_NUMBER]:
                s[L.S_STAGE] = L.PENDING
            s[L.S_PENDING_CPUS] += cpus
            s[L.S_RUNNING_CPUS] -= cpus
    if rows[L.E_PARTITION] > 0:
        _set_wait(st.entity[rows[L.E_PARTITION]], L.S_WAIT_LOG, L.S_WAIT_WEIGHT, f[L.FL_PARTITION_WAIT])
    c = st.cluster
    _set_wait(c, L.C_WAIT_LOG, L.C_WAIT_WEIGHT, f[L.FL_QUEUE_WAIT])
    c[L.C_PENDING] += 1.0
    c[L.C_RUNNING] -= 1.0
    c[L.C_PENDING_CPUS] += cpus
    c[L.C_RUNNING_CPUS] -= cpus
    f[L.FL_START] = np.nan


@inner
def _set_wait(s: Floats, log: int, weight: int, mean: float) -> None:
    known = not np.isnan(mean)
    s[log], s[weight] = (mean, 1.0) if known else (0.0, 0.0)


@inner
def started(st: State, t: float, place: int) -> None:
    """Move a live job from pending to running."""
    rows = st.flight_row[place]
    f = st.flight[place]
    f[L.FL_START] = t
    cpus, wait = f[L.FL_CPUS], np.log2(max(0.0, t - f[L.FL_SUBMIT]) + 1.0)
    partition = st.entity[rows[L.E_PARTITION]]
    f[L.FL_PARTITION_WAIT] = rate(partition[L.S_WAIT_LOG], partition[L.S_WAIT_WEIGHT])
    f[L.FL_QUEUE_WAIT] = rate(st.cluster[L.C_WAIT_LOG], st.cluster[L.C_WAIT_WEIGHT])
    for e in range(L.N_ENTITIES):
        if rows[e] > 0:
            s = st.entity[rows[e]]
            s[L.S_RUNNING] += 1.0
            s[L.S_RUNNING_STARTS] += t
            if s[L.S_NEWEST] == f[L.FL_NUMBER]:
                s[L.S_STAGE], s[L.S_NEWEST_START] = L.RUNNING, t
            s[L.S_PENDING_CPUS] -= cpus
            s[L.S_RUNNING_CPUS] += cpus
            s[L.S_WAIT_LOG], s[L.S_WAIT_WEIGHT] = (
                s[L.S_WAIT_LOG] * L.D15 + wait,
                s[L.S_WAIT_WEIGHT] * L.D15 + 1.0,
            )
            s[L.S_DIRTY] = 1.0
    c = st.cluster
    c[L.C_PENDING] -= 1.0
    c[L.C_RUNNING] += 1.0
    c[L.C_PENDING_CPUS] -= cpus
    c[L.C_RUNNING_CPUS] += cpus
    c[L.C_WAIT_LOG], c[L.C_WAIT_WEIGHT] = c[L.C_WAIT_LOG] * L.D15 + wait, c[L.C_WAIT_WEIGHT] * L.D15 + 1.0


@inner
def ended(st: State, t: float, place: int, result: Floats, nodes: Hashes) -> None:
    """Record the outcome of a live job: leave the queue, learn, remove the job."""
    f, rows = st.flight[place], st.flight_row[place]
    ran, cpus = not np.isnan(f[L.FL_START]), f[L.FL_CPUS]
    counts = not np.isnan(result[L.R_FAILS])
    run_log, mem_log = _run_log(result), _mem_log(result)
    stage = L.NONE
    if counts:
        stage = L.FAILED if result[L.R_FAILS] > 0.0 else L.WENT_WELL
    for e in range(L.N_ENTITIES):
        if rows[e] > 0:
            s = st.entity[rows[e]]
            s[L.S_DIRTY] = 1.0
            s[L.S_IN_FLIGHT] -= 1.0
            # What rounding left of the sum goes with the last job in flight.
            s[L.S_FLIGHT_RISK] = s[L.S_FLIGHT_RISK] - f[L.FL_RISK] if s[L.S_IN_FLIGHT] > 0.0 else 0.0
            if s[L.S_NEWEST] == f[L.FL_NUMBER]:
                s[L.S_STAGE] = stage
            if ran:
                s[L.S_RUNNING] -= 1.0
                s[L.S_RUNNING_STARTS] -= f[L.FL_START]
                s[L.S_RUNNING_CPUS] -= cpus
            else:
                s[L.S_PENDING_CPUS] -= cpus
            if counts:
                _to_ended(s, t, result[L.R_FAILS], result[L.R_LIMIT], result[L.R_MEMORY_KILL])
                _to_used(s, f, result, run_log, mem_log)
    c = st.cluster
    if ran:
        c[L.C_RUNNING] -= 1.0
        c[L.C_RUNNING_CPUS] -= cpus
    else:
        c[L.C_PENDING] -= 1.0
        c[L.C_PENDING_CPUS] -= cpus
    if counts:
        fails = result[L.R_FAILS]
        c[L.C_ENDED] += 1.0
        for ends in (L.C_ENDS_10M, L.C_ENDS_1H, L.C_ENDS_1D):
            c[ends] += 1.0
            c[ends + 1] += fails
        c[L.C_S3], c[L.C_W3] = c[L.C_S3] * L.D3 + fails, c[L.C_W3] * L.D3 + 1.0
        c[L.C_S15], c[L.C_W15] = c[L.C_S15] * L.D15 + fails, c[L.C_W15] * L.D15 + 1.0
        c[L.C_S100], c[L.C_W100] = c[L.C_S100] * L.D100 + fails, c[L.C_W100] * L.D100 + 1.0
        for key in nodes:
            row = row_of(st, key)
            _to_ended(st.entity[row], t, fails, result[L.R_LIMIT], result[L.R_MEMORY_KILL])
            st.entity[row, L.S_DIRTY] = 1.0
        if rows[L.E_USER] > 0:
            _remember(st, f, st.entity[rows[L.E_USER]], fails, run_log, mem_log)
        recorded(st, f[L.FL_ONLINE], fails, f[L.FL_WEIGHT])
        learn(st, st.flight_slot[place], fails, f[L.FL_WEIGHT])
    st.flight_free[st.used[FREE_FLIGHTS]] = place
    st.used[FREE_FLIGHTS] += 1


@inner
def _remember(st: State, f: Floats, user: Floats, fails: float, run_log: float, mem_log: float) -> None:
    user[L.S_LAST_REQUEST] = f[L.FL_REQUEST]
    if user[L.S_RING] == 0.0:
        st.used[USED_RINGS] += 1
        user[L.S_RING] = np.float64(st.used[USED_RINGS])
    r = st.ring[int(user[L.S_RING]) - 1, int(user[L.S_RING_COUNT]) % L.RING_JOBS]
    r[L.N_CPUS], r[L.N_LIMIT], r[L.N_MEMORY] = f[L.FL_LOG_CPUS], f[L.FL_LOG_LIMIT], f[L.FL_LOG_MEMORY]
    r[L.N_NAME], r[L.N_DIR], r[L.N_PARTITION] = f[L.FL_NAME], f[L.FL_DIR], f[L.FL_PARTITION]
    r[L.N_FAILS], r[L.N_RUN_LOG], r[L.N_MEM_LOG] = fails, run_log, mem_log
    user[L.S_RING_COUNT] += 1.0


@entry
def corrected(
    st: State, keys: Hashes, since: Ints, failed_since: Ints, before: Floats, result: Floats
) -> None:
    """Record what became known of a job after its end: its use, what killed it. Whether it failed stays.

    Of each of its entities so many jobs ended, and failed, `since`: what fades counts as if it had been known
    at the end. Nodes are left as they are: no feature reads their memory.
    """
    limit, memory_kill = (
        result[L.R_LIMIT] - before[L.R_LIMIT],
        result[L.R_MEMORY_KILL] - before[L.R_MEMORY_KILL],
    )
    rows = np.zeros(L.N_ENTITIES, np.int64)
    rows_of(st, keys, rows)
    for e in range(L.N_ENTITIES):
        if rows[e] == 0:
            continue
        s = st.entity[rows[e]]
        s[L.S_DIRTY] = 1.0
        s[L.S_LIMIT15] += limit * L.D15 ** since[e]
        s[L.S_MEMORY15] += memory_kill * L.D15 ** since[e]
        _correct_mean(s, L.S_RUN_LOG, _run_log(before), _run_log(result), since[e])
        _correct_mean(s, L.S_MEM_LOG, _mem_log(before), _mem_log(result), since[e])
        if result[L.R_FAILS] > 0.0:
            _correct_mean(s, L.S_FAIL_RUN_LOG, _run_log(before), _run_log(result), failed_since[e])
        if since[e] == 0:
            s[L.S_LAST_RUN_LOG], s[L.S_LAST_HIT] = _run_log(result), result[L.R_LIMIT]
    user = st.entity[rows[L.E_USER]]
    if rows[L.E_USER] > 0 and since[L.E_USER] < L.RING_JOBS:
        newest = int(user[L.S_RING_COUNT]) - 1
        r = st.ring[int(user[L.S_RING]) - 1, (newest - since[L.E_USER]) % L.RING_JOBS]
        r[L.N_RUN_LOG], r[L.N_MEM_LOG] = _run_log(result), _mem_log(result)


@inner
def _correct_mean(s: Floats, log: int, before: float, value: float, since: int) -> None:
    """Insert a value into a mean, replacing another or none, as of before so many jobs ended."""
    share, weight = L.D8**since, log + 1
    if not np.isnan(before):
        s[log] -= before * share
        s[weight] -= share
    if not np.isnan(value):
        s[log] += value * share
        s[weight] += share
