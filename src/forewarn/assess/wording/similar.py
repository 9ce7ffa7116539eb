"""English for similar earlier jobs: in what their requests differed, and how they ended."""

from __future__ import annotations

from collections.abc import Callable

from forewarn.assess.assessment import SimilarJob
from forewarn.assess.codes import DifferenceCode, TallyCode
from forewarn.assess.wording.names import FAILURES
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.templates import Table, TextValues
from forewarn.formatting import byte_size, count, duration
from forewarn.job.outcomes import outcome_name

_ALL = {1: "", 2: "both "}  # by the number of failed jobs; else "all "


def _count_instead(unit: str) -> Callable[[TextValues, Reader], str]:
    return lambda values, _: f"{count(values['other'], unit)} instead of {values['this']}"


def _amount_instead(what: str, form: Callable[[float], str]) -> Callable[[TextValues, Reader], str]:
    return lambda values, _: f"{what} {form(values['other'])} instead of {form(values['this'])}"


def _tally(values: TextValues, reader: Reader) -> str:
    """Summarize the outcomes of the most similar jobs.

    >>> ended = {"jobs": 4, "submissions": 4, "failed": 3, "outcomes": ("failed", "out_of_memory")}
    >>> _tally(ended | {"counts": (1, 2)}, Reader())
    '3 of your 4 most similar jobs failed, 2 out of memory'
    >>> ended = {"jobs": 2, "submissions": 2, "failed": 2, "outcomes": ("out_of_memory",), "counts": (2,)}
    >>> _tally(ended, Reader())
    'both of your most similar jobs failed, both out of memory'
    """
    jobs, failed = values["jobs"], values["failed"]
    bulk = f" ({count(values['submissions'], 'submission')})" if jobs > values["submissions"] else ""
    if jobs == 1:
        outcome = f"{reader.whose} only similar job {'failed' if failed else 'did not fail'}"
    else:
        every = "both" if jobs == 2 else f"all {jobs}"
        part = "none" if not failed else every if failed == jobs else f"{failed}"
        similar = (
            f"{reader.whose} most similar jobs"
            if failed == jobs
            else f"{reader.whose} {jobs} most similar jobs"
        )
        outcome = f"{part} of {similar}{bulk} failed"
    counts = dict(zip(values["outcomes"], values["counts"], strict=True))
    how = [
        f"{number} {words}" if number < failed else f"{_ALL.get(failed, 'all ')}{words}"
        for name, words in FAILURES.items()
        if failed and (number := counts.get(name, 0))
    ]
    return ", ".join([outcome, *how])


def submitted_together(job: SimilarJob) -> str:
    """Describe the other jobs of the same array or bulk; nothing for a single job.

    >>> job = {"job_id": "1", "submit": 0, "similarity": 1.0, "outcome": "failed", "run_time": None}
    >>> submitted_together(SimilarJob(**job, outcomes={"failed": 3, "completed": 1}))
    '; one of 4 submitted together: 3 failed, 1 completed'
    """
    if job.jobs == 1:
        return ""
    ended = ", ".join(f"{number} {outcome_name(outcome)}" for outcome, number in job.outcomes.items())
    return f"; one of {job.jobs} submitted together: {ended}"


TABLE: Table = {
    DifferenceCode.NODES: _count_instead("node"),
    DifferenceCode.CPUS: _count_instead("CPU"),
    DifferenceCode.GPUS: _count_instead("GPU"),
    DifferenceCode.MEMORY: _amount_instead("memory", byte_size),
    DifferenceCode.TIME_LIMIT: _amount_instead("time limit", duration),
    DifferenceCode.PARTITION: "partition {other}",
    DifferenceCode.QOS: "QOS {other}",
    DifferenceCode.NAME: "named {other}",
    DifferenceCode.FOLDER: "in {other}",
    DifferenceCode.SCRIPT: "with another script",
    TallyCode.SIMILAR_JOBS: _tally,
}
