"""The whole of an assessment in one word, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from forewarn.assess.assessment import Assessment, Failure, Finding, Oddness, Verdict
from forewarn.assess.codes import SummaryCode
from forewarn.evidence import Statement, Value

LIKELY = 0.5  # from this probability of failure on a job is likely to fail
WARY = 0.3  # from here on it is not fine, whatever threshold the model has
# Where many jobs fail the average alone is above that: a warning is of a job that is worse than the average.
CLEARLY_MORE = 1.2
ONLINE = "online"  # the estimate that needs no training (`routing.py`)


def judged(made: Assessment, **changes: Any) -> Assessment:
    """The assessment with fields changed as `dataclasses.replace` does, and its verdict and summary then.

    Of what these follow from, findings and oddness may change; the risk has been stated before.
    """
    findings: Sequence[Finding] = changes.get("findings", made.findings)
    oddness: Oddness | None = changes.get("oddness", made.oddness)
    certain = _problems(findings, oddness, certain=True)
    problems = certain or _problems(findings, oddness, certain=False)
    verdict, code = _verdict(made.failure, certain, problems)
    values: dict[str, Value] = {"problems": problems}
    if made.failure is not None:
        values |= _risk(made, made.failure)
    return replace(made, **changes, verdict=verdict, summary=Statement(code, values))


def _problems(findings: Sequence[Finding], oddness: Oddness | None, *, certain: bool) -> int:
    """How many things are wrong with the request and the script: all, or what surely stops the job."""
    odd = sum(oddity.impossible or not certain for oddity in (oddness.oddities if oddness else ()))
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


def _risk(made: Assessment, failure: Failure) -> dict[str, Value]:
    """The number, the likely cause, what it is held against, and what is at stake."""
    shares: dict[str, float] = {}
    for part in failure.causes:
        shares[part.outcome] = shares.get(part.outcome, 0.0) + part.probability
    # Of a low risk, or where causes were not told apart, the likeliest says nothing.
    is_told = failure.causes_learnt and (failure.warns or failure.probability >= WARY)
    return {
        "probability": failure.probability,
        "base_rate": failure.base_rate,
        "threshold": failure.threshold,
        "cause": max(shares, key=lambda outcome: shares[outcome], default=None) if is_told else None,
        "hours_at_risk": made.hours_at_risk,
    }
