"""How an assessment looks to a person."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from forewarn.assess.assessment import Advice, Assessment, Finding, Quantiles, Reason, Verdict
from forewarn.assess.oddness.words import bytes_in_words, time_in_words
from forewarn.assess.verdict import capital

STYLE_OF = {
    Verdict.FINE: "bold green",
    Verdict.WARNING: "bold yellow",
    Verdict.LIKELY_TO_FAIL: "bold red",
    Verdict.CANNOT_SAY: "bold bright_black",
}
_SEVERITY = {"error": "red", "warning": "yellow", "note": "bright_black"}
SIMILAR_SHOWN = 3


def show(made: Assessment, title: str, *, diff: bool = False) -> None:
    """Print it on stdout."""
    console = Console(file=sys.stdout, highlight=False, markup=False)
    head = Text(f"{title}: ").append(str(made.verdict), style=STYLE_OF[made.verdict])
    console.print(harmless(head), soft_wrap=True)
    console.print(harmless(Text(f"  {capital(made.summary)}.")), soft_wrap=True)
    blocks = (
        _numbers(made),
        _findings(made),
        _reasons(made),
        _similar(made),
        _advice(made, diff),
        _notes(made),
    )
    for block in blocks:
        lines = list(block)
        if lines:
            console.print()
        for line in lines:
            console.print(harmless(line if isinstance(line, Text) else Text(line)), soft_wrap=True)


def harmless(text: Text) -> Text:
    """Without what would steer the terminal: names and scripts are anybody's.

    >>> harmless(Text("a\\x1b[2J")).plain
    'a\\\\x1b[2J'
    """
    if text.plain.isprintable():
        return text
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text.plain)
    return Text(shown, style=text.style)


def _numbers(made: Assessment) -> Iterator[Text | str]:
    facts = list(_facts(made))
    width = max((len(name) for name, _ in facts), default=0)
    for name, fact in facts:
        yield f"  {name:{width}}  {fact}"


def _facts(made: Assessment) -> Iterator[tuple[str, str]]:
    if (run := made.run_time) is not None:
        said = f"{_spread(run.seconds, time_in_words)}"
        if run.limit is not None and run.over_limit is not None:
            said += f"; the limit is {time_in_words(run.limit)}, {_chance(run.over_limit)} need longer"
        yield "run time", said
    if (use := made.resources) is not None:
        if use.memory is not None:
            said = f"{_spread(use.memory, bytes_in_words)} a node"
            if use.memory_asked is not None and use.over_memory is not None:
                said += f"; asked {bytes_in_words(use.memory_asked)}, {_chance(use.over_memory)} need more"
            yield "memory", said
        if use.cpu_efficiency is not None:
            yield "CPUs", f"{use.cpu_efficiency.median:.0%} of their time used, as a rule"
    if (odd := made.oddness) is not None:
        for oddity in odd.oddities:
            yield "cannot run" if oddity.impossible else "odd", oddity.what
        if odd.because:
            yield "unusual", "; ".join(odd.because)
    if made.failure and made.failure.causes:
        shares: dict[str, float] = {}
        for cause in made.failure.causes:
            shares[cause.outcome] = shares.get(cause.outcome, 0.0) + cause.probability
        likely = [f"{outcome} {p:.0%}" for outcome, p in shares.items() if p >= 0.01]
        yield "failure", ", ".join(likely[:4]) or "unlikely"
    if made.nodes is not None:
        said = f"{made.nodes.fit:,} can take it, {made.nodes.needed:,} needed"
        if made.nodes.sick:
            said += f"; sick: {', '.join(made.nodes.sick[:5])}"
        yield "nodes", said
    if made.profile is not None:
        yield "kind", made.profile
    if made.route.model is not None:
        version = f" version {made.route.version}" if made.route.version is not None else ""
        rests = f", learnt from {made.failure.rests_on:,} jobs" if made.failure else ""
        yield "model", f"{made.route.model}{version}{rests}"


def _spread(told: Quantiles, words: object) -> str:
    assert callable(words)
    return f"about {words(told.median)}, one in ten beyond {words(told.high)}"


def _chance(p: float) -> str:
    return "<1 %" if p < 0.01 else f"{p:.0%}"


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
        yield f"  {job.job_id} {job.outcome}{ran}{differs}"


def _notes(made: Assessment) -> Iterator[Text | str]:
    for note in made.notes:
        yield f"  Note: {note}."


def _advice(made: Assessment, diff: bool) -> Iterator[Text | str]:
    if made.advice:
        yield Text("Advice", style="bold")
    shown = next((advice for advice in made.advice if advice.diff), None) if diff else None
    for number, advice in enumerate(made.advice, 1):
        yield from _one(number, advice, advice is shown)


def _one(number: int, advice: Advice, diff: bool) -> Iterator[Text | str]:
    risk = f"risk {advice.risk_before:.0%} → {advice.risk_after:.0%}"
    yield Text(f"  {number}. ").append(capital(advice.what), style="bold").append(f": {risk}")
    yield f"     {capital(advice.why)}."
    if advice.node_hours_before is not None and advice.node_hours_after is not None:
        cost = f"     a run takes about {advice.node_hours_after:.1f} node hours"
        if advice.wait_after is not None:
            cost += f", after a wait of about {time_in_words(advice.wait_after)}"
        yield cost
    if diff and advice.diff:
        for line in advice.diff.splitlines():
            style = {"+": "green", "-": "red"}.get(line[:1], "bright_black")
            yield Text(f"     {line}", style=style)
    elif advice.command:
        yield Text(f"     {advice.command}", style="cyan")
