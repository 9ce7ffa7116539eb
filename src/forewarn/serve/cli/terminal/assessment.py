"""How an assessment looks on a terminal; its words are made in `assess/wording`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from forewarn.assess import wording
from forewarn.assess.assessment import Advice, Assessment, Finding, Reason, Saving, Verdict
from forewarn.assess.wording import YOU, Reader
from forewarn.formatting import sentence
from forewarn.operate.check_scripts import FixedScript
from forewarn.serve.cli.terminal.console import Terminal
from forewarn.serve.cli.terminal.safe_text import one_line

STYLE_OF = {
    Verdict.FINE: "bold green",
    Verdict.WARNING: "bold yellow",
    Verdict.LIKELY_TO_FAIL: "bold red",
    Verdict.CANNOT_SAY: "bold bright_black",
}
_SEVERITY = {"error": "red", "warning": "yellow", "note": "bright_black"}
SIMILAR_SHOWN = 3


def show(
    made: Assessment,
    title: str,
    reader: Reader = YOU,
    *,
    diff: bool = False,
    fixed: FixedScript | None = None,
) -> None:
    """Print it on stdout."""
    console = Terminal()
    head = Text(f"{title}: ").append(wording.VERDICTS[made.verdict], style=STYLE_OF[made.verdict])
    console.print(harmless(head), soft_wrap=True)
    console.print(harmless(Text(f"  {sentence(wording.summary(made, reader))}.")), soft_wrap=True)
    blocks = (
        _numbers(made, reader),
        _findings(made, reader),
        _reasons(made, reader),
        _similar(made, reader),
        _advice(made, reader, diff),
        _savings(made, reader),
        _fixed(fixed),
        _notes(made, reader),
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


def _numbers(made: Assessment, reader: Reader) -> Iterator[Text | str]:
    facts = list(wording.facts(made, reader))
    width = max((len(name) for name, _ in facts), default=0)
    for name, fact in facts:
        yield f"  {name:{width}}  {fact}"


def _findings(made: Assessment, reader: Reader) -> Iterator[Text | str]:
    if made.findings:
        yield Text("In the script", style="bold")
    for finding in sorted(made.findings, key=_rank):
        line = f"line {finding.line}" if finding.line is not None else ""
        text = Text(f"  {line:9}").append(f"{finding.severity:8}", style=_SEVERITY.get(finding.severity, ""))
        yield text.append(f"{wording.finding(finding, reader)} [{finding.rule}]")
        if fix := wording.fix(finding, reader):
            yield f"  {'':17}{fix}"


def _rank(finding: Finding) -> tuple[int, int]:
    return [*_SEVERITY].index(finding.severity), finding.line or 0


def _reasons(made: Assessment, reader: Reader) -> Iterator[Text | str]:
    if made.reasons:
        yield Text("Why", style="bold")
    for reason in made.reasons:
        yield _reason(reason, reader)


def _reason(reason: Reason, reader: Reader) -> Text:
    sign, style = ("+", "red") if reason.weight > 0 else ("−", "green")
    text = Text("  ").append(sign, style=style).append(f" {wording.reason(reason, reader)}")
    if reason.risk_before is not None and reason.risk_after is not None:
        text.append(f"  ({reason.risk_before:.0%} → {reason.risk_after:.0%})", style="bright_black")
    return text


def _similar(made: Assessment, reader: Reader) -> Iterator[Text | str]:
    if made.similar and made.similar_in_short is not None:
        yield Text("Similar earlier jobs", style="bold")
        yield f"  {sentence(wording.words(made.similar_in_short, reader))}."
    for job in made.similar[:SIMILAR_SHOWN]:
        yield f"  {wording.similar_job(job, reader)}"


def _notes(made: Assessment, reader: Reader) -> Iterator[Text | str]:
    for note in (made.route.caveat, *made.notes):
        if note is not None:
            yield f"  Note: {wording.words(note, reader)}."


def _advice(made: Assessment, reader: Reader, diff: bool) -> Iterator[Text | str]:
    if made.advice:
        yield Text("Advice", style="bold")
    shown = next((advice for advice in made.advice if advice.diff), None) if diff else None
    for number, advice in enumerate(made.advice, 1):
        head = _numbered(number, advice, reader)
        if risk := wording.risk_change(advice.risk_before, advice.risk_after):
            head.append(f": {risk}")
        yield head
        yield from (f"     {line}" for line in wording.advice(advice, reader))
        yield from _to_type(advice, advice is shown)


def _numbered(number: int, advice: Advice | Saving, reader: Reader) -> Text:
    return Text(f"  {number}. ").append(sentence(wording.what(advice, reader)), style="bold")


def _to_type(advice: Advice | Saving, diff: bool) -> Iterator[Text | str]:
    if diff and advice.diff:
        for line in advice.diff.splitlines():
            style = {"+": "green", "-": "red"}.get(line[:1], "bright_black")
            yield Text(f"     {line}", style=style)
    elif advice.command:
        yield Text(f"     {advice.command}", style="cyan")


def _savings(made: Assessment, reader: Reader) -> Iterator[Text | str]:
    if made.savings:
        yield Text("Could ask for less", style="bold")
    for number, saving in enumerate(made.savings, 1):
        yield _numbered(number, saving, reader)
        yield from (f"     {line}" for line in wording.saving(saving, reader))
        yield from _to_type(saving, diff=False)


def _fixed(fixed: FixedScript | None) -> Iterator[Text | str]:
    if fixed is not None:
        yield Text("Fixed", style="bold")
        verdict = wording.VERDICTS[fixed.assessment.verdict]
        yield f"  {fixed.path}, checked as it was written: {verdict}"
        yield f"  {sentence(wording.summary(fixed.assessment))}."
