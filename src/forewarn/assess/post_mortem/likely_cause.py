"""Find the most likely cause: evidence for the same family adds up, the strongest family wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forewarn.assess.post_mortem import wording
from forewarn.assess.post_mortem.cause_families import FAMILIES
from forewarn.assess.post_mortem.report import Confidence, FailureEvidence, LogLine
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job

# Families that a more exact one includes: a kill for memory is also a kill.
_EXACTER = {
    "killed": ("out_of_memory", "time_limit", "gpu_memory", "node_failure", "cancelled"),
    "program_error": ("crash", "numerical", "python_package", "file_missing", "usage"),
    "mpi": ("network", "crash", "out_of_memory"),
}

WEAK = 0.3  # a score below which naming a cause would be guessing
# Families whose record says more than their own words.
_DETAIL_IN_RECORD = ("cancelled", "dependency", "launch", "refused", "own_time_limit")


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """A cause with its confidence and what to do about it."""

    family: str | None
    cause: str
    confidence: Confidence
    to_do: tuple[str, ...]


def scores(evidence: Sequence[FailureEvidence]) -> dict[str, float]:
    """Compute the score of each family, from 0 to 1: the doubts of its evidence multiply.

    >>> one = FailureEvidence(source="log", what="", family="crash", worth=0.5)
    >>> scores([one, one])
    {'crash': 0.75}
    """
    doubts: dict[str, float] = {}
    for fact in evidence:
        if fact.family is not None and fact.worth > 0:
            doubts[fact.family] = doubts.get(fact.family, 1.0) * (1 - fact.worth)
    return {family: 1 - doubt for family, doubt in doubts.items()}


def likely_cause(
    job: Job,
    evidence: Sequence[FailureEvidence],
    log: Sequence[LogLine],
    at_once: Sequence[FailureEvidence] = (),
) -> LikelyCause:
    """Find the most likely cause of an ended job; `at_once` is evidence of a failure at its start."""
    found = scores(evidence)
    for rough, exact in _EXACTER.items():
        if rough in found and any(found.get(family, 0.0) >= 0.3 for family in exact):
            found[rough] *= 0.5
    if job.outcome == Outcome.COMPLETED:
        return _completed(log)
    if not found or max(found.values()) < WEAK:
        return _unknown(evidence, found, at_once)
    # Of two families with the same score the first is the cause, and the later one followed from it.
    order = [fact.family for fact in evidence]
    family = max(found, key=lambda name: (round(found[name], 3), -order.index(name)))
    known = FAMILIES[family]
    cause = wording.cause(known.cause, _detail(family, evidence, log))
    return LikelyCause(family, cause, Confidence.of(found[family]), known.to_do)


def _detail(family: str, evidence: Sequence[FailureEvidence], log: Sequence[LogLine]) -> str | None:
    """Return the most exact evidence for a family: a line of the log, else the strongest of the rest."""
    for line in log:
        if line.family == family and not line.follow_up:
            return line.what
    # The scheduler's state repeats the words of the family.
    facts = [fact for fact in evidence if fact.family == family and fact.source not in ("log", "record")]
    if family in _DETAIL_IN_RECORD:
        facts = [fact for fact in evidence if fact.family == family and fact.source != "log"]
    return max(facts, key=lambda fact: fact.worth).what if facts else None


def _unknown(
    evidence: Sequence[FailureEvidence], found: dict[str, float], at_once: Sequence[FailureEvidence]
) -> LikelyCause:
    """Report a cause that is not known, with what is: the exit code, and a failure right after the start."""
    exit_codes = [fact.what for fact in evidence if fact.source == "exit code"]
    return LikelyCause(
        max(found, key=lambda name: found[name]) if found else None,
        wording.unknown_cause(*exit_codes[:1], *(fact.what for fact in at_once)),
        Confidence.POSSIBLE if found else Confidence.UNKNOWN,
        (wording.READ_THE_OUTPUT,),
    )


def _completed(log: Sequence[LogLine]) -> LikelyCause:
    error = next((line for line in log if not line.follow_up), None)
    if error is None:
        return LikelyCause(None, wording.COMPLETED, Confidence.CERTAIN, ())
    return LikelyCause(
        error.family,
        wording.error_although_completed(error.what),
        Confidence.POSSIBLE,
        (wording.SET_E, *FAMILIES[error.family].to_do),
    )
