"""The whole of an assessment in one word and one sentence."""

from __future__ import annotations

from dataclasses import replace

from forewarn.assess.assessment import Assessment, Verdict

LIKELY = 0.5  # from this probability on a job is likely to fail; from its model's threshold on, a warning
DOUBTFUL = 0.25  # probability of running into a limit that deserves a warning


def judged(made: Assessment) -> Assessment:
    """The assessment with its verdict and summary."""
    verdict, summary = _verdict(made)
    return replace(made, verdict=verdict, summary=summary)


def _verdict(made: Assessment) -> tuple[Verdict, str]:
    certain = [oddity.what for oddity in made.oddness.oddities if oddity.impossible] if made.oddness else []
    certain += [finding.what for finding in made.findings if finding.severity == "error"]
    if certain:
        more = f" (and {len(certain) - 1} more)" if len(certain) > 1 else ""
        return Verdict.LIKELY_TO_FAIL, f"it cannot go well: {certain[0]}{more}"
    risk = _risk(made)
    if made.failure and made.failure.probability >= LIKELY:
        return Verdict.LIKELY_TO_FAIL, risk
    limits = _limits(made)
    if made.failure and made.failure.warns:
        return Verdict.WARNING, risk
    if limits:
        return Verdict.WARNING, f"{limits}; {risk}" if made.failure else limits
    doubts = [oddity.what for oddity in made.oddness.oddities] if made.oddness else []
    doubts += [finding.what for finding in made.findings if finding.severity == "warning"]
    if doubts:
        more = f" (and {len(doubts) - 1} more)" if len(doubts) > 1 else ""
        return Verdict.WARNING, f"{doubts[0]}{more}; {risk}" if made.failure else f"{doubts[0]}{more}"
    if made.failure is None:
        passed = made.route.passed
        return Verdict.CANNOT_SAY, passed[-1] if passed else "not enough evidence"
    return Verdict.FINE, risk


def _risk(made: Assessment) -> str:
    if made.failure is None:
        return "not enough evidence to say how likely it fails"
    told = made.failure
    likeliest = told.causes[0].outcome if told.causes and told.warns else None
    cause = f", most likely {_NAMES.get(likeliest, likeliest)}" if likeliest else ""
    return f"{told.probability:.0%} of such jobs fail{cause}; of all jobs {told.base_rate:.0%}"


def _limits(made: Assessment) -> str:
    said = []
    if made.run_time and (made.run_time.over_limit or 0) >= DOUBTFUL:
        said.append(f"with {made.run_time.over_limit:.0%} it needs longer than its time limit")
    if made.resources and (made.resources.over_memory or 0) >= DOUBTFUL:
        said.append(f"with {made.resources.over_memory:.0%} it needs more memory than it asks for")
    return " and ".join(said)


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
