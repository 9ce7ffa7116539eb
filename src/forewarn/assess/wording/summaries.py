"""The verdict in one sentence: the risk first, then the average, the likely cause, and what is at stake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from forewarn.assess.assessment import Assessment
from forewarn.assess.codes import SummaryCode
from forewarn.assess.verdict import ONLINE
from forewarn.assess.wording.lookup import finding, oddity, words
from forewarn.assess.wording.names import rule
from forewarn.assess.wording.reader import YOU, Reader
from forewarn.assess.wording.routes import NOT_ENOUGH
from forewarn.assess.wording.templates import TextValues
from forewarn.evidence import Statement
from forewarn.formatting import count, node_hours, percent
from forewarn.job.outcomes import cause_name
from forewarn.learn.fitting.evidence_levels import AbstentionCode

LITTLE = 0.05  # node hours below which they are not mentioned


def summary(assessment: Assessment, reader: Reader = YOU) -> str:
    """Explain the verdict in one sentence."""
    return SUMMARIES[SummaryCode(assessment.summary.code)](assessment, reader)


def _cannot_run(assessment: Assessment, reader: Reader) -> str:
    then = f"; once that is fixed: {_risk(assessment)}" if assessment.failure else ""
    return f"this job cannot run: {_first_problem(assessment, reader)}{then}"


def _risk_with_problems(
    remark: Callable[[Assessment], str] = lambda _: "",
) -> Callable[[Assessment, Reader], str]:
    """State the risk, after the first problem of the script: that helps whatever the risk is."""

    def text(assessment: Assessment, reader: Reader) -> str:
        problem = f"{_first_problem(assessment, reader)}; " if assessment.summary.values["problems"] else ""
        return f"{problem}{_risk(assessment)}{remark(assessment)}"

    return text


def _first_problem(assessment: Assessment, reader: Reader) -> str:
    """State the first problem that the verdict counts, and how many more there are."""
    certain = assessment.summary.code is SummaryCode.CANNOT_RUN
    oddities = assessment.oddness.oddities if assessment.oddness else ()
    severity = "error" if certain else "warning"
    texts = [oddity(one, reader) for one in oddities if one.impossible or not certain]
    texts += [finding(one, reader) for one in assessment.findings if one.severity == severity]
    if len(texts) == 1:
        return texts[0]
    return f"{texts[0]} (and {count(len(texts) - 1, 'more problem')})"


def _unknown(assessment: Assessment, reader: Reader) -> str:
    """Say why there is no risk: the first reason, without the name of the model that gave it."""
    return words(assessment.route.passed[0], reader) if assessment.route.passed else NOT_ENOUGH


def _risk(assessment: Assessment) -> str:
    values: TextValues = assessment.summary.values
    risk = f"{percent(values['probability'])} risk of failure{_by(assessment)}"
    average = f" (cluster average {percent(values['base_rate'])})"
    likeliest = f", most likely cause: {cause_name(values['cause'])}" if values["cause"] else ""
    hours = values["hours_at_risk"]
    stake = f"; {node_hours(hours)} node hours at risk" if hours is not None and hours >= LITTLE else ""
    return f"{risk}{average}{likeliest}{stake}"


def _by(assessment: Assessment) -> str:
    """Name what states the risk, where it is not a trained model."""
    if assessment.route.rule:
        return f" by a simple {rule(assessment.route.rule)}, which no model beats"
    if assessment.route.model != ONLINE:
        return ""
    return f" by a rough estimate from recent outcomes, since {_why_online(assessment.route.passed)}"


def _why_online(passed: Sequence[Statement]) -> str:
    is_new = any(isinstance(reason.code, AbstentionCode) for reason in passed)
    return "the model knows too few such jobs" if is_new else "there is no trained model"


def _threshold(assessment: Assessment) -> str:
    whose = "this estimate's" if assessment.route.model == ONLINE else "this model's"
    values: TextValues = assessment.summary.values
    return f"{whose} threshold of {percent(values['threshold'])}"


SUMMARIES: Mapping[SummaryCode, Callable[[Assessment, Reader], str]] = {
    SummaryCode.CANNOT_RUN: _cannot_run,
    SummaryCode.LIKELY_TO_FAIL: _risk_with_problems(),
    SummaryCode.ABOVE_THRESHOLD: _risk_with_problems(),
    SummaryCode.ABOVE_THRESHOLD_BELOW_AVERAGE: _risk_with_problems(
        lambda assessment: f"; below the average, but above {_threshold(assessment)}"
    ),
    SummaryCode.CLEARLY_ABOVE_AVERAGE: _risk_with_problems(
        lambda assessment: f"; below {_threshold(assessment)}, but clearly above the average"
    ),
    SummaryCode.AS_AVERAGE: _risk_with_problems(
        lambda _: "; too high to be called fine, although this job is like the average"
    ),
    SummaryCode.PROBLEMS: _risk_with_problems(),
    SummaryCode.LOW: _risk_with_problems(),
    SummaryCode.UNKNOWN_WITH_PROBLEMS: lambda assessment, reader: (
        f"{_first_problem(assessment, reader)}; not enough evidence to estimate the risk of failure"
    ),
    SummaryCode.UNKNOWN: _unknown,
    SummaryCode.ENDED: lambda *_: "this job has ended: `forewarn explain` shows why",
}
