"""How an assessment looks to a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.text import Text

from forewarn.assess.assessment import (
    Advice,
    Assessment,
    Finding,
    Quantiles,
    Reason,
    Saving,
    SimilarJob,
    Verdict,
)
from forewarn.assess.oddness.words import bytes_in_words, time_in_words
from forewarn.assess.verdict import NAMES, ONLINE, capital
from forewarn.serve.cli.console import Terminal
from forewarn.serve.cli.terminal import one_line

STYLE_OF = {
    Verdict.FINE: "bold green",
    Verdict.WARNING: "bold yellow",
    Verdict.LIKELY_TO_FAIL: "bold red",
    Verdict.CANNOT_SAY: "bold bright_black",
}
_SEVERITY = {"error": "red", "warning": "yellow", "note": "bright_black"}
SIMILAR_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Fixed:
    """A script that was written with advice followed, and what a check of it says."""

    path: str
    verdict: str
    summary: str
    risk: float | None


def show(made: Assessment, title: str, *, diff: bool = False, fixed: Fixed | None = None) -> None:
    """Print it on stdout."""
    console = Terminal()
    head = Text(f"{title}: ").append(str(made.verdict), style=STYLE_OF[made.verdict])
    console.print(harmless(head), soft_wrap=True)
    console.print(harmless(Text(f"  {capital(made.summary)}.")), soft_wrap=True)
    blocks = (
        _numbers(made),
        _findings(made),
        _reasons(made),
        _similar(made),
        _advice(made, diff),
        _savings(made),
        _fixed(fixed),
        _notes(made),
    )
    for block in blocks:
        lines = list(block)
        if lines:
            console.print()
        for line in lines:
            console.print(harmless(line if isinstance(line, Text) else Text(line)), soft_wrap=True)


def harmless(text: Text) -> Text:
    r"""Keep a line one line: names and scripts are anybody's.

    >>> harmless(Text("a\nb")).plain
    'a\\nb'
    """
    shown = one_line(text.plain)
    return text if shown == text.plain else Text(shown, style=text.style)


def _numbers(made: Assessment) -> Iterator[Text | str]:
    facts = list(_facts(made))
    width = max((len(name) for name, _ in facts), default=0)
    for name, fact in facts:
        yield f"  {name:{width}}  {fact}"


def _facts(made: Assessment) -> Iterator[tuple[str, str]]:
    if (run := made.run_time) is not None:
        said = f"{_spread(run.seconds, time_in_words)}"
        if run.limit is not None:
            said += f"; the limit is {time_in_words(run.limit)}"
        yield "run time", said
    if (use := made.resources) is not None:
        if use.memory is not None:
            said = f"{_spread(use.memory, bytes_in_words)} a node"
            if use.memory_asked is not None:
                said += f"; {bytes_in_words(use.memory_asked)} requested"
            yield "memory", said
        if use.cpu_efficiency is not None:
            yield "CPUs", f"typically {use.cpu_efficiency.median:.0%} of their time used"
    if (odd := made.oddness) is not None:
        for oddity in odd.oddities:
            yield "cannot run" if oddity.impossible else "odd", oddity.what
        if odd.because:
            yield "unusual", "; ".join(odd.because)
    if made.failure and made.failure.causes and made.failure.causes_learnt:
        shares: dict[str, float] = {}
        for cause in made.failure.causes:
            shares[cause.outcome] = shares.get(cause.outcome, 0.0) + cause.probability
        yield "risk", f"{made.failure.probability:.0%}: {_parts(shares, made.failure.probability)}"
    if made.nodes is not None:
        said = f"{made.nodes.fit:,} can take it, {made.nodes.needed:,} needed"
        if made.nodes.sick:
            said += f"; sick: {', '.join(made.nodes.sick[:5])}"
        yield "nodes", said
    if made.route.model is not None:
        version = f" version {made.route.version}" if made.route.version is not None else ""
        rests = ""
        if made.failure and made.route.model == ONLINE:
            rests = f": a running estimate over {made.failure.rests_on:,} jobs, not a trained model"
        elif made.failure:
            rests = f", trained on {made.failure.rests_on:,} jobs"
        rule = f"; {made.route.rule}" if made.route.rule else ""
        yield "model", f"{made.route.model}{version}{rests}{rule}"


def _spread(told: Quantiles, words: object) -> str:
    assert callable(words)
    return f"about {words(told.median)}, one in ten beyond {words(told.high)}"


def _parts(shares: Mapping[str, float], whole: float) -> str:
    """The causes in whole percent, which add up to the percent of the whole.

    >>> _parts({"timeout": 0.304, "failed": 0.204, "other": 0.002}, 0.51)
    'at its time limit 30%, by an error of its own 20%, else 1%'
    """
    shown, left = [], round(100 * whole)
    for outcome, p in sorted(shares.items(), key=lambda pair: -pair[1])[:4]:
        percent = min(round(100 * p), left)
        if percent >= 1:
            shown.append(f"{NAMES.get(outcome, outcome)} {percent}%")
            left -= percent
    if left >= 1 and shown:
        shown.append(f"else {left}%")
    return ", ".join(shown) or "no cause stands out"


def _findings(made: Assessment) -> Iterator[Text | str]:
    if made.findings:
        yield Text("In the script", style="bold")
    for finding in sorted(made.findings, key=_rank):
        line = f"line {finding.line}" if finding.line is not None else ""
        text = Text(f"  {line:9}").append(f"{finding.severity:8}", style=_SEVERITY.get(finding.severity, ""))
        yield text.append(f"{finding.what} [{finding.rule}]")
        if finding.fix:
            yield f"  {'':17}{finding.fix}"


def _rank(finding: Finding) -> tuple[int, int]:
    return [*_SEVERITY].index(finding.severity), finding.line or 0


def _reasons(made: Assessment) -> Iterator[Text | str]:
    if made.reasons:
        yield Text("Why", style="bold")
    for reason in made.reasons:
        yield _reason(reason)


def _reason(reason: Reason) -> Text:
    sign, style = ("+", "red") if reason.weight > 0 else ("−", "green")
    text = Text("  ").append(sign, style=style).append(f" {reason.what}")
    if reason.risk_before is not None and reason.risk_after is not None:
        text.append(f"  ({reason.risk_before:.0%} → {reason.risk_after:.0%})", style="bright_black")
    return text


def _similar(made: Assessment) -> Iterator[Text | str]:
    if made.similar:
        yield Text("Similar earlier jobs", style="bold")
        yield f"  {capital(made.similar_in_short or '')}."
    for job in made.similar[:SIMILAR_SHOWN]:
        ran = f" after {time_in_words(job.run_time)}" if job.run_time is not None else ""
        differs = f"; {', '.join(job.differs)}" if job.differs else ""
        yield f"  {job.job_id} {job.outcome}{ran}{differs}{sent_together(job)}"


def sent_together(job: SimilarJob) -> str:
    """What is said of the others of an array or bulk.

    >>> told = {"job_id": "1", "submit": 0, "similarity": 1.0, "outcome": "failed", "run_time": None}
    >>> sent_together(SimilarJob(**told, outcomes={"failed": 3, "completed": 1}))
    '; one of 4 sent together: 3 failed, 1 completed'
    """
    if job.jobs == 1:
        return ""
    ended = ", ".join(f"{number} {outcome.replace('_', ' ')}" for outcome, number in job.outcomes.items())
    return f"; one of {job.jobs} sent together: {ended}"


def _notes(made: Assessment) -> Iterator[Text | str]:
    for note in (made.route.caveat, *made.notes):
        if note is not None:
            yield f"  Note: {note}."


def _advice(made: Assessment, diff: bool) -> Iterator[Text | str]:
    if made.advice:
        yield Text("Advice", style="bold")
    shown = next((advice for advice in made.advice if advice.diff), None) if diff else None
    for number, advice in enumerate(made.advice, 1):
        yield from _one(number, advice, advice is shown)


def _one(number: int, advice: Advice, diff: bool) -> Iterator[Text | str]:
    text = Text(f"  {number}. ").append(capital(advice.what), style="bold")
    if advice.risk_before is not None and advice.risk_after is not None:
        text.append(f": risk {advice.risk_before:.0%} → {advice.risk_after:.0%}")
    yield text
    yield f"     {capital(advice.why)}."
    if advice.node_hours_before is not None and advice.node_hours_after is not None:
        cost = f"     A run takes about {advice.node_hours_after:.1f} node hours"
        if advice.wait_after is not None:
            cost += f", after a wait of about {time_in_words(advice.wait_after)}"
        yield f"{cost}."
    yield from _to_type(advice, diff)


def _to_type(advice: Advice | Saving, diff: bool) -> Iterator[Text | str]:
    if diff and advice.diff:
        for line in advice.diff.splitlines():
            style = {"+": "green", "-": "red"}.get(line[:1], "bright_black")
            yield Text(f"     {line}", style=style)
    elif advice.command:
        yield Text(f"     {advice.command}", style="cyan")


def _savings(made: Assessment) -> Iterator[Text | str]:
    if made.savings:
        yield Text("Could ask for less", style="bold")
    for number, saving in enumerate(made.savings, 1):
        yield Text(f"  {number}. ").append(capital(saving.what), style="bold")
        yield f"     {capital(saving.why)}; sufficient for {_share(saving.chance)} of such jobs."
        if saving.node_hours is not None:
            gain = f"     {saving.node_hours:,.1f} node hours less are reserved"
            if saving.wait_before is not None and saving.wait_after is not None:
                before, after = map(time_in_words, (saving.wait_before, saving.wait_after))
                gain += f"; median wait recently {before} with the longer limit, {after} with the shorter one"
            yield f"{gain}."
        if round(saving.risk_after, 2) != round(saving.risk_before, 2):
            risks = f"{saving.risk_before:.0%} → {saving.risk_after:.0%}"
            yield f"     The changed request is a new one, of which less is known: risk {risks}."
        yield from _to_type(saving, diff=False)


def _share(chance: float) -> str:
    return ">99%" if chance >= 0.995 else f"{chance:.0%}"


def _fixed(fixed: Fixed | None) -> Iterator[Text | str]:
    if fixed is not None:
        yield Text("Fixed", style="bold")
        yield f"  {fixed.path}, checked as it was written: {fixed.verdict}"
        yield f"  {capital(fixed.summary)}."
