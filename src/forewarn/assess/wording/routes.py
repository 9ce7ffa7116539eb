"""English for the route of an assessment: why models passed a job on, what limits the answer, how node hours
were estimated."""

from __future__ import annotations

from collections.abc import Callable

from forewarn.assess.codes import HoursCode, NoteCode, PassCode
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.templates import Table, TextValues
from forewarn.evidence import Statement
from forewarn.features.slurm_field_differences import ReadingCode, describe_reading_change
from forewarn.formatting import count, duration, percent
from forewarn.job.outcomes import cause_name
from forewarn.learn.fitting.evidence_levels import EVIDENCE_LEVELS, WITHOUT_HISTORY, AbstentionCode

NOT_ENOUGH = "not enough evidence"


def _abstains(evidence_level: str) -> Callable[[TextValues, Reader], str]:
    def words(values: TextValues, _: Reader) -> str:
        proof = "too few such jobs to test the model on"
        if "jobs" in values:
            rate = percent(values["failure_rate"])
            proof = f"on {values['jobs']:,} such jobs the model was no better than their failure rate, {rate}"
        return f"{NOT_ENOUGH}: {evidence_level}; {proof}"

    return words


def _fields_changed(code: ReadingCode) -> Callable[[TextValues, Reader], str]:
    def words(values: TextValues, _: Reader) -> str:
        return f"{describe_reading_change(Statement(code, values))}: `forewarn train` trains a new one"

    return words


def _too_few_jobs(values: TextValues, _: Reader) -> str:
    new = " for a new name and request" if values["is_new"] else ""
    known = (
        f"{count(values['jobs'], 'job')} of the cluster and {values['jobs_of_user']} of this user have ended"
    )
    return f"{known}; {values['jobs_needed']:,} and {values['jobs_of_user_needed']} are needed{new}"


def _against_report(values: TextValues, _: Reader) -> str:
    version = f" version {values['version']}" if values["version"] is not None else ""
    model = f"{values['model']}{version}"
    return f"{model} serves although its own report found it unfit to serve: trust its risk less"


def _history_is_old(values: TextValues, _: Reader) -> str:
    days = count(values["seconds"] // 86400, "day")
    return f"the history ends {days} earlier: `forewarn collect` or `forewarn ingest` adds newer jobs"


def _hours_by_cause(values: TextValues, _: Reader) -> str:
    shares = ", ".join(
        f"{cause_name(outcome)} {percent(share)}"
        for outcome, share in zip(values["causes"], values["shares"], strict=True)
    )
    return f"{_on_nodes(values)}; share of the time limit that failed jobs used, by cause: {shares}"


def _hours_by_run_time(values: TextValues, _: Reader) -> str:
    return (
        f"{_on_nodes(values)}; failure assumed after the predicted run time, {duration(values['run_time'])}"
    )


def _hours_by_limit(values: TextValues, _: Reader) -> str:
    limit = duration(values["limit"])
    return f"{_on_nodes(values)}; no run time predicted, so the whole limit of {limit} counts"


def _on_nodes(values: TextValues) -> str:
    return f"on {count(values['nodes'], 'node')}"


TABLE: Table = {
    **{
        code: _abstains(level)
        for code, level in zip(AbstentionCode, (*EVIDENCE_LEVELS, *WITHOUT_HISTORY), strict=False)
    },
    AbstentionCode.NOTHING_KNOWN: (
        f"{NOT_ENOUGH}: {EVIDENCE_LEVELS[0]}, and nothing about its request is known"
    ),
    ReadingCode.OTHERWISE: _fields_changed(ReadingCode.OTHERWISE),
    ReadingCode.NOT_RECORDED: _fields_changed(ReadingCode.NOT_RECORDED),
    PassCode.NO_MODEL: "no model in service: `forewarn train` trains one",
    PassCode.NOTHING_LIKE_IT: "the online estimate knows no more than the model about a new name and request",
    PassCode.TOO_FEW_JOBS: _too_few_jobs,
    PassCode.SCRIPT_ALONE: "no history of earlier jobs: only the script was checked",
    NoteCode.AGAINST_REPORT: _against_report,
    NoteCode.NO_MODEL_FOR_START: (
        "this job is running and there is no model for phase start: the model for submit was used"
    ),
    NoteCode.FIRST_COMPONENT: (
        "this job has {components} components: only the first is assessed and changed"
    ),
    NoteCode.EACH_TASK: "this is an array: risk and node hours are per task",
    NoteCode.HISTORY_GOES_ON: "the history continues after that time, and all of it was used",
    NoteCode.HISTORY_IS_OLD: _history_is_old,
    HoursCode.BY_CAUSE: _hours_by_cause,
    HoursCode.BY_RUN_TIME: _hours_by_run_time,
    HoursCode.BY_TIME_LIMIT: _hours_by_limit,
}
