"""The whole of an assessment in one word and one sentence."""

from __future__ import annotations

from dataclasses import replace

from forewarn.assess.assessment import Assessment, Verdict

LIKELY = 0.5  # from this probability of failure on a job is likely to fail
# What a job needs is foreseen less surely than how jobs like it end: that it will rather outgrow what it asks
# for than not is a warning, and only that it will nearly always is more.
RATHER, NEARLY_ALWAYS = 0.5, 0.9


def judged(made: Assessment) -> Assessment:
    """The assessment with its verdict and summary."""
    verdict, summary = _verdict(made)
    return replace(made, verdict=verdict, summary=summary)


def _verdict(made: Assessment) -> tuple[Verdict, str]:
    certain = [oddity.what for oddity in made.oddness.oddities if oddity.impossible] if made.oddness else []
    certain += [finding.what for finding in made.findings if finding.severity == "error"]
    if certain:
        return Verdict.LIKELY_TO_FAIL, f"it cannot go well: {_first_of(certain)}"
    over, limits = _limits(made)
    said = f"{_risk(made)}; {limits}" if limits else _risk(made)
    if made.failure and (made.failure.probability >= LIKELY or over >= NEARLY_ALWAYS):
        return Verdict.LIKELY_TO_FAIL, said
    if made.failure and (limits or made.failure.warns):
        return Verdict.WARNING, said
    doubts = [oddity.what for oddity in made.oddness.oddities] if made.oddness else []
    doubts += [finding.what for finding in made.findings if finding.severity == "warning"]
    if doubts:
        return Verdict.WARNING, f"{_first_of(doubts)}; {_risk(made)}"
    if made.failure is None:
        passed = made.route.passed
        return Verdict.CANNOT_SAY, passed[0] if passed else "not enough evidence"
    return Verdict.FINE, said


def _first_of(said: list[str]) -> str:
    return f"{said[0]} (and {len(said) - 1} more)" if len(said) > 1 else said[0]


def _risk(made: Assessment) -> str:
    if made.failure is None:
        return "not enough evidence to say how likely it fails"
    told = made.failure
    likeliest = told.causes[0].outcome if told.causes and told.warns else None
    cause = f", most likely {_NAMES.get(likeliest, likeliest)}" if likeliest else ""
    return f"{told.probability:.0%} of such jobs fail{cause}; of all jobs {told.base_rate:.0%}"


def _limits(made: Assessment) -> tuple[float, str]:
    """The probability to outgrow memory or time, and what it will rather outgrow than not in words."""
    chances = {
        "it needs more memory than it asks for": made.resources.over_memory if made.resources else None,
        "it needs longer than its time limit": made.run_time.over_limit if made.run_time else None,
    }
    likely = [f"with {p:.0%} {what}" for what, p in chances.items() if p is not None and p >= RATHER]
    return max(p or 0.0 for p in chances.values()), " and ".join(likely)


_NAMES = {
    "out_of_memory": "of too little memory",
    "timeout": "of its time limit",
    "failed": "of an error of its own",
    "node_fail": "of a node",
    "cancelled": "cancelled",
    "other": "of a rare cause",
}


def capital(sentence: str) -> str:
    """As a sentence begins."""
    return sentence[:1].upper() + sentence[1:]
