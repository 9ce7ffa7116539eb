"""The whole of an assessment in one word and one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forewarn.assess.assessment import Assessment, Failure, Route, Verdict
from forewarn.assess.champions import FEATURE_SETS
from forewarn.learn.abstention import NOT_ENOUGH

LIKELY = 0.5  # from this probability of failure on a job is likely to fail
WARY = 0.3  # from here on it is not fine, whatever threshold the model has
# Where many jobs fail the average alone is above that: a warning is of a job that is worse than the average.
CLEARLY_MORE = 1.2
LITTLE = 0.05  # node hours that are not worth a word
ONLINE = "online"  # the estimate that needs no training (`routing.py`)


def judged(made: Assessment) -> Assessment:
    """The assessment with its verdict and summary."""
    verdict, summary = _verdict(made)
    return replace(made, verdict=verdict, summary=summary)


def _verdict(made: Assessment) -> tuple[Verdict, str]:
    certain = [oddity.what for oddity in made.oddness.oddities if oddity.impossible] if made.oddness else []
    certain += [finding.what for finding in made.findings if finding.severity == "error"]
    failure = made.failure
    if certain:
        then = f"; once that is fixed: {_risk(made, failure)}" if failure else ""
        return Verdict.LIKELY_TO_FAIL, f"this job cannot run: {_first_of(certain)}{then}"
    doubts = [oddity.what for oddity in made.oddness.oddities] if made.oddness else []
    doubts += [finding.what for finding in made.findings if finding.severity == "warning"]
    if failure is None:
        if doubts:
            return (
                Verdict.WARNING,
                f"{_first_of(doubts)}; not enough evidence to estimate the risk of failure",
            )
        return Verdict.CANNOT_SAY, _why_silent(made.route.passed)
    risk = _risk(made, failure)
    # What is wrong in the script is the better half of the answer, whatever the risk.
    said = f"{_first_of(doubts)}; {risk}" if doubts else risk
    if failure.probability >= LIKELY:
        return Verdict.LIKELY_TO_FAIL, said
    if failure.warns or failure.probability >= max(WARY, CLEARLY_MORE * failure.base_rate):
        return Verdict.WARNING, f"{said}{_why_so(made.route, failure)}"
    if doubts:
        return Verdict.WARNING, said
    if failure.probability >= WARY:
        return Verdict.CANNOT_SAY, f"{said}; too much to be called fine, and nothing sets this job apart"
    return Verdict.FINE, said


def _why_silent(passed: Sequence[str]) -> str:
    """Why nobody states a risk: the first reason, without the name of the model that has it.

    >>> _why_silent(("generic: not enough evidence: no earlier job of this user has ended",))
    'not enough evidence: no earlier job of this user has ended'
    """
    if not passed:
        return NOT_ENOUGH
    who, _, why = passed[0].partition(": ")
    return why if who in (*FEATURE_SETS, ONLINE) else passed[0]


def _first_of(said: list[str]) -> str:
    return f"{said[0]} (and {len(said) - 1} more)" if len(said) > 1 else said[0]


def _risk(made: Assessment, failure: Failure) -> str:
    """The number first, then the likely cause, what it is held against, and what is at stake."""
    shares: dict[str, float] = {}
    for part in failure.causes:
        shares[part.outcome] = shares.get(part.outcome, 0.0) + part.probability
    likeliest = max(shares, key=lambda outcome: shares[outcome], default=None)
    told = failure.causes_learnt and (failure.warns or failure.probability >= WARY)
    cause = f", most likely {NAMES.get(likeliest, likeliest)}" if likeliest and told else ""
    rough = ""
    if made.route.model == ONLINE:
        # The model's own reason stands in `route.passed`.
        is_new = any(NOT_ENOUGH in reason for reason in made.route.passed)
        because = "the model knows too few such jobs" if is_new else "no trained model"
        rough = f" by a rough estimate from recent outcomes ({because})"
    if made.route.rule:
        rough = f" by a simple {made.route.rule} (no model beats it)"
    hours = made.hours_at_risk
    stake = f"; {hours:,.1f} node hours at risk" if hours is not None and hours >= LITTLE else ""
    average = f"the average is {failure.base_rate:.0%}"
    return f"{failure.probability:.0%} risk of failure{rough}{cause}; {average}{stake}"


def _why_so(route: Route, failure: Failure) -> str:
    """Why it is a warning, where the numbers beside it would not lead one to expect that."""
    whose = "this estimate's" if route.model == ONLINE else "this model's"
    if not failure.warns:
        return f"; below {whose} threshold of {failure.threshold:.0%}, but too much to be called fine"
    if failure.probability < failure.base_rate:
        return f"; below the average, but above {whose} threshold of {failure.threshold:.0%}"
    return ""


NAMES = {
    "out_of_memory": "out of memory",
    "timeout": "at its time limit",
    "failed": "by an error of its own",
    "node_fail": "by a node failure",
    "cancelled": "cancelled",
    "other": "of a rare cause",
}


def capital(sentence: str) -> str:
    """As a sentence begins; a file's name is left as it is.

    >>> capital("this job cannot run"), capital("needs.py imports numpy"), capital("./solver does not exist")
    ('This job cannot run', 'needs.py imports numpy', './solver does not exist')
    """
    first = sentence.split(" ", 1)[0].rstrip(",.;:")
    return sentence[:1].upper() + sentence[1:] if first.replace("-", "").isalpha() else sentence
