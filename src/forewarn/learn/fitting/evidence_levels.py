"""The levels of evidence about a job, and the codes of those that do not suffice: see `abstention.py`."""

from __future__ import annotations

from forewarn.evidence import Code

# The levels of evidence, the least first. On CTC, SDSC-SP2 and BLUE the evidence suffices from three ended
# jobs of a user on; below, the model is no better than a coin.
EVIDENCE_LEVELS = (
    "no earlier job of this user has ended",
    "only 1 or 2 earlier jobs of this user have ended",
    "only 3 to 9 earlier jobs of this user have ended",
    "no earlier job of this user with this request or name has ended",
    "only 1 to 4 earlier jobs of this user with this request or name have ended",
    "5 or more earlier jobs of this user with this request or name have ended",
)
WITHOUT_HISTORY = ("nothing of its request is known", "its request is known")


class AbstentionCode(Code):
    """The level of evidence that does not suffice for a job, in the order of the levels above."""

    NO_JOB = "no_job_of_user"
    ONE_OR_TWO = "one_or_two_jobs_of_user"
    THREE_TO_NINE = "three_to_nine_jobs_of_user"
    NONE_ALIKE = "no_job_alike"
    FEW_ALIKE = "few_jobs_alike"
    SOME_ALIKE = "some_jobs_alike"
    REQUEST_UNKNOWN = "request_unknown"
    REQUEST_KNOWN = "request_known"
    NOTHING_KNOWN = "nothing_known"
