"""Writes a job's features from the state as it is just then. Changes nothing."""

from __future__ import annotations

import numpy as np

from forewarn.compiled import inner
from forewarn.features.kernel import layout as L
from forewarn.features.kernel.cluster import faded
from forewarn.features.kernel.entities import row_of
from forewarn.features.kernel.numbers import log_ratio, mix, rate, short, task_memory, total_memory
from forewarn.features.kernel.regression import bias, decision_weight, logit
from forewarn.features.kernel.state import Floats, Hashes, Ints, Slots, State

_NEWER = 0.97 ** np.arange(L.RING_JOBS)  # what a job of the ring weighs by its age
PRIOR = 2.0  # how many jobs' worth a parent counts in a back-off rate


@inner
def _emit_static(x: Floats, t: float, out: Floats) -> None:
    """What is asked, and the local time: the places of `layout.STATIC`."""
    out[0], out[1], out[2], out[3] = x[L.X_CPUS], x[L.X_NODES], x[L.X_TASKS], x[L.X_GPUS]
    out[4], out[5], out[6], out[7] = x[L.X_PRIORITY], x[L.X_ARRAY_TASK], x[L.X_LIMIT], x[L.X_MEMORY_PER]
    memory = total_memory(x)
    out[8] = memory
    out[9] = memory / x[L.X_CPUS] if x[L.X_CPUS] > 0.0 else np.nan
    out[10] = x[L.X_CPUS] / x[L.X_NODES] if x[L.X_NODES] > 0.0 else np.nan
    out[11] = 0.0 if np.isnan(x[L.X_ARRAY_TASK]) else 1.0
    out[12] = x[L.X_DEPENDS]
    out[13] = x[L.X_DEFAULTED]
    out[14] = np.nan if np.isnan(x[L.X_LIMIT]) else np.float64(np.int64(x[L.X_LIMIT]) % 3600 == 0)
    cpus = x[L.X_CPUS]
    out[15] = np.nan if np.isnan(cpus) else np.float64((np.int64(cpus) & (np.int64(cpus) - 1)) == 0)
    local = np.int64(t + x[L.X_UTC_OFFSET])
    out[16], out[17] = local % 86400 // 3600, (local // 86400 + 3) % 7


@inner
def _emit_queue(st: State, t: float, partition: int, out: Floats) -> None:
    """How full and how healthy the cluster is: the places of `layout.QUEUE`."""
    c = st.cluster
    out[0], out[1], out[2], out[3] = c[L.C_PENDING], c[L.C_RUNNING], c[L.C_PENDING_CPUS], c[L.C_RUNNING_CPUS]
    out[4:8] = np.nan
    out[8], out[9] = rate(c[L.C_WAIT_LOG], c[L.C_WAIT_WEIGHT]), np.nan
    if partition > 0:
        p = st.entity[partition]
        out[4], out[5] = p[L.S_IN_FLIGHT] - p[L.S_RUNNING], p[L.S_RUNNING]
        out[6], out[7] = p[L.S_PENDING_CPUS], p[L.S_RUNNING_CPUS]
        out[9] = rate(p[L.S_WAIT_LOG], p[L.S_WAIT_WEIGHT])
    minutes, hour, day = faded(st, t)
    out[10], out[11] = c[L.C_SUBMITS_10M] * minutes, c[L.C_ENDS_10M] * minutes
    # The rate of a cluster that has been silent for long would hang on dust.
    out[12] = c[L.C_FAILS_10M] / c[L.C_ENDS_10M] if c[L.C_ENDS_10M] * minutes > 1e-3 else np.nan
    out[13] = c[L.C_FAILS_1H] / c[L.C_ENDS_1H] if c[L.C_ENDS_1H] * hour > 1e-3 else np.nan
    out[14] = c[L.C_FAILS_1D] / c[L.C_ENDS_1D] if c[L.C_ENDS_1D] * day > 1e-3 else np.nan


@inner
def _emit_history(st: State, t: float, x: Floats, rows: Ints, out: Floats) -> None:
    """The memories of each entity: the places of `layout.HISTORY`."""
    n = 0
    for e in range(L.N_ENTITIES):
        width = L.N_BRIEF + L.N_MORE if e <= L.E_USER_NAME else L.N_BRIEF
        if rows[e] == 0:
            out[n : n + width] = np.nan
            n += width
            continue
        s = st.entity[rows[e]]
        out[n], out[n + 1], out[n + 2], out[n + 3] = (
            s[L.S_LAST],
            s[L.S_STREAK],
            s[L.S_ENDED],
            s[L.S_IN_FLIGHT],
        )
        out[n + 4], out[n + 5] = rate(s[L.S_S3], s[L.S_W3]), rate(s[L.S_S15], s[L.S_W15])
        out[n + 6], out[n + 7] = rate(s[L.S_S100], s[L.S_W100]), t - s[L.S_LAST_END]
        if e <= L.E_USER_NAME:
            m = n + L.N_BRIEF
            out[m], out[m + 1], out[m + 2] = t - s[L.S_LAST_FAIL], t - s[L.S_LAST_SUBMIT], s[L.S_RUNNING]
            out[m + 3], out[m + 4] = rate(s[L.S_LIMIT15], s[L.S_W15]), rate(s[L.S_MEMORY15], s[L.S_W15])
            out[m + 5] = 2.0 ** (s[L.S_RUN_LOG] / s[L.S_RUN_WEIGHT]) if s[L.S_RUN_WEIGHT] > 0.0 else np.nan
            out[m + 6] = log_ratio(x[L.X_LIMIT], s[L.S_RUN_LOG], s[L.S_RUN_WEIGHT])
            out[m + 7] = log_ratio(task_memory(x), s[L.S_MEM_LOG], s[L.S_MEM_WEIGHT])
            # A job that has outlived the usual failure is likely to go well: the best that is known of
            # jobs whose ending is not.
            elapsed = t - s[L.S_NEWEST_START] if s[L.S_STAGE] == L.RUNNING else np.nan
            out[m + 8], out[m + 9] = s[L.S_STAGE], elapsed
            out[m + 10] = log_ratio(elapsed + 1.0, s[L.S_FAIL_RUN_LOG], s[L.S_FAIL_RUN_WEIGHT])
            out[m + 11] = rate(s[L.S_FLIGHT_RISK], s[L.S_IN_FLIGHT])
            out[m + 12] = t - rate(s[L.S_RUNNING_STARTS], s[L.S_RUNNING])
            out[m + 13] = 2.0 ** s[L.S_LAST_RUN_LOG]
            out[m + 14] = s[L.S_LAST_HIT] if s[L.S_ENDED] > 0.0 else np.nan
            out[m + 15] = log_ratio(x[L.X_LIMIT], s[L.S_LAST_LIMIT_LOG], 1.0)
            out[m + 16] = log_ratio(x[L.X_CPUS], s[L.S_LAST_CPUS_LOG], 1.0)
            out[m + 17] = log_ratio(x[L.X_LIMIT], s[L.S_FAIL_RUN_LOG], s[L.S_FAIL_RUN_WEIGHT])
        n += width


@inner
def _backed_off(st: State, rows: Ints, s: int, w: int, start: float, named: bool) -> float:
    """A failure rate from the cluster down to this very request, each level leaning on the one above."""
    rate = start
    chain = (
        L.E_GROUP,
        L.E_USER,
        L.E_USER_NAME if named else L.E_USER_CPUS,
        L.E_USER_REQUEST,
        L.E_USER_NAME_REQUEST,
    )
    for level, e in enumerate(chain):
        if rows[e] > 0 and not (named and level == 3):
            state = st.entity[rows[e]]
            rate = (state[s] + PRIOR * rate) / (state[w] + PRIOR)
    return rate


@inner
def _emit_encoded(
    st: State, x: Floats, a: Hashes, keys: Hashes, rows: Ints, slots: Slots, out: Floats
) -> None:
    """What is learned online: the places of `layout.ENCODED`."""
    c = st.cluster
    entities, states = logit(st, slots, 0, L.N_ENTITY_KEYS), logit(st, slots, L.N_ENTITY_KEYS, L.N_KEYS)
    out[0], out[1], out[2] = bias(st) + entities + states, entities, states
    n = 3
    for named in (False, True):
        out[n] = _backed_off(st, rows, L.S_S3, L.S_W3, (c[L.C_S3] + 0.5) / (c[L.C_W3] + 1.0), named)
        out[n + 1] = _backed_off(st, rows, L.S_S15, L.S_W15, (c[L.C_S15] + 0.5) / (c[L.C_W15] + 1.0), named)
        out[n + 2] = _backed_off(
            st, rows, L.S_S100, L.S_W100, (c[L.C_S100] + 0.5) / (c[L.C_W100] + 1.0), named
        )
        n += 3
    for k in L.CONTEXT_KEYS:
        out[n] = rate(st.weight[slots[k], L.W_FAILS], st.weight[slots[k], L.W_COUNT])
        n += 1
    out[n : n + 7] = np.nan
    if rows[L.E_USER] > 0:
        user = st.entity[rows[L.E_USER]]
        if user[L.S_ENDED] > 0.0:
            out[n] = 1.0 if user[L.S_LAST_REQUEST] == short(keys[L.E_USER_REQUEST]) else 0.0
        out[n + 1] = user[L.S_BURST]
        _emit_similar(st, x, a, int(user[L.S_RING]) - 1, int(user[L.S_RING_COUNT]), out[n + 2 : n + 7])


@inner
def _apart(a: float, b: float) -> float:
    """How far two logarithms are apart; missing against present is far."""
    if np.isnan(a) or np.isnan(b):
        return 0.0 if np.isnan(a) and np.isnan(b) else 2.0
    return abs(a - b)


@inner
def _emit_similar(st: State, x: Floats, a: Hashes, ring: int, count: int, out: Floats) -> None:
    """What became of the user's recent jobs, those most like this one weighing most."""
    if ring < 0 or count == 0:
        out[2] = 0.0
        return
    cpus, limit, memory = np.log2(x[L.X_CPUS]), np.log2(x[L.X_LIMIT]), np.log2(total_memory(x) + 1.0)
    name, folder, queue = short(a[L.A_NAME]), short(a[L.A_DIR]), short(mix(a[L.A_PARTITION], a[L.A_QOS]))
    total = fails = best = run = run_weight = mem = mem_weight = 0.0
    for i in range(min(count, L.RING_JOBS)):
        r = st.ring[ring, i]
        distance = (
            _apart(cpus, r[L.N_CPUS]) + _apart(limit, r[L.N_LIMIT]) + 0.5 * _apart(memory, r[L.N_MEMORY])
        )
        if name != r[L.N_NAME]:
            distance += 1.5
        if folder != r[L.N_DIR]:
            distance += 0.5
        if queue != r[L.N_PARTITION]:
            distance += 0.5
        alike = np.exp(-distance)
        best = max(best, alike)
        # Newer jobs weigh more: the ring is filled in turn.
        age = (count - 1 - i) % L.RING_JOBS
        weight = alike * _NEWER[age]
        total += weight
        fails += weight * r[L.N_FAILS]
        if not np.isnan(r[L.N_RUN_LOG]):
            run += weight * r[L.N_RUN_LOG]
            run_weight += weight
        if not np.isnan(r[L.N_MEM_LOG]):
            mem += weight * r[L.N_MEM_LOG]
            mem_weight += weight
    out[0] = fails / total if total > 1e-9 else np.nan
    out[1] = best
    out[2] = total
    out[3] = log_ratio(x[L.X_LIMIT], run, run_weight if run_weight > 1e-9 else 0.0)
    out[4] = log_ratio(task_memory(x), mem, mem_weight if mem_weight > 1e-9 else 0.0)


@inner
def emit_start(st: State, t: float, x: Floats, place: int, user: int, nodes: Hashes, out: Floats) -> None:
    """What only the start tells, from `layout.AT_START` on; the weight is that of the submit."""
    f = st.flight[place]
    out[0] = t - f[L.FL_SUBMIT]
    out[1], out[2], out[3] = x[L.X_CPUS_GIVEN], x[L.X_NODES_GIVEN], x[L.X_MEMORY_GIVEN]
    out[4] = f[L.FL_ONLINE]
    out[5:11] = np.nan
    if user > 0:
        out[5] = st.entity[user, L.S_ENDED] - f[L.FL_USER_ENDED]
        out[6] = st.entity[user, L.S_FAILED] - f[L.FL_USER_FAILED]
    worst, total, seen, last_fail = -1.0, 0.0, 0, np.nan
    for key in nodes:
        s = st.entity[row_of(st, key)]
        if s[L.S_W15] > 0.0:
            seen += 1
            rate = s[L.S_S15] / s[L.S_W15]
            total += rate
            worst = max(worst, rate)
        if not np.isnan(s[L.S_LAST_FAIL]) and not last_fail > s[L.S_LAST_FAIL]:
            last_fail = s[L.S_LAST_FAIL]
    if seen > 0:
        out[7], out[8] = worst, total / seen
    if nodes.shape[0] > 0:
        out[9] = seen / nodes.shape[0]
    out[10] = t - last_fail
    out[11] = f[L.FL_WEIGHT]


@inner
def emit(
    st: State, t: float, x: Floats, a: Hashes, keys: Hashes, rows: Ints, slots: Slots,
    out: Floats,
) -> None:  # fmt: skip
    """All features that exist at submit."""
    _emit_static(x, t, out[: L.B_QUEUE])
    _emit_queue(st, t, rows[L.E_PARTITION], out[L.B_QUEUE : L.B_HISTORY])
    _emit_history(st, t, x, rows, out[L.B_HISTORY : L.B_ENCODED])
    _emit_encoded(st, x, a, keys, rows, slots, out[L.B_ENCODED : L.B_START])
    out[L.B_START : L.B_ASIDE] = np.nan
    out[L.B_ASIDE] = decision_weight(st, rows)
