"""The verdict in one sentence: the number first, then the likely cause, the average, and what is at stake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forewarn.assess.assessment import Assessment
from forewarn.assess.codes import SummaryCode
from forewarn.assess.verdict import ONLINE
from forewarn.assess.wording.amounts import risk
from forewarn.assess.wording.lookup import finding, oddity, words
from forewarn.assess.wording.names import cause, rule
from forewarn.assess.wording.reader import YOU, Reader
from forewarn.assess.wording.routes import NOT_ENOUGH
from forewarn.evidence import Statement
from forewarn.learn.fitting.abstention import AbstentionCode

Values = Mapping[str, Any]
LITTLE = 0.05  # node hours that are not worth a word


def summary(made: Assessment, reader: Reader = YOU) -> str:
    """Why the verdict is what it is."""
    return SUMMARIES[SummaryCode(made.summary.code)](made, reader)


def _cannot_run(made: Assessment, reader: Reader) -> str:
    then = f"; once that is fixed: {_risk(made)}" if made.failure else ""
    return f"this job cannot run: {_first_problem(made, reader)}{then}"


def _with_problems(remark: Callable[[Assessment], str] = lambda _: "") -> Callable[[Assessment, Reader], str]:
    """The risk. What is wrong in the script is the better half of the answer, whatever the risk."""

    def said(made: Assessment, reader: Reader) -> str:
        problem = f"{_first_problem(made, reader)}; " if made.summary.values["problems"] else ""
        return f"{problem}{_risk(made)}{remark(made)}"

    return said


def _first_problem(made: Assessment, reader: Reader) -> str:
    """The first of what the verdict counts as wrong, and how many more there are."""
    certain = made.summary.code is SummaryCode.CANNOT_RUN
    odd = made.oddness.oddities if made.oddness else ()
    severity = "error" if certain else "warning"
    texts = [oddity(one, reader) for one in odd if one.impossible or not certain]
    texts += [finding(one, reader) for one in made.findings if one.severity == severity]
    return f"{texts[0]} (and {len(texts) - 1} more)" if len(texts) > 1 else texts[0]


def _unknown(made: Assessment, reader: Reader) -> str:
    """Why nobody states a risk: the first reason, without the name of the model that has it."""
    return words(made.route.passed[0], reader) if made.route.passed else NOT_ENOUGH


def _risk(made: Assessment) -> str:
    values: Values = made.summary.values
    likeliest = f", most likely {cause(values['cause'])}" if values["cause"] else ""
    hours = values["hours_at_risk"]
    stake = f"; {hours:,.1f} node hours at risk" if hours is not None and hours >= LITTLE else ""
    average = f"the average is {risk(values['base_rate'])}"
    return f"{risk(values['probability'])} risk of failure{_by(made)}{likeliest}; {average}{stake}"


def _by(made: Assessment) -> str:
    """Who states the risk, where it is no trained model."""
    if made.route.rule:
        return f" by a simple {rule(made.route.rule)} (no model beats it)"
    if made.route.model != ONLINE:
        return ""
    return f" by a rough estimate from recent outcomes ({_why_online(made.route.passed)})"


def _why_online(passed: Sequence[Statement]) -> str:
    is_new = any(isinstance(reason.code, AbstentionCode) for reason in passed)
    return "the model knows too few such jobs" if is_new else "no trained model"


def _threshold(made: Assessment) -> str:
    whose = "this estimate's" if made.route.model == ONLINE else "this model's"
    values: Values = made.summary.values
    return f"{whose} threshold of {risk(values['threshold'])}"


SUMMARIES: Mapping[SummaryCode, Callable[[Assessment, Reader], str]] = {
    SummaryCode.CANNOT_RUN: _cannot_run,
    SummaryCode.LIKELY_TO_FAIL: _with_problems(),
    SummaryCode.ABOVE_THRESHOLD: _with_problems(),
    SummaryCode.ABOVE_THRESHOLD_BELOW_AVERAGE: _with_problems(
        lambda made: f"; below the average, but above {_threshold(made)}"
    ),
    SummaryCode.CLEARLY_ABOVE_AVERAGE: _with_problems(
        lambda made: f"; below {_threshold(made)}, but too much to be called fine"
    ),
    SummaryCode.AS_AVERAGE: _with_problems(
        lambda _: "; too much to be called fine, and nothing sets this job apart"
    ),
    SummaryCode.PROBLEMS: _with_problems(),
    SummaryCode.LOW: _with_problems(),
    SummaryCode.UNKNOWN_WITH_PROBLEMS: lambda made, reader: (
        f"{_first_problem(made, reader)}; not enough evidence to estimate the risk of failure"
    ),
    SummaryCode.UNKNOWN: _unknown,
    SummaryCode.ENDED: lambda *_: "it has ended: `forewarn explain` says how",
}
