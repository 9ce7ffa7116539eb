"""Words for similar earlier jobs: in what they differed, and how they ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forewarn.assess.assessment import SimilarJob
from forewarn.assess.codes import DifferenceCode, TallyCode
from forewarn.assess.wording.amounts import count, duration, memory
from forewarn.assess.wording.names import OUTCOMES
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.templates import Table

Values = Mapping[str, Any]


def _counted(unit: str) -> Callable[[Values, Reader], str]:
    return lambda values, _: f"{count(values['other'], unit)} instead of {values['this']}"


def _instead(amount: Callable[[float], str]) -> Callable[[Values, Reader], str]:
    return lambda values, _: f"{amount(values['other'])} instead of {amount(values['this'])}"


def _tally(values: Values, reader: Reader) -> str:
    """
    >>> ended = {"jobs": 4, "submissions": 4, "failed": 3, "outcomes": ("failed", "out_of_memory")}
    >>> _tally(ended | {"counts": (1, 2)}, Reader())
    'of your 4 most similar jobs 3 failed, 2 of them out of memory'
    """
    jobs, failed, whose = values["jobs"], values["failed"], reader.whose
    which = f"{whose} only similar job" if jobs == 1 else f"of {whose} {jobs} most similar jobs"
    if jobs > values["submissions"]:
        which += f" ({count(values['submissions'], 'submission')})"
    if not failed:
        return f"{which} {'did not fail' if jobs == 1 else 'none failed'}"
    ended = dict(zip(values["outcomes"], values["counts"], strict=True))
    how = [
        f"{number} of them {words}" if number < failed else f"{'all ' if failed > 1 else ''}{words}"
        for outcome, words in OUTCOMES.items()
        if (number := ended.get(outcome, 0))
    ]
    many = "" if jobs == 1 else "all " if failed == jobs > 2 else f"{failed} "
    return ", ".join([f"{which} {many}failed", *how])


def sent_together(job: SimilarJob) -> str:
    """What is said of the others of an array or bulk.

    >>> told = {"job_id": "1", "submit": 0, "similarity": 1.0, "outcome": "failed", "run_time": None}
    >>> sent_together(SimilarJob(**told, outcomes={"failed": 3, "completed": 1}))
    '; one of 4 sent together: 3 failed, 1 completed'
    """
    if job.jobs == 1:
        return ""
    ended = ", ".join(f"{number} {outcome.replace('_', ' ')}" for outcome, number in job.outcomes.items())
    return f"; one of {job.jobs} sent together: {ended}"


TABLE: Table = {
    DifferenceCode.NODES: _counted("node"),
    DifferenceCode.CPUS: _counted("CPU"),
    DifferenceCode.GPUS: _counted("GPU"),
    DifferenceCode.MEMORY: _instead(memory),
    DifferenceCode.TIME_LIMIT: _instead(duration),
    DifferenceCode.PARTITION: "partition {other}",
    DifferenceCode.QOS: "QOS {other}",
    DifferenceCode.NAME: "named {other}",
    DifferenceCode.FOLDER: "from {other}",
    DifferenceCode.SCRIPT: "with another script",
    TallyCode.SIMILAR_JOBS: _tally,
}
