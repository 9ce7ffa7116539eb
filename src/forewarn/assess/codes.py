"""The codes of evidence in an assessment, by subject; `code_of` finds any code by its text."""

from __future__ import annotations

from functools import cache

from forewarn.evidence import Code


class SummaryCode(Code):
    """The reasons for a verdict."""

    CANNOT_RUN = "cannot_run"  # Slurm or the machine rejects it
    LIKELY_TO_FAIL = "risk_is_high"
    ABOVE_THRESHOLD = "risk_above_threshold"
    ABOVE_THRESHOLD_BELOW_AVERAGE = "risk_above_threshold_below_average"
    CLEARLY_ABOVE_AVERAGE = "risk_clearly_above_average"  # though below the threshold
    AS_AVERAGE = "risk_as_average"  # too high to be called fine
    PROBLEMS = "risk_is_low_with_problems"
    LOW = "risk_is_low"
    UNKNOWN_WITH_PROBLEMS = "risk_unknown_with_problems"
    UNKNOWN = "risk_unknown"
    ENDED = "job_has_ended"


class ReasonCode(Code):
    """The kinds of evidence that raise or lower a risk."""

    REQUEST = "history_of_request"
    FIRST_REQUEST = "first_with_request"
    NAME = "history_of_name"
    FOLDER = "history_of_folder"
    FIRST_NAME = "first_of_name"
    USER = "history_of_user"
    FIRST_USER = "no_history_of_user"
    NAME_AND_REQUEST = "history_of_name_and_request"
    IN_FLIGHT = "jobs_in_flight"
    TIME_LIMIT = "time_limit"
    MEMORY = "requested_memory"
    SIZE = "request_size"
    PARTITION = "partition"
    NODES = "nodes_given"
    CLUSTER = "cluster_now"
    QUEUE = "queue"
    OTHERS = "jobs_of_others"
    TIME_OF_DAY = "time_of_day"
    PROFILE = "kind_of_job"
    NEEDS = "needs"
    TIME_NEEDED = "time_needed"
    MEMORY_NEEDED = "memory_needed"
    SICK_NODE = "sick_node_possible"
    USE = "use"
    EVERYTHING_ELSE = "everything_else"


class OddityCode(Code):
    """The ways in which a request does not fit the cluster, or the user's habits."""

    MEMORY_EXCEEDS_NODES = "memory_exceeds_nodes"
    MEMORY_EXCEEDS_LIMIT = "memory_exceeds_limit"
    CPUS_EXCEED_NODES = "cpus_exceed_nodes"
    CPUS_EXCEED_PARTITION = "cpus_exceed_partition"
    NO_GPUS = "no_gpus"
    GPUS_EXCEED_NODES = "gpus_exceed_nodes"
    GPUS_EXCEED_PARTITION = "gpus_exceed_partition"
    NO_SUCH_GPU = "no_such_gpu"
    NODES_EXCEED_PARTITION = "nodes_exceed_partition"
    NODES_EXCEED_LIMIT = "nodes_exceed_limit"
    TIME_EXCEEDS_LIMIT = "time_exceeds_limit"
    NO_SUCH_FEATURE = "no_such_feature"
    PARTITION_IS_DOWN = "partition_is_down"
    TASKS_CANNOT_FILL_NODES = "tasks_cannot_fill_nodes"
    NO_NODE_FITS = "no_node_fits"
    TOO_FEW_NODES_FIT = "too_few_nodes_fit"
    NO_SUCH_PARTITION = "no_such_partition"
    FAR_BEYOND_USUAL = "far_beyond_usual"


class StepCode(Code):
    """The steps that advice or a saving proposes."""

    MORE_MEMORY = "request_more_memory"
    MORE_TIME = "request_more_time"
    MORE_NODES = "spread_over_more_nodes"
    AVOID_NODES = "avoid_nodes"
    OTHER_PARTITION = "use_other_partition"
    LESS_MEMORY = "request_less_memory"
    LESS_TIME = "request_less_time"
    FIX_LINE = "fix_line"
    FIX_SCRIPT = "fix_script"


class CauseCode(Code):
    """The evidence for a proposed step."""

    MEMORY_OF_SUCH_JOBS = "memory_of_such_jobs"
    RUN_TIME_OF_SUCH_JOBS = "run_time_of_such_jobs"
    MEMORY_IS_SPREAD = "memory_is_spread"
    SUCH_JOBS_RAN_OUT_OF_MEMORY = "such_jobs_ran_out_of_memory"
    SUCH_JOBS_REACHED_LIMIT = "such_jobs_reached_limit"
    JOBS_FAIL_THERE = "jobs_fail_there"
    PARTITION_SUITS = "partition_suits"


class PassCode(Code):
    """Why a model abstains, beside the reasons in `learn/fitting/abstention.py`."""

    NO_MODEL = "no_model"
    NOTHING_LIKE_IT = "nothing_like_it"
    TOO_FEW_JOBS = "too_few_jobs"
    SCRIPT_ALONE = "script_alone"


class NoteCode(Code):
    """Limits of an assessment."""

    AGAINST_REPORT = "serves_against_report"
    NO_MODEL_FOR_START = "no_model_for_start"
    FIRST_COMPONENT = "first_component_only"
    EACH_TASK = "each_task_of_array"
    HISTORY_GOES_ON = "history_goes_on"
    HISTORY_IS_OLD = "history_is_old"


class DifferenceCode(Code):
    """The ways in which a similar job differed."""

    NODES = "other_nodes"
    CPUS = "other_cpus"
    GPUS = "other_gpus"
    MEMORY = "other_memory"
    TIME_LIMIT = "other_time_limit"
    PARTITION = "other_partition"
    QOS = "other_qos"
    NAME = "other_name"
    FOLDER = "other_folder"
    SCRIPT = "other_script"


class TallyCode(Code):
    """The outcomes of similar jobs."""

    SIMILAR_JOBS = "similar_jobs"


class RetryCode(Code):
    """The evidence for a retry verdict."""

    NOT_ENDED = "retry_of_live_job"
    COMPLETED = "retry_of_completed_job"
    CANCELLED = "retry_of_cancelled_job"
    UNKNOWN_END = "retry_of_unknown_end"
    PERMANENT = "retry_needs_correction"
    SAME_WAY = "retry_failed_the_same_way"
    TOO_MANY = "retry_too_many_attempts"
    UNLIKELY = "retry_unlikely"
    PASSING = "retry_after_passing_cause"
    PREEMPTED = "retry_after_preemption"
    PROGRAM = "retry_of_program_error"
    AVOID_NODES = "retry_elsewhere"
    NODES_UNKNOWN = "retry_without_known_node"
    MORE_MEMORY = "retry_with_memory"
    MEMORY_UNKNOWN = "retry_memory_unknown"
    NO_MORE_MEMORY = "retry_memory_exhausted"
    MORE_TIME = "retry_with_time"
    TIME_UNKNOWN = "retry_time_unknown"
    NO_MORE_TIME = "retry_time_exhausted"
    OTHER_PARTITION = "retry_in_partition"
    ATTEMPTS = "retry_attempts"
    OF_REQUEST = "retries_of_request"
    OF_USER = "retries_of_user"
    OF_CLUSTER = "retries_of_cluster"
    OF_OTHER_CLUSTERS = "retries_elsewhere"
    PERHAPS_CHANGED = "retries_perhaps_changed"


class HoursCode(Code):
    """The ways of estimating node hours at risk."""

    BY_CAUSE = "by_cause"  # from the share of the time limit that failures of each cause used
    BY_RUN_TIME = "by_run_time"  # a failure is assumed to come at the forecast end of the run
    BY_TIME_LIMIT = "by_time_limit"  # there is no forecast run time


@cache
def all_codes() -> dict[str, Code]:
    """Return every code of evidence, by its text."""
    # Subclasses of `Code` in other packages exist only once they are imported.
    import forewarn.assess.finding_codes
    import forewarn.features.slurm_field_differences
    import forewarn.learn.fitting.evidence_levels
    import forewarn.learn.heads.unusual_codes  # noqa: F401

    found = [code for codes in Code.__subclasses__() for code in codes]
    if len({str(code) for code in found}) < len(found):
        raise ValueError("two enumerations have the same code")
    return {str(code): code for code in found}


def code_of(text: str) -> Code:
    """Return a code by its text. Raise `ValueError` for one that this version does not know."""
    if text not in all_codes():
        raise ValueError(f"unknown code of evidence {text!r}: it may come from a newer version of Forewarn")
    return all_codes()[text]
