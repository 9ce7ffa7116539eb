"""The online logistic regression over hashed keys: predicts at submit, learns when the outcome is known."""

from __future__ import annotations

import numpy as np

from forewarn.compiled import inner
from forewarn.features.kernel import layout as L
from forewarn.features.kernel.numbers import (
    clipped,
    fifths,
    log_ratio,
    mix,
    rate,
    short,
    signed_steps,
    steps,
    task_memory,
    three,
    whole,
)
from forewarn.features.kernel.state import Floats, Hashes, Ints, Slots, State

# AdaGrad's steps of a slow and a fast learner over the same keys, the ridge, and what each sum of squares
# starts from: chosen on the first 80 % of five logs. The mean of the two is better than any one step: what
# lasts and what changes are learned side by side.
SLOW_STEP, FAST_STEP, L2, FIRST_SQUARES = 0.008, 0.06, 1e-2, 1.0


@inner
def regression_slots(st: State, t: float, x: Floats, keys: Hashes, rows: Ints, slots: Slots) -> None:
    """Find the slots of the job's keys in the hashed table: entities, their current states, and crossings."""
    user, request = st.entity[rows[L.E_USER]], st.entity[rows[L.E_USER_REQUEST]]
    name, anyones = st.entity[rows[L.E_USER_NAME]], st.entity[rows[L.E_REQUEST]]
    local = np.int64(t + x[L.X_UTC_OFFSET])
    hour, weekday = local % 86400 // 3600, (local // 86400 + 3) % 7
    lasts = three(user[L.S_LAST]) * 9 + three(request[L.S_LAST]) * 3 + three(name[L.S_LAST])
    same_last = three(user[L.S_LAST])
    if user[L.S_LAST_REQUEST] == short(keys[L.E_USER_REQUEST]):
        same_last += 3
    since_end = steps(t - user[L.S_LAST_END], 1.5, 14)
    since_fail = steps(t - user[L.S_LAST_FAIL], 2.0, 11)
    since_submit = steps(t - user[L.S_LAST_SUBMIT], 1.5, 14)
    flight_last = steps(request[L.S_IN_FLIGHT], 1.0, 6) * 3 + three(request[L.S_LAST])
    limit_ratio = signed_steps(log_ratio(x[L.X_LIMIT], request[L.S_RUN_LOG], request[L.S_RUN_WEIGHT]))
    memory_ratio = signed_steps(log_ratio(task_memory(x), request[L.S_MEM_LOG], request[L.S_MEM_WEIGHT]))
    near = fifths(rate(st.cluster[L.C_FAILS_10M], st.cluster[L.C_ENDS_10M]))
    wide = fifths(rate(st.cluster[L.C_FAILS_1H], st.cluster[L.C_ENDS_1H]))
    burst = steps(user[L.S_BURST], 1.0, 8) if since_submit <= 4 else 9
    burst_last = burst * 3 + three(user[L.S_LAST])
    streak = clipped(user[L.S_STREAK], 6)
    request_streak = clipped(request[L.S_STREAK], 6)
    rate3 = fifths(rate(user[L.S_S3], user[L.S_W3]))
    outcomes, request_outcomes = int(user[L.S_OUTCOMES]), int(request[L.S_OUTCOMES])
    newest_user, newest_request, newest_name = _newest(user, t), _newest(request, t), _newest(name, t)
    limit_change = signed_steps(log_ratio(x[L.X_LIMIT], user[L.S_LAST_LIMIT_LOG], 1.0) + 0.5)
    cpus_change = signed_steps(log_ratio(x[L.X_CPUS], user[L.S_LAST_CPUS_LOG], 1.0) + 0.5)
    change_last = (limit_change * 10 + cpus_change) * 6 + three(user[L.S_LAST]) + 3 * int(user[L.S_LAST_HIT])
    whose, queue = keys[L.E_USER], keys[L.E_PARTITION]

    n = 0
    for e in range(L.N_ENTITIES):
        slots[n] = _slot(n, keys[e], np.uint64(0))
        n += 1
    memory = steps(x[L.X_MEMORY] / 1048576.0, 0.5, 60)
    limit = np.int64(whole(x[L.X_LIMIT]) & np.uint64(0x7FFFFFFF))
    for v in (np.int64(whole(x[L.X_CPUS]) & np.uint64(0x7FFFFFFF)), limit, memory):
        slots[n] = _slot(n, np.uint64(1), np.uint64(v))
        n += 1
    slots[n] = _slot(n, whose, np.uint64(limit))
    slots[n + 1] = _slot(n + 1, keys[L.E_NAME], whole(x[L.X_CPUS]))
    slots[n + 2] = _slot(n + 2, keys[L.E_GROUP], queue)
    n += 3
    for v in (
        lasts, same_last, streak, request_streak, clipped(name[L.S_STREAK], 6), rate3,
        fifths(rate(user[L.S_S15], user[L.S_W15])), fifths(rate(request[L.S_S15], request[L.S_W15])),
        fifths(rate(name[L.S_S15], name[L.S_W15])), since_end, since_fail, flight_last,
        steps(user[L.S_IN_FLIGHT], 1.0, 10), burst_last, since_submit, limit_ratio,
        memory_ratio, near, wide, hour, weekday, outcomes, request_outcomes, newest_user, newest_request,
        newest_name, change_last,
    ):  # fmt: skip
        slots[n] = _slot(n, np.uint64(1), np.uint64(v))
        n += 1
    for v in (
        lasts, same_last, streak, request_streak, rate3, since_end, since_fail, flight_last, burst_last,
        limit_ratio, hour, since_submit, outcomes, newest_user, newest_request, newest_name, change_last,
    ):  # fmt: skip
        slots[n] = _slot(n, whose, np.uint64(v))
        n += 1
    slots[n] = _slot(n, keys[L.E_USER_REQUEST], np.uint64(three(request[L.S_LAST])))
    slots[n + 1] = _slot(n + 1, keys[L.E_USER_REQUEST], np.uint64(request_outcomes))
    slots[n + 2] = _slot(n + 2, keys[L.E_USER_NAME], np.uint64(three(name[L.S_LAST])))
    slots[n + 3] = _slot(n + 3, keys[L.E_USER_NAME], np.uint64(int(name[L.S_OUTCOMES])))
    slots[n + 4] = _slot(n + 4, queue, np.uint64(hour))
    slots[n + 5] = _slot(n + 5, queue, np.uint64(wide))
    slots[n + 6] = _slot(n + 6, keys[L.E_GROUP], np.uint64(lasts))
    slots[n + 7] = _slot(n + 7, keys[L.E_USER_REQUEST], np.uint64(newest_request))
    slots[n + 8] = _slot(n + 8, keys[L.E_REQUEST], np.uint64(three(anyones[L.S_LAST])))
    slots[n + 9] = _slot(n + 9, keys[L.E_REQUEST], np.uint64(int(anyones[L.S_OUTCOMES])))


@inner
def _newest(s: Floats, t: float) -> int:
    """Return the state of an entity's newest job; if running, for how long, and if past half its limit."""
    if s[L.S_STAGE] != L.RUNNING:
        return int(s[L.S_STAGE])
    elapsed = t - s[L.S_NEWEST_START]
    return 10 + steps(elapsed, 2.0, 8) * 2 + int(elapsed > 0.5 * s[L.S_NEWEST_LIMIT])


@inner
def _slot(key: int, whose: np.uint64, value: np.uint64) -> np.int32:
    return np.int32(mix(mix(np.uint64(key + 100), whose), value) & np.uint64(L.WEIGHT_SLOTS - 1))


@inner
def bias(st: State) -> float:
    """Return the log odds of a job without keys."""
    return 0.5 * (st.cluster[L.C_SLOW_BIAS] + st.cluster[L.C_FAST_BIAS])


@inner
def logit(st: State, slots: Slots, first: int, last: int) -> float:
    """Sum the log odds of some keys: the mean of the slow and the fast learner."""
    total = 0.0
    for k in range(first, last):
        total += st.weight[slots[k], L.W_SLOW] + st.weight[slots[k], L.W_FAST]
    return 0.5 * total


@inner
def decision_weight(st: State, rows: Ints) -> float:
    """Compute how much a job counts in learning: less, the more equal jobs its user has in flight.

    A thousand equal jobs sent at once are one decision. Counted a thousand times, one user's bad day would
    outweigh a month of everybody else; with the inverse root, n of them count as about 2√n jobs. Where the
    user is not known, equal jobs of anyone are counted.
    """
    equal = rows[L.E_USER_REQUEST] if rows[L.E_USER] > 0 else rows[L.E_REQUEST]
    return 1.0 / np.sqrt(1.0 + st.entity[equal, L.S_IN_FLIGHT])


@inner
def learn(st: State, slots: Slots, fails: float, weight: float) -> None:
    """Take one AdaGrad step of each learner, and update the failure counts beside their weights."""
    _learn(st, slots, fails, weight, SLOW_STEP, L.C_SLOW_BIAS, L.W_SLOW)
    _learn(st, slots, fails, weight, FAST_STEP, L.C_FAST_BIAS, L.W_FAST)
    kept = L.D100**weight
    for k in range(L.N_KEYS):
        w = st.weight[slots[k]]
        w[L.W_FAILS], w[L.W_COUNT] = w[L.W_FAILS] * kept + weight * fails, w[L.W_COUNT] * kept + weight


@inner
def recorded(st: State, log_odds: float, fails: float, weight: float) -> None:
    """Record the prediction for a job at its submit beside its outcome."""
    c, kept = st.cluster, L.D2000**weight
    for place in range(L.C_RECORD, L.C_RECORD + 3 * L.RECORD_BINS):
        c[place] *= kept
    place = L.C_RECORD + int(min(max(np.floor(log_odds) + 5.0, 0.0), L.RECORD_BINS - 1.0))
    c[place] += weight
    c[place + L.RECORD_BINS] += weight * log_odds
    c[place + 2 * L.RECORD_BINS] += weight * fails


@inner
def _learn(st: State, slots: Slots, fails: float, counts: float, step: float, bias: int, weight: int) -> None:
    """Take one step of one learner, for a job of this weight.

    Its sums of squares lie behind its bias and its weights.
    """
    c = st.cluster
    total = c[bias]
    for k in range(L.N_KEYS):
        total += st.weight[slots[k], weight]
    error = counts * (1.0 / (1.0 + np.exp(-total)) - fails)
    c[bias + 1] += error * error
    c[bias] -= step * error / np.sqrt(FIRST_SQUARES + c[bias + 1])
    for k in range(L.N_KEYS):
        w = st.weight[slots[k]]
        gradient = error + counts * L2 * w[weight]
        w[weight + 1] += gradient * gradient
        w[weight] -= step * gradient / np.sqrt(FIRST_SQUARES + w[weight + 1])
