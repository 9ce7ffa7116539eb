"""From evidence to the most likely cause: evidence for the same family adds up, the strongest family wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forewarn.assess.post_mortem.cause_families import FAMILIES
from forewarn.assess.post_mortem.report import Confidence, FailureEvidence, LogLine
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job

# A family that is told by something more exact of another: a kill for memory is also a kill.
_EXACTER = {
    "killed": ("out_of_memory", "time_limit", "gpu_memory", "node_failure", "cancelled"),
    "program_error": ("crash", "numerical", "python_package", "file_missing", "usage"),
    "mpi": ("network", "crash", "out_of_memory"),
}

WEAK = 0.3  # a score below which naming a cause would be guessing
_OWN_WORDS = (
    "cancelled",
    "dependency",
    "launch",
    "refused",
    "own_time_limit",
)  # of which the record says more than the family


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """A cause with how sure it is."""

    family: str | None
    cause: str
    confidence: Confidence
    to_do: tuple[str, ...]


def scores(evidence: Sequence[FailureEvidence]) -> dict[str, float]:
    """How strongly each family is spoken for: doubts multiply.

    >>> one = FailureEvidence(source="log", what="", family="crash", worth=0.5)
    >>> scores([one, one])
    {'crash': 0.75}
    """
    doubts: dict[str, float] = {}
    for fact in evidence:
        if fact.family is not None and fact.worth > 0:
            doubts[fact.family] = doubts.get(fact.family, 1.0) * (1 - fact.worth)
    return {family: 1 - doubt for family, doubt in doubts.items()}


def verdict(job: Job, evidence: Sequence[FailureEvidence], log: Sequence[LogLine]) -> LikelyCause:
    """The most likely cause of an ended job."""
    found = scores(evidence)
    for rough, exact in _EXACTER.items():
        if rough in found and any(found.get(family, 0.0) >= 0.3 for family in exact):
            found[rough] *= 0.5
    if job.outcome == Outcome.COMPLETED:
        return _completed(log)
    if not found or max(found.values()) < WEAK:
        return _unknown(evidence, found)
    # Where two are as strong, what was told first is the cause, and what came later followed from it.
    order = [fact.family for fact in evidence]
    family = max(found, key=lambda name: (round(found[name], 3), -order.index(name)))
    told = FAMILIES[family]
    detail = _detail(family, evidence, log)
    cause = f"The job {told.cause}" + (f": {detail}" if detail else "")
    return LikelyCause(family, cause, Confidence.of(found[family]), told.to_do)


_SEARCH = (
    "Look at the last lines of its output. `forewarn explain JOBID --log FILE` reads a log that is not "
    "where Slurm "
    "says.",
)


def _detail(family: str, evidence: Sequence[FailureEvidence], log: Sequence[LogLine]) -> str | None:
    """The fact that says most exactly what it was: a line of the log, else what else speaks for it."""
    for line in log:
        if line.family == family and not line.follow_up:
            return line.what
    # The scheduler's state is what the family's own words say already.
    said = [fact for fact in evidence if fact.family == family and fact.source not in ("log", "record")]
    if family in _OWN_WORDS:
        said = [fact for fact in evidence if fact.family == family and fact.source != "log"]
    return max(said, key=lambda fact: fact.worth).what if said else None


def _unknown(evidence: Sequence[FailureEvidence], found: dict[str, float]) -> LikelyCause:
    """What is known all the same: how it ended, and how soon."""
    said = [fact.what for fact in evidence if fact.source == "exit code"]
    soon = [fact.what for fact in evidence if fact.what.startswith("it failed within")]
    parts = ["What went wrong only its output can tell", *said[:1], *soon]
    family = max(found, key=lambda name: found[name]) if found else None
    return LikelyCause(
        family, "; ".join(parts), Confidence.POSSIBLE if found else Confidence.UNKNOWN, _SEARCH
    )


def _completed(log: Sequence[LogLine]) -> LikelyCause:
    causes = [line for line in log if not line.follow_up]
    if not causes:
        return LikelyCause(None, "It did not fail: Slurm calls it completed", Confidence.CERTAIN, ())
    return LikelyCause(
        causes[0].family,
        f"Slurm calls it completed, but its log has an error: {causes[0].what}",
        Confidence.POSSIBLE,
        (
            "Slurm knows only the exit code of the script's last command: `set -e` at the beginning of the "
            "script "
            "lets it fail where something goes wrong.",
            *FAMILIES[causes[0].family].to_do,
        ),
    )
