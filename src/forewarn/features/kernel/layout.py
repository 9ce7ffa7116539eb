"""The columns of the kernel's arrays and the features it computes, by name.

Numba takes these module-level integers as constants. Names and places stand side by side, so that a
feature added here is written by the kernel at the place that its name has.
"""

from __future__ import annotations

from dataclasses import dataclass

from forewarn.job.phase import Phase

# --- what a job brings: numbers (NaN is missing) and atoms (64-bit hashes of text, 0 is missing) ---

NUMBERS = (
    *("cpus", "nodes", "tasks", "memory", "memory_per", "time_limit", "gpus", "priority"),
    *("array_task", "depends", "defaulted", "utc_offset", "cpus_given", "nodes_given", "memory_given"),
    "array_job",
)
(
    X_CPUS, X_NODES, X_TASKS, X_MEMORY, X_MEMORY_PER, X_LIMIT, X_GPUS, X_PRIORITY, X_ARRAY_TASK, X_DEPENDS,
    X_DEFAULTED, X_UTC_OFFSET, X_CPUS_GIVEN, X_NODES_GIVEN, X_MEMORY_GIVEN, X_ARRAY_JOB,
) = range(len(NUMBERS))  # fmt: skip

GIVEN = (X_CPUS_GIVEN, X_NODES_GIVEN, X_MEMORY_GIVEN)  # known only once a job runs

ATOMS = ("user", "group", "account", "name", "dir", "script", "partition", "qos")
A_USER, A_GROUP, A_ACCOUNT, A_NAME, A_DIR, A_SCRIPT, A_PARTITION, A_QOS = range(len(ATOMS))

# What an ending brings.
RESULTS = ("fails", "limit", "memory_kill", "run_time", "max_memory")
R_FAILS, R_LIMIT, R_MEMORY_KILL, R_RUN_TIME, R_MAX_MEMORY = range(len(RESULTS))

# --- entities: whose history is kept -----------------------------------------------------------

ENTITIES = (
    *("user", "user_request", "user_name"),  # these with every memory
    *("user_dir", "user_name_request", "user_cpus", "user_partition"),
    *("group", "account", "name", "script", "partition"),
    *("request", "array"),  # of anyone: all that is left where a log has no users
)
(
    E_USER, E_USER_REQUEST, E_USER_NAME, E_USER_DIR, E_USER_NAME_REQUEST, E_USER_CPUS, E_USER_PARTITION,
    E_GROUP, E_ACCOUNT, E_NAME, E_SCRIPT, E_PARTITION, E_REQUEST, E_ARRAY,
) = range(len(ENTITIES))  # fmt: skip
FULL = ("user", "user_request", "user_name")

# One entity's state: a row of float64.
STATE = (
    *("ended", "failed", "in_flight", "running", "pending_cpus", "running_cpus"),
    *("last", "streak", "s3", "w3", "s15", "w15", "s100", "w100"),
    *("last_end", "last_fail", "last_submit", "limit15", "memory15"),
    *("run_log", "run_weight", "mem_log", "mem_weight", "wait_log", "wait_weight"),
    *("last_request", "burst", "outcomes", "ring", "ring_count", "dirty"),
    # of its newest job: number, stage, start, limit; of the last ended: log2s, and whether it hit its limit
    *("newest", "stage", "newest_start", "newest_limit"),
    *("last_run_log", "last_limit_log", "last_cpus_log", "last_hit"),
    *("flight_risk", "running_starts", "fail_run_log", "fail_run_weight"),
)
(
    S_ENDED, S_FAILED, S_IN_FLIGHT, S_RUNNING, S_PENDING_CPUS, S_RUNNING_CPUS, S_LAST,
    S_STREAK, S_S3, S_W3, S_S15, S_W15, S_S100, S_W100, S_LAST_END, S_LAST_FAIL, S_LAST_SUBMIT, S_LIMIT15,
    S_MEMORY15, S_RUN_LOG, S_RUN_WEIGHT, S_MEM_LOG, S_MEM_WEIGHT, S_WAIT_LOG, S_WAIT_WEIGHT, S_LAST_REQUEST,
    S_BURST, S_OUTCOMES, S_RING, S_RING_COUNT, S_DIRTY, S_NEWEST, S_STAGE, S_NEWEST_START, S_NEWEST_LIMIT,
    S_LAST_RUN_LOG, S_LAST_LIMIT_LOG, S_LAST_CPUS_LOG, S_LAST_HIT, S_FLIGHT_RISK, S_RUNNING_STARTS,
    S_FAIL_RUN_LOG, S_FAIL_RUN_WEIGHT,
) = range(len(STATE))  # fmt: skip

# Where an entity's newest job is. One that ended otherwise than the policy counts is as none.
NONE, PENDING, RUNNING, WENT_WELL, FAILED = range(5)

# The cluster as a whole: decayed counts over 10 minutes, an hour and a day.
CLUSTER = (
    *("at", "pending", "running", "pending_cpus", "running_cpus", "wait_log", "wait_weight"),
    *("ends_10m", "fails_10m", "ends_1h", "fails_1h", "ends_1d", "fails_1d", "submits_10m"),
    *("slow_bias", "slow_bias_squares", "fast_bias", "fast_bias_squares"),
    *("s3", "w3", "s15", "w15", "s100", "w100", "submits", "ended"),
    # predictions of the regression at submit and their outcomes, by log odds: how far it can be trusted
    *(f"record_{part}_{bin_}" for part in ("jobs", "log_odds", "fails") for bin_ in range(8)),
)
RECORD_BINS = 8  # of log odds: below -4, from there one each, from 2 on
(
    C_AT, C_PENDING, C_RUNNING, C_PENDING_CPUS, C_RUNNING_CPUS, C_WAIT_LOG, C_WAIT_WEIGHT, C_ENDS_10M,
    C_FAILS_10M, C_ENDS_1H, C_FAILS_1H, C_ENDS_1D, C_FAILS_1D, C_SUBMITS_10M, C_SLOW_BIAS,
    C_SLOW_BIAS_SQUARES, C_FAST_BIAS, C_FAST_BIAS_SQUARES, C_S3, C_W3, C_S15, C_W15, C_S100, C_W100,
    C_SUBMITS, C_ENDED, C_RECORD,
) = range(len(CLUSTER) - 3 * RECORD_BINS + 1)  # fmt: skip

# A user's ring of ended jobs, for the similarity features.
RING_JOBS = 64
RING = ("cpus", "limit", "memory", "name", "dir", "partition", "fails", "run_log", "mem_log")
(
    N_CPUS, N_LIMIT, N_MEMORY, N_NAME, N_DIR, N_PARTITION, N_FAILS, N_RUN_LOG, N_MEM_LOG,
) = range(len(RING))  # fmt: skip

# What a submit overwrites of an entity, kept with the job so that the submit can be undone (`withdrawn`).
BEFORE = (S_LAST_SUBMIT, S_NEWEST, S_STAGE, S_NEWEST_START, S_NEWEST_LIMIT)
# What is kept of a job in flight beside its keys.
FLIGHT = (
    *(
        "submit",
        "start",
        "cpus",
        "request",
        "log_cpus",
        "log_limit",
        "log_memory",
        "name",
        "dir",
        "partition",
    ),
    *("online", "user_ended", "user_failed", "number", "risk", "burst_before", "decision_weight"),
    *("queue_wait_before", "partition_wait_before"),  # its start: `not_started`
    *(f"{entity}_before_{place}" for entity in FULL for place in BEFORE),
)
(
    FL_SUBMIT, FL_START, FL_CPUS, FL_REQUEST, FL_LOG_CPUS, FL_LOG_LIMIT, FL_LOG_MEMORY, FL_NAME, FL_DIR,
    FL_PARTITION, FL_ONLINE, FL_USER_ENDED, FL_USER_FAILED, FL_NUMBER, FL_RISK, FL_BURST, FL_WEIGHT,
    FL_QUEUE_WAIT, FL_PARTITION_WAIT, FL_BEFORE,
) = range(len(FLIGHT) - len(BEFORE) * len(FULL) + 1)  # fmt: skip

N_BEFORE, N_FULL = len(BEFORE), len(FULL)

# Memories fade by the job, with these half-lives.
D3, D8, D15, D100, D2000 = (0.5 ** (1 / jobs) for jobs in (3, 8, 15, 100, 2000))

# The online regression's keys: entities, then states, then states crossed with whose they are.
KEYS = (
    *("user", "user_request", "user_name", "user_dir", "user_name_request", "user_cpus", "user_partition"),
    *(
        "group",
        "account",
        "name",
        "script",
        "partition",
        "request",
        "array",
        "cpus",
        "limit",
        "memory",
        "user_limit",
        "name_cpus",
    ),
    *("group_partition",),
    *("lasts", "same_last", "streak_user", "streak_request", "streak_name", "rate3", "rate15_user"),
    *("rate15_request", "rate15_name", "since_end", "since_fail", "request_flight", "user_flight", "burst"),
    *("since_submit", "limit_ratio", "memory_ratio", "cluster_10m", "cluster_1h", "hour", "weekday"),
    *("outcomes_user", "outcomes_request", "newest_user", "newest_request", "newest_name", "change_last"),
    *("user×lasts", "user×same_last", "user×streak_user", "user×streak_request", "user×rate3"),
    *("user×since_end", "user×since_fail", "user×request_flight", "user×burst", "user×limit_ratio"),
    *(
        "user×hour",
        "user×since_submit",
        "user×outcomes_user",
        "user×newest_user",
        "user×newest_request",
        "user×newest_name",
        "user×change_last",
        "request×last",
        "request×outcomes",
        "name×last",
    ),
    *("name×outcomes", "partition×hour", "partition×cluster_1h", "group×lasts", "request×newest"),
    *("anyones_request×last", "anyones_request×outcomes"),
)
N_ENTITY_KEYS = KEYS.index("lasts")
# Keys that tell of submits. At start the job itself would be the newest: these stay as they were at submit.
SUBMIT_KEYS = tuple(
    place
    for place, key in enumerate(KEYS)
    if any(word in key for word in ("flight", "burst", "since_submit", "newest"))
)
# The failure rate in some of these contexts is a feature of its own: name to key.
CONTEXTS = {
    "lasts": "lasts",
    "outcomes": "outcomes_user",
    "user_lasts": "user×lasts",
    "user_same_last": "user×same_last",
    "user_streak": "user×streak_user",
    "user_outcomes": "user×outcomes_user",
    "request_last": "request×last",
    "name_last": "name×last",
    "user_hour": "user×hour",
}
CONTEXT_KEYS = tuple(KEYS.index(key) for key in CONTEXTS.values())
N_ENTITIES, N_STATE, N_KEYS, N_RING = len(ENTITIES), len(STATE), len(KEYS), len(RING)
WEIGHT_SLOTS = 1 << 21  # rows of the hashed table
# The weights of the slow and of the fast learner, each with AdaGrad's sum; failures and jobs that fade.
WEIGHT = ("slow", "slow_squares", "fast", "fast_squares", "fails", "count")
W_SLOW, W_SLOW_SQUARES, W_FAST, W_FAST_SQUARES, W_FAILS, W_COUNT = range(len(WEIGHT))


# --- features ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of the feature table: its name, and what it needs to be known."""

    name: str
    integer: bool = False
    phase: Phase = Phase.SUBMIT  # the first phase at which it exists
    private: bool = False  # from the identity or history of a user or workload: not in `restricted`
    swf: bool = True  # can be computed from the Standard Workload Format
    aside: bool = False  # tells how much a job counts in learning; no model sees it


def _static() -> list[Feature]:
    names = ("cpus", "nodes", "tasks", "gpus", "priority", "array_task", "time_limit", "memory_per")
    swf = {"cpus", "time_limit", "memory_per"}
    # Slurm's priority grows while a job waits, and accounting has the last one: not known at submit.
    since = {"priority": Phase.START}
    plain = [Feature(n, integer=True, swf=n in swf, phase=since.get(n, Phase.SUBMIT)) for n in names]
    return [
        *plain,
        Feature("memory"),
        Feature("memory_per_cpu"),
        Feature("cpus_per_node", swf=False),
        Feature("is_array", integer=True, swf=False),
        Feature("has_dependency", integer=True, swf=False),
        Feature("defaulted", integer=True, swf=False),
        Feature("limit_in_hours", integer=True),
        Feature("cpus_power_of_two", integer=True),
        Feature("hour", integer=True),
        Feature("weekday", integer=True),
    ]


STATIC = _static()
QUEUE = [
    *(Feature(f"queue_{n}", integer=True) for n in ("pending", "running", "pending_cpus", "running_cpus")),
    *(
        Feature(f"partition_{n}", integer=True)
        for n in ("pending", "running", "pending_cpus", "running_cpus")
    ),
    *(Feature(n) for n in ("queue_wait", "partition_wait", "submits_10m", "ends_10m")),
    *(Feature(n) for n in ("fail_rate_10m", "fail_rate_1h", "fail_rate_1d")),
]
# What is kept of each entity's history, in two parts: of every entity, and of those in `FULL` besides.
BRIEF = ("last", "streak", "ended", "in_flight", "rate3", "rate15", "rate100", "since_end")
MORE = (
    *("since_fail", "since_submit", "running", "limit15", "memory15", "run_time", "limit_ratio"),
    *("memory_ratio", "newest_stage", "newest_elapsed", "newest_ratio", "flight_risk", "running_elapsed"),
    *("last_run_time", "last_hit", "limit_change", "cpus_change", "limit_fail_ratio"),
)
(
    H_LAST, H_STREAK, H_ENDED, H_IN_FLIGHT, H_RATE3, H_RATE15, H_RATE100, H_SINCE_END,
    H_SINCE_FAIL, H_SINCE_SUBMIT, H_RUNNING, H_LIMIT15, H_MEMORY15, H_RUN_TIME, H_LIMIT_RATIO,
    H_MEMORY_RATIO, H_NEWEST_STAGE, H_NEWEST_ELAPSED, H_NEWEST_RATIO, H_FLIGHT_RISK, H_RUNNING_ELAPSED,
    H_LAST_RUN_TIME, H_LAST_HIT, H_LIMIT_CHANGE, H_CPUS_CHANGE, H_LIMIT_FAIL_RATIO,
) = range(len(BRIEF) + len(MORE))  # fmt: skip
_INTEGER = frozenset(
    {
        *("last", "streak", "ended", "in_flight", "running", "since_end", "since_fail", "since_submit"),
        *("newest_stage", "newest_elapsed", "last_hit"),
    }
)
_NOT_SWF = frozenset({"user_dir", "account", "script", "array"})
N_BRIEF, N_MORE = len(BRIEF), len(MORE)
HISTORY = [
    Feature(f"{e}_{m}", integer=m in _INTEGER, private=e != "partition", swf=e not in _NOT_SWF)
    for e in ENTITIES
    for m in (BRIEF + MORE if e in FULL else BRIEF)
]
ENCODED = [
    *(Feature(n, private=True) for n in ("online", "online_entities", "online_states")),
    *(Feature(f"backoff_{c}_{h}", private=True) for c in ("request", "name") for h in (3, 15, 100)),
    *(Feature(f"context_{c}", private=True) for c in CONTEXTS),
    Feature("same_request_as_last", integer=True, private=True),
    Feature("burst_position", integer=True, private=True),
    *(Feature(f"similar_{n}", private=True) for n in ("rate", "best", "jobs", "limit_ratio", "memory_ratio")),
]
AT_START = [
    Feature("wait", integer=True, phase=Phase.START),
    Feature("cpus_given", integer=True, phase=Phase.START),
    Feature("nodes_given", integer=True, phase=Phase.START, swf=False),
    Feature("memory_given", phase=Phase.START, swf=False),
    Feature("online_at_submit", phase=Phase.START, private=True),
    Feature("user_ended_since_submit", integer=True, phase=Phase.START, private=True),
    Feature("user_failed_since_submit", integer=True, phase=Phase.START, private=True),
    *(Feature(f"node_{n}", phase=Phase.START, swf=False) for n in ("rate_max", "rate_mean", "seen")),
    Feature("node_since_fail", integer=True, phase=Phase.START, swf=False),
]
ASIDE = [Feature("decision_weight", aside=True)]
FEATURES: tuple[Feature, ...] = (*STATIC, *QUEUE, *HISTORY, *ENCODED, *AT_START, *ASIDE)
B_QUEUE = len(STATIC)
B_HISTORY = B_QUEUE + len(QUEUE)
B_ENCODED = B_HISTORY + len(HISTORY)
B_START = B_ENCODED + len(ENCODED)
B_ASIDE = B_START + len(AT_START)
N_FEATURES = len(FEATURES)

# The place of each feature in a row, by its name; `tests/features/test_layout.py` holds the two together.
(
    F_CPUS, F_NODES, F_TASKS, F_GPUS, F_PRIORITY, F_ARRAY_TASK, F_TIME_LIMIT, F_MEMORY_PER, F_MEMORY,
    F_MEMORY_PER_CPU, F_CPUS_PER_NODE, F_IS_ARRAY, F_HAS_DEPENDENCY, F_DEFAULTED, F_LIMIT_IN_HOURS,
    F_CPUS_POWER_OF_TWO, F_HOUR, F_WEEKDAY,
) = range(B_QUEUE)  # fmt: skip
(
    F_QUEUE_PENDING, F_QUEUE_RUNNING, F_QUEUE_PENDING_CPUS, F_QUEUE_RUNNING_CPUS, F_PARTITION_PENDING,
    F_PARTITION_RUNNING, F_PARTITION_PENDING_CPUS, F_PARTITION_RUNNING_CPUS, F_QUEUE_WAIT, F_PARTITION_WAIT,
    F_SUBMITS_10M, F_ENDS_10M, F_FAIL_RATE_10M, F_FAIL_RATE_1H, F_FAIL_RATE_1D,
) = range(B_QUEUE, B_HISTORY)  # fmt: skip
(
    F_ONLINE, F_ONLINE_ENTITIES, F_ONLINE_STATES, F_BACKOFF_REQUEST_3, F_BACKOFF_REQUEST_15,
    F_BACKOFF_REQUEST_100, F_BACKOFF_NAME_3, F_BACKOFF_NAME_15, F_BACKOFF_NAME_100, F_CONTEXT_LASTS,
    F_CONTEXT_OUTCOMES, F_CONTEXT_USER_LASTS, F_CONTEXT_USER_SAME_LAST, F_CONTEXT_USER_STREAK,
    F_CONTEXT_USER_OUTCOMES, F_CONTEXT_REQUEST_LAST, F_CONTEXT_NAME_LAST, F_CONTEXT_USER_HOUR,
    F_SAME_REQUEST_AS_LAST, F_BURST_POSITION, F_SIMILAR_RATE, F_SIMILAR_BEST, F_SIMILAR_JOBS,
    F_SIMILAR_LIMIT_RATIO, F_SIMILAR_MEMORY_RATIO,
) = range(B_ENCODED, B_START)  # fmt: skip
(
    F_WAIT, F_CPUS_GIVEN, F_NODES_GIVEN, F_MEMORY_GIVEN, F_ONLINE_AT_SUBMIT, F_USER_ENDED_SINCE_SUBMIT,
    F_USER_FAILED_SINCE_SUBMIT, F_NODE_RATE_MAX, F_NODE_RATE_MEAN, F_NODE_SEEN, F_NODE_SINCE_FAIL,
) = range(B_START, B_ASIDE)  # fmt: skip
(F_DECISION_WEIGHT,) = range(B_ASIDE, N_FEATURES)

# What others' jobs tell, too: not known where only one person's jobs are.
_SHARED = ("group_", "account_", "name_", "script_", "partition_", "request_")
OF_OTHERS = tuple(
    place
    for place, feature in enumerate(FEATURES)
    if B_QUEUE <= place < B_HISTORY
    or (B_HISTORY <= place < B_ENCODED and feature.name.startswith(_SHARED))
    or feature.name in ("context_lasts", "context_outcomes")
)

FEATURE_SETS = ("generic", "restricted", "swf")


def selected(phase: str, feature_set: str) -> list[int]:
    """Return the places of the features that a phase and a feature set have.

    >>> "user_last" in [FEATURES[i].name for i in selected("submit", "restricted")]
    False
    """
    at = Phase(phase)
    return [
        place
        for place, f in enumerate(FEATURES)
        if not f.aside
        and at.reaches(f.phase)
        and not (feature_set == "restricted" and f.private)
        and not (feature_set == "swf" and not f.swf)
    ]
