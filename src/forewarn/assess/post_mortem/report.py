"""The report about an ended, pending or running job: the most likely cause, the evidence, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

from forewarn.assess.assessment import SimilarJob
from forewarn.assess.json_form import part_from_json, part_to_json
from forewarn.assess.wording import YOU, Reader, words
from forewarn.evidence import Statement
from forewarn.sources.slurm.scheduler import StepRecord


class Confidence(StrEnum):
    """The confidence in a cause."""

    CERTAIN = "certain"  # the scheduler says so itself
    VERY_LIKELY = "very likely"
    LIKELY = "likely"
    POSSIBLE = "possible"
    UNKNOWN = "not known"

    @classmethod
    def of(cls, score: float) -> Confidence:
        """Return the confidence for a score between 0 and 1.

        >>> Confidence.of(0.8), Confidence.of(0.0)
        (<Confidence.VERY_LIKELY: 'very likely'>, <Confidence.UNKNOWN: 'not known'>)
        """
        steps = ((0.97, cls.CERTAIN), (0.75, cls.VERY_LIKELY), (0.4, cls.LIKELY), (0.15, cls.POSSIBLE))
        return next((level for least, level in steps if score >= least), cls.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureEvidence:
    """A fact about the cause of a failure."""

    source: str  # record, exit code, use, steps, node, cluster, log, scheduler
    what: str  # in English, with the numbers
    family: str | None = None  # the family of causes that it supports
    worth: float = 0.0  # how strongly: 0 not at all, 1 certain


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of the job's log that matches a known pattern."""

    path: str
    line: int  # from 1; where the middle of a huge log was not read, from its end: -1 is the last
    text: str
    pattern: str  # its short name
    family: str
    what: str  # what it means
    follow_up: bool  # shows that something failed before, not what


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A log file that was looked for."""

    path: str
    read: bool
    why_not: str | None = None  # no such file, no permission
    size: int | None = None
    whole: bool = True  # False: only its beginning and its end
    in_time: bool = True  # False: matching its lines took too long, and some were left out
    guessed: bool = False  # no record of where its output is: this is Slurm's default


@dataclass(frozen=True, slots=True, kw_only=True)
class PostMortem:
    """An explanation of a job."""

    cluster: str
    job_id: str
    submit: int
    user: str | None
    name: str | None
    state: str | None
    outcome: str | None
    phase: str  # pending, running, ended
    kind: str | None  # whose failure: user, system, limit
    family: str | None  # of the cause: out_of_memory, missing_module …
    cause: str  # in one sentence
    confidence: Confidence
    evidence: tuple[FailureEvidence, ...] = ()
    log: tuple[LogLine, ...] = ()  # root causes first
    logs: tuple[LogFile, ...] = ()  # the files that were looked for
    steps: tuple[StepRecord, ...] = ()
    what_to_do: tuple[str, ...] = ()
    start_estimate: int | None = None  # Slurm's own, of a pending job
    risk: float | None = None  # of failure, of a pending or running job, where an assessor stated it
    similar: tuple[SimilarJob, ...] = ()
    tally: Statement | None = None  # outcomes of the similar jobs
    notes: tuple[str, ...] = ()

    def to_json(self, reader: Reader = YOU) -> dict[str, Any]:
        """Convert to JSON, with the texts for a reader."""
        return asdict(self) | {
            "similar": [part_to_json(job, reader) for job in self.similar],
            "tally": self.tally and words(self.tally, reader),
            "tally_code": self.tally and part_to_json(self.tally, reader),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what `to_json` returned."""
        return part_from_json(cls, {**value, "tally": value.get("tally_code")})
