"""The retry verdict of one ended job: what to do, the request to do it with, and the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from forewarn.evidence import Statement

if TYPE_CHECKING:
    from forewarn.assess.wording.reader import Reader

RETRY_SCHEMA_VERSION = 1  # of the JSON form; increased when a field changes its meaning or is removed


class RetryAction(StrEnum):
    """What to do with a job that has ended."""

    RETRY = "retry"  # as it is
    MORE_MEMORY = "more_memory"
    MORE_TIME = "more_time"
    ANOTHER_NODE = "another_node"
    DO_NOT_RETRY = "do_not_retry"
    CANNOT_SAY = "cannot_say"

    @property
    def exit_code(self) -> int:
        """The exit code of `forewarn retry`: 0 retry, with or without changes; 1 do not; 3 cannot say."""
        return {RetryAction.DO_NOT_RETRY: 1, RetryAction.CANNOT_SAY: 3}.get(self, 0)


class RetryCause(StrEnum):
    """The cause of a failure, as far as a retry depends on it."""

    MEMORY = "memory"
    TIME = "time"
    NODE = "node"
    PASSING = "passing"  # a file system, a network, a licence: it fails whoever runs at that time
    PREEMPTED = "preempted"
    AT_ONCE = "at_once"  # a program that failed within a minute
    PROGRAM = "program"  # one that failed later
    PERMANENT = "permanent"  # the log or Slurm shows an error that stays until somebody corrects it


class RaiseBasis(StrEnum):
    """The evidence that a new amount rests on."""

    FORECAST = "forecast"  # the model's, for jobs like this
    RESUBMISSIONS = "resubmissions"  # what earlier resubmissions of the cluster used
    DOUBLING = "doubling"
    BOUNDED = "bounded"  # the evidence says more than a request is raised at once
    LARGEST = "largest"  # the most that can be had


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryVerdict:
    """Whether and how to submit an ended job again. What the new request does not change is None."""

    schema_version: ClassVar[int] = RETRY_SCHEMA_VERSION

    cluster: str
    job_id: str
    submit: int
    user: str | None
    verdict: RetryAction
    cause: str | None = None  # a `RetryCause`; None: the job did not fail
    family: str | None = None  # of the post mortem: out_of_memory, missing_module …
    confidence: str | None = None  # in the family, as the post mortem states it
    # the new request
    memory: int | None = None  # bytes per `memory_per`
    memory_per: str | None = None  # node, cpu or gpu, as the job counted it
    time_limit: int | None = None  # seconds
    partition: str | None = None
    exclude: tuple[str, ...] = ()  # nodes
    delay: int = 0  # seconds to wait before the retry
    options: tuple[str, ...] = ()  # all changes as sbatch options
    # how good it is
    probability: float | None = None  # that the retry completes
    cases: int = 0  # earlier resubmissions that the probability rests on
    attempts: int = 1  # how often the request was tried in a row, this job included
    hours: float | None = None  # node hours of the retry: the run time of 90% of such jobs, or its time limit
    hours_at_risk: float | None = None  # node hours lost if it fails as before, times the probability of that
    evidence: tuple[Statement, ...] = ()  # the decisive one first
    notes: tuple[str, ...] = ()  # about the search of the job and the reading of its log

    def to_json(self, reader: Reader | None = None) -> dict[str, Any]:
        """Convert to JSON, with the texts for a reader."""
        from forewarn.assess.json_form import part_to_json
        from forewarn.assess.wording.reader import YOU

        return {"schema_version": RETRY_SCHEMA_VERSION, **part_to_json(self, reader or YOU)}
