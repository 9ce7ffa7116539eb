"""The verdict of an assessment, and the summary that gives its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from forewarn.assess.assessment import Assessment, Failure, Finding, Oddness, Verdict
from forewarn.assess.codes import SummaryCode
from forewarn.evidence import Statement, Value

LIKELY = 0.5  # probability of failure from which a job is likely to fail
WARY = 0.3  # probability from which a job is not fine, whatever the threshold of the model
# Where many jobs fail, the average alone exceeds WARY: a warning is for jobs that are worse than the average.
CLEARLY_MORE = 1.2
ONLINE = "online"  # the online regression, which needs no training (`routing.py`)


def with_verdict(assessment: Assessment, **changes: Any) -> Assessment:
    """Return the assessment with some fields replaced, and the verdict and summary that follow from them.

    Of the fields that the verdict depends on, findings and oddness may change; the risk is already final.
    """
    verdict, summary = verdict_of(
        assessment.failure,
        assessment.hours_at_risk,
        changes.get("findings", assessment.findings),
        changes.get("oddness", assessment.oddness),
    )
    return replace(assessment, **changes, verdict=verdict, summary=summary)


def verdict_of(
    failure: Failure | None,
    hours_at_risk: float | None,
    findings: Sequence[Finding] = (),
    oddness: Oddness | None = None,
) -> tuple[Verdict, Statement]:
    """Return the verdict on a job, and the summary that gives its reason."""
    certain = problems = 0
    if findings or oddness:
        certain = _problems(findings, oddness, certain=True)
        problems = certain or _problems(findings, oddness, certain=False)
    verdict, code = _verdict(failure, certain, problems)
    values: dict[str, Value] = {"problems": problems}
    if failure is not None:
        values |= _risk(failure, hours_at_risk)
    return verdict, Statement(code, values)


def _problems(findings: Sequence[Finding], oddness: Oddness | None, *, certain: bool) -> int:
    """Count the problems of request and script: all of them, or only those that certainly stop the job."""
    odd = sum(oddity.impossible or not certain for oddity in oddness.oddities) if oddness else 0
    return odd + sum(finding.severity == ("error" if certain else "warning") for finding in findings)


def _verdict(failure: Failure | None, certain: int, problems: int) -> tuple[Verdict, SummaryCode]:
    if certain:
        return Verdict.LIKELY_TO_FAIL, SummaryCode.CANNOT_RUN
    if failure is None:
        if problems:
            return Verdict.WARNING, SummaryCode.UNKNOWN_WITH_PROBLEMS
        return Verdict.CANNOT_SAY, SummaryCode.UNKNOWN
    if failure.probability >= LIKELY:
        return Verdict.LIKELY_TO_FAIL, SummaryCode.LIKELY_TO_FAIL
    if failure.warns:
        below = failure.probability < failure.base_rate
        code = SummaryCode.ABOVE_THRESHOLD_BELOW_AVERAGE if below else SummaryCode.ABOVE_THRESHOLD
        return Verdict.WARNING, code
    if failure.probability >= max(WARY, CLEARLY_MORE * failure.base_rate):
        return Verdict.WARNING, SummaryCode.CLEARLY_ABOVE_AVERAGE
    if problems:
        return Verdict.WARNING, SummaryCode.PROBLEMS
    if failure.probability >= WARY:
        return Verdict.CANNOT_SAY, SummaryCode.AS_AVERAGE
    return Verdict.FINE, SummaryCode.LOW


def _risk(failure: Failure, hours_at_risk: float | None) -> dict[str, Value]:
    """Return the values of the summary: risk, base rate, threshold, likely cause, hours at risk."""
    # With a low risk, or without a cause model, the most likely cause is not informative.
    names_cause = failure.causes_learnt and (failure.warns or failure.probability >= WARY)
    return {
        "probability": failure.probability,
        "base_rate": failure.base_rate,
        "threshold": failure.threshold,
        "cause": next(iter(failure.by_outcome), None) if names_cause else None,
        "hours_at_risk": hours_at_risk,
    }
