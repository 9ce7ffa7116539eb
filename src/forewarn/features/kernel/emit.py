"""Computes a job's features from the current state, without changing it."""

from __future__ import annotations

import numpy as np

from forewarn.compiled import inner
from forewarn.features.kernel import layout as L
from forewarn.features.kernel import similarity as weighs
from forewarn.features.kernel.cluster import faded
from forewarn.features.kernel.entities import row_of
from forewarn.features.kernel.numbers import apart, log_ratio, mix, rate, short, task_memory, total_memory
from forewarn.features.kernel.regression import bias, decision_weight, logit
from forewarn.features.kernel.state import Floats, Hashes, Ints, Slots, State

_NEWER = 0.97 ** np.arange(L.RING_JOBS)  # what a job of the ring weighs by its age
PRIOR = 2.0  # how many jobs' worth a parent counts in a back-off rate


@inner
def _emit_static(x: Floats, t: float, out: Floats) -> None:
    """Write the request and the local time: `layout.STATIC`."""
    cpus, nodes, limit, memory = x[L.X_CPUS], x[L.X_NODES], x[L.X_LIMIT], total_memory(x)
    out[L.F_CPUS], out[L.F_NODES], out[L.F_TASKS], out[L.F_GPUS] = cpus, nodes, x[L.X_TASKS], x[L.X_GPUS]
    out[L.F_PRIORITY], out[L.F_ARRAY_TASK] = x[L.X_PRIORITY], x[L.X_ARRAY_TASK]
    out[L.F_TIME_LIMIT], out[L.F_MEMORY_PER], out[L.F_MEMORY] = limit, x[L.X_MEMORY_PER], memory
    out[L.F_MEMORY_PER_CPU] = memory / cpus if cpus > 0.0 else np.nan
    out[L.F_CPUS_PER_NODE] = cpus / nodes if nodes > 0.0 else np.nan
    out[L.F_IS_ARRAY] = 0.0 if np.isnan(x[L.X_ARRAY_TASK]) else 1.0
    out[L.F_HAS_DEPENDENCY], out[L.F_DEFAULTED] = x[L.X_DEPENDS], x[L.X_DEFAULTED]
    out[L.F_LIMIT_IN_HOURS] = np.nan if np.isnan(limit) else np.float64(np.int64(limit) % 3600 == 0)
    out[L.F_CPUS_POWER_OF_TWO] = (
        np.nan if np.isnan(cpus) else np.float64((np.int64(cpus) & (np.int64(cpus) - 1)) == 0)
    )
    local = np.int64(t + x[L.X_UTC_OFFSET])
    out[L.F_HOUR], out[L.F_WEEKDAY] = local % 86400 // 3600, (local // 86400 + 3) % 7


@inner
def _emit_queue(st: State, t: float, partition: int, out: Floats) -> None:
    """Write how full and how healthy the cluster is: `layout.QUEUE`."""
    c = st.cluster
    out[L.F_QUEUE_PENDING], out[L.F_QUEUE_RUNNING] = c[L.C_PENDING], c[L.C_RUNNING]
    out[L.F_QUEUE_PENDING_CPUS], out[L.F_QUEUE_RUNNING_CPUS] = c[L.C_PENDING_CPUS], c[L.C_RUNNING_CPUS]
    out[L.F_QUEUE_WAIT] = rate(c[L.C_WAIT_LOG], c[L.C_WAIT_WEIGHT])
    if partition > 0:
        p = st.entity[partition]
        out[L.F_PARTITION_PENDING] = p[L.S_IN_FLIGHT] - p[L.S_RUNNING]
        out[L.F_PARTITION_RUNNING] = p[L.S_RUNNING]
        out[L.F_PARTITION_PENDING_CPUS] = p[L.S_PENDING_CPUS]
        out[L.F_PARTITION_RUNNING_CPUS] = p[L.S_RUNNING_CPUS]
        out[L.F_PARTITION_WAIT] = rate(p[L.S_WAIT_LOG], p[L.S_WAIT_WEIGHT])
    minutes, hour, day = faded(st, t)
    out[L.F_SUBMITS_10M], out[L.F_ENDS_10M] = c[L.C_SUBMITS_10M] * minutes, c[L.C_ENDS_10M] * minutes
    # The rate of a cluster that has been silent for long would hang on dust.
    if c[L.C_ENDS_10M] * minutes > 1e-3:
        out[L.F_FAIL_RATE_10M] = c[L.C_FAILS_10M] / c[L.C_ENDS_10M]
    if c[L.C_ENDS_1H] * hour > 1e-3:
        out[L.F_FAIL_RATE_1H] = c[L.C_FAILS_1H] / c[L.C_ENDS_1H]
    if c[L.C_ENDS_1D] * day > 1e-3:
        out[L.F_FAIL_RATE_1D] = c[L.C_FAILS_1D] / c[L.C_ENDS_1D]


@inner
def _emit_history(st: State, t: float, x: Floats, rows: Ints, out: Floats) -> None:
    """Write the history of each entity, one after the other: `layout.HISTORY`."""
    n = L.B_HISTORY
    for e in range(L.N_ENTITIES):
        if rows[e] > 0:
            s = st.entity[rows[e]]
            out[n + L.H_LAST], out[n + L.H_STREAK] = s[L.S_LAST], s[L.S_STREAK]
            out[n + L.H_ENDED], out[n + L.H_IN_FLIGHT] = s[L.S_ENDED], s[L.S_IN_FLIGHT]
            out[n + L.H_RATE3] = rate(s[L.S_S3], s[L.S_W3])
            out[n + L.H_RATE15] = rate(s[L.S_S15], s[L.S_W15])
            out[n + L.H_RATE100] = rate(s[L.S_S100], s[L.S_W100])
            out[n + L.H_SINCE_END] = t - s[L.S_LAST_END]
            if e < L.N_FULL:
                _emit_more(s, t, x, out[n : n + L.N_BRIEF + L.N_MORE])
        n += L.N_BRIEF + L.N_MORE if e < L.N_FULL else L.N_BRIEF


@inner
def _emit_more(s: Floats, t: float, x: Floats, out: Floats) -> None:
    """Write the further history of the entities in `layout.FULL`."""
    limit = x[L.X_LIMIT]
    out[L.H_SINCE_FAIL], out[L.H_SINCE_SUBMIT] = t - s[L.S_LAST_FAIL], t - s[L.S_LAST_SUBMIT]
    out[L.H_RUNNING] = s[L.S_RUNNING]
    out[L.H_LIMIT15], out[L.H_MEMORY15] = rate(s[L.S_LIMIT15], s[L.S_W15]), rate(s[L.S_MEMORY15], s[L.S_W15])
    out[L.H_RUN_TIME] = 2.0 ** (s[L.S_RUN_LOG] / s[L.S_RUN_WEIGHT]) if s[L.S_RUN_WEIGHT] > 0.0 else np.nan
    out[L.H_LIMIT_RATIO] = log_ratio(limit, s[L.S_RUN_LOG], s[L.S_RUN_WEIGHT])
    out[L.H_MEMORY_RATIO] = log_ratio(task_memory(x), s[L.S_MEM_LOG], s[L.S_MEM_WEIGHT])
    # A job that has outlived the usual failure is likely to go well: the best that is known of jobs whose
    # ending is not.
    elapsed = t - s[L.S_NEWEST_START] if s[L.S_STAGE] == L.RUNNING else np.nan
    out[L.H_NEWEST_STAGE], out[L.H_NEWEST_ELAPSED] = s[L.S_STAGE], elapsed
    out[L.H_NEWEST_RATIO] = log_ratio(elapsed + 1.0, s[L.S_FAIL_RUN_LOG], s[L.S_FAIL_RUN_WEIGHT])
    out[L.H_FLIGHT_RISK] = rate(s[L.S_FLIGHT_RISK], s[L.S_IN_FLIGHT])
    out[L.H_RUNNING_ELAPSED] = t - rate(s[L.S_RUNNING_STARTS], s[L.S_RUNNING])
    out[L.H_LAST_RUN_TIME] = 2.0 ** s[L.S_LAST_RUN_LOG]
    out[L.H_LAST_HIT] = s[L.S_LAST_HIT] if s[L.S_ENDED] > 0.0 else np.nan
    out[L.H_LIMIT_CHANGE] = log_ratio(limit, s[L.S_LAST_LIMIT_LOG], 1.0)
    out[L.H_CPUS_CHANGE] = log_ratio(x[L.X_CPUS], s[L.S_LAST_CPUS_LOG], 1.0)
    out[L.H_LIMIT_FAIL_RATIO] = log_ratio(limit, s[L.S_FAIL_RUN_LOG], s[L.S_FAIL_RUN_WEIGHT])


@inner
def _backed_off(st: State, rows: Ints, s: int, w: int, start: float, named: bool) -> float:
    """Compute a failure rate from cluster down to this request, each level shrunk to the one above."""
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
    """Write what is learned online: `layout.ENCODED`."""
    c = st.cluster
    entities, states = logit(st, slots, 0, L.N_ENTITY_KEYS), logit(st, slots, L.N_ENTITY_KEYS, L.N_KEYS)
    out[L.F_ONLINE] = bias(st) + entities + states
    out[L.F_ONLINE_ENTITIES], out[L.F_ONLINE_STATES] = entities, states
    few, some, many = (
        (c[L.C_S3] + 0.5) / (c[L.C_W3] + 1.0),
        (c[L.C_S15] + 0.5) / (c[L.C_W15] + 1.0),
        (c[L.C_S100] + 0.5) / (c[L.C_W100] + 1.0),
    )
    out[L.F_BACKOFF_REQUEST_3] = _backed_off(st, rows, L.S_S3, L.S_W3, few, False)
    out[L.F_BACKOFF_REQUEST_15] = _backed_off(st, rows, L.S_S15, L.S_W15, some, False)
    out[L.F_BACKOFF_REQUEST_100] = _backed_off(st, rows, L.S_S100, L.S_W100, many, False)
    out[L.F_BACKOFF_NAME_3] = _backed_off(st, rows, L.S_S3, L.S_W3, few, True)
    out[L.F_BACKOFF_NAME_15] = _backed_off(st, rows, L.S_S15, L.S_W15, some, True)
    out[L.F_BACKOFF_NAME_100] = _backed_off(st, rows, L.S_S100, L.S_W100, many, True)
    for n, k in enumerate(L.CONTEXT_KEYS):  # in the order of the features, both built from CONTEXTS
        out[L.F_CONTEXT_LASTS + n] = rate(st.weight[slots[k], L.W_FAILS], st.weight[slots[k], L.W_COUNT])
    if rows[L.E_USER] > 0:
        user = st.entity[rows[L.E_USER]]
        if user[L.S_ENDED] > 0.0:
            same = user[L.S_LAST_REQUEST] == short(keys[L.E_USER_REQUEST])
            out[L.F_SAME_REQUEST_AS_LAST] = 1.0 if same else 0.0
        out[L.F_BURST_POSITION] = user[L.S_BURST]
        _emit_similar(st, x, a, int(user[L.S_RING]) - 1, int(user[L.S_RING_COUNT]), out)


@inner
def _emit_similar(st: State, x: Floats, a: Hashes, ring: int, count: int, out: Floats) -> None:
    """Write the outcomes of the user's recent jobs, weighted by similarity to this one."""
    if ring < 0 or count == 0:
        out[L.F_SIMILAR_JOBS] = 0.0
        return
    cpus, limit, memory = np.log2(x[L.X_CPUS]), np.log2(x[L.X_LIMIT]), np.log2(total_memory(x) + 1.0)
    name, folder, queue = short(a[L.A_NAME]), short(a[L.A_DIR]), short(mix(a[L.A_PARTITION], a[L.A_QOS]))
    total = fails = best = run = run_weight = mem = mem_weight = 0.0
    for i in range(min(count, L.RING_JOBS)):
        r = st.ring[ring, i]
        distance = (
            weighs.CPUS * apart(cpus, r[L.N_CPUS])
            + weighs.TIME_LIMIT * apart(limit, r[L.N_LIMIT])
            + weighs.MEMORY * apart(memory, r[L.N_MEMORY])
        )
        if name != r[L.N_NAME]:
            distance += weighs.NAME
        if folder != r[L.N_DIR]:
            distance += weighs.FOLDER
        if queue != r[L.N_PARTITION]:
            distance += weighs.QUEUE
        similarity = np.exp(-distance)
        best = max(best, similarity)
        # Newer jobs weigh more: the ring is filled in turn.
        age = (count - 1 - i) % L.RING_JOBS
        weight = similarity * _NEWER[age]
        total += weight
        fails += weight * r[L.N_FAILS]
        if not np.isnan(r[L.N_RUN_LOG]):
            run += weight * r[L.N_RUN_LOG]
            run_weight += weight
        if not np.isnan(r[L.N_MEM_LOG]):
            mem += weight * r[L.N_MEM_LOG]
            mem_weight += weight
    if total > 1e-9:
        out[L.F_SIMILAR_RATE] = fails / total
    out[L.F_SIMILAR_BEST], out[L.F_SIMILAR_JOBS] = best, total
    out[L.F_SIMILAR_LIMIT_RATIO] = log_ratio(x[L.X_LIMIT], run, run_weight if run_weight > 1e-9 else 0.0)
    out[L.F_SIMILAR_MEMORY_RATIO] = log_ratio(task_memory(x), mem, mem_weight if mem_weight > 1e-9 else 0.0)


@inner
def emit_start(st: State, t: float, x: Floats, place: int, user: int, nodes: Hashes, out: Floats) -> None:
    """Write what is known only at start, after `emit`: `layout.AT_START`; weights as at submit."""
    f = st.flight[place]
    out[L.F_WAIT] = t - f[L.FL_SUBMIT]
    out[L.F_CPUS_GIVEN], out[L.F_NODES_GIVEN] = x[L.X_CPUS_GIVEN], x[L.X_NODES_GIVEN]
    out[L.F_MEMORY_GIVEN] = x[L.X_MEMORY_GIVEN]
    out[L.F_ONLINE_AT_SUBMIT] = f[L.FL_ONLINE]
    if user > 0:
        out[L.F_USER_ENDED_SINCE_SUBMIT] = st.entity[user, L.S_ENDED] - f[L.FL_USER_ENDED]
        out[L.F_USER_FAILED_SINCE_SUBMIT] = st.entity[user, L.S_FAILED] - f[L.FL_USER_FAILED]
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
        out[L.F_NODE_RATE_MAX], out[L.F_NODE_RATE_MEAN] = worst, total / seen
    if nodes.shape[0] > 0:
        out[L.F_NODE_SEEN] = seen / nodes.shape[0]
    out[L.F_NODE_SINCE_FAIL] = t - last_fail
    out[L.F_DECISION_WEIGHT] = f[L.FL_WEIGHT]


@inner
def emit(
    st: State, t: float, x: Floats, a: Hashes, keys: Hashes, rows: Ints, slots: Slots,
    out: Floats,
) -> None:  # fmt: skip
    """Write all features that exist at submit; unknown ones stay NaN."""
    out[:] = np.nan
    _emit_static(x, t, out)
    _emit_queue(st, t, rows[L.E_PARTITION], out)
    _emit_history(st, t, x, rows, out)
    _emit_encoded(st, x, a, keys, rows, slots, out)
    out[L.F_DECISION_WEIGHT] = decision_weight(st, rows)
