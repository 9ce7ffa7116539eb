"""Words for who speaks: why models pass a job on, what limits the answer, how hours were estimated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forewarn.assess.codes import HoursCode, NoteCode, PassCode
from forewarn.assess.wording.amounts import clock, count, percent
from forewarn.assess.wording.names import cause
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.templates import Table
from forewarn.evidence import Statement
from forewarn.features.slurm_field_differences import ReadingCode, reading_in_words
from forewarn.learn.fitting.abstention import RUNGS, WITHOUT_HISTORY, AbstentionCode

Values = Mapping[str, Any]
NOT_ENOUGH = "not enough evidence"


def _abstains(rung: str) -> Callable[[Values, Reader], str]:
    def words(values: Values, _: Reader) -> str:
        shown = "there were too few such jobs to show that the model can tell"
        if "jobs" in values:
            rate = percent(values["failure_rate"])
            shown = (
                f"for {values['jobs']:,} such jobs the model was not better than their failure rate, {rate}"
            )
        return f"{NOT_ENOUGH}: {rung}; {shown}"

    return words


def _unfit(code: ReadingCode) -> Callable[[Values, Reader], str]:
    def words(values: Values, _: Reader) -> str:
        return f"{reading_in_words(Statement(code, values))}: `forewarn train` makes a new one"

    return words


def _too_few_jobs(values: Values, _: Reader) -> str:
    new = " for a new name and request" if values["is_new"] else ""
    known = f"{values['jobs']:,} jobs of the cluster are known"
    known += f" and {values['jobs_of_user']} of this user have ended"
    return f"{known}, of {values['jobs_needed']:,} and {values['jobs_of_user_needed']} that are needed{new}"


def _against_report(values: Values, _: Reader) -> str:
    version = f" version {values['version']}" if values["version"] is not None else ""
    which = f"{values['model']}{version}"
    return f"{which} serves against its own report, which found it unfit to serve: trust its risk less"


def _history_is_old(values: Values, _: Reader) -> str:
    days = values["seconds"] // 86400
    return f"the history here ends {days:,} days before: `forewarn collect` or `ingest` brings what is new"


def _hours_by_cause(values: Values, _: Reader) -> str:
    shares = ", ".join(
        f"{cause(outcome)} {percent(share)}"
        for outcome, share in zip(values["causes"], values["shares"], strict=True)
    )
    return f"{_on(values)}; of their time limit, failed jobs had used by then: {shares}"


def _hours_by_run_time(values: Values, _: Reader) -> str:
    return (
        f"{_on(values)}; a failure is taken to come after {clock(values['run_time'])}, the forecast run time"
    )


def _hours_by_limit(values: Values, _: Reader) -> str:
    return f"{_on(values)}; no run time is forecast: all of the limit of {clock(values['limit'])} is counted"


def _on(values: Values) -> str:
    return f"on {count(values['nodes'], 'node')}"


TABLE: Table = {
    **{code: _abstains(rung) for code, rung in zip(AbstentionCode, (*RUNGS, *WITHOUT_HISTORY), strict=False)},
    AbstentionCode.NOTHING_KNOWN: f"{NOT_ENOUGH}: {RUNGS[0]}, and nothing of its request is known",
    ReadingCode.OTHERWISE: _unfit(ReadingCode.OTHERWISE),
    ReadingCode.NOT_RECORDED: _unfit(ReadingCode.NOT_RECORDED),
    PassCode.NO_MODEL: "no model serves: `forewarn train` makes one",
    PassCode.NOTHING_LIKE_IT: "of a new name and request it knows no more than the model",
    PassCode.TOO_FEW_JOBS: _too_few_jobs,
    PassCode.SCRIPT_ALONE: "no history of earlier jobs here: only the script was checked",
    NoteCode.AGAINST_REPORT: _against_report,
    NoteCode.NO_MODEL_FOR_START: "it runs, and there is no model for start: this is the one for submit",
    NoteCode.FIRST_COMPONENT: (
        "of the {components} components of this job only the first is assessed and changed"
    ),
    NoteCode.EACH_TASK: "it is an array: risk and hours are those of each of its tasks",
    NoteCode.HISTORY_GOES_ON: "the history here goes on after that moment, and all of it counts",
    NoteCode.HISTORY_IS_OLD: _history_is_old,
    HoursCode.BY_CAUSE: _hours_by_cause,
    HoursCode.BY_RUN_TIME: _hours_by_run_time,
    HoursCode.BY_TIME_LIMIT: _hours_by_limit,
}
