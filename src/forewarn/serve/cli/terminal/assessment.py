"""Show an assessment on a terminal; its English is written in `assess/wording`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from forewarn.assess import wording
from forewarn.assess.assessment import Advice, Assessment, Finding, Reason, Saving, Verdict
from forewarn.assess.wording import YOU, Reader
from forewarn.formatting import full_sentence, percent, sentence
from forewarn.operate.checked_scripts import FixedScript
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
    assessment: Assessment,
    title: str,
    reader: Reader = YOU,
    *,
    diff: bool = False,
    fixed: FixedScript | None = None,
) -> None:
    """Print an assessment on stdout."""
    console = Terminal()
    head = Text(f"{title}: ").append(wording.VERDICTS[assessment.verdict], style=STYLE_OF[assessment.verdict])
    console.print(harmless(head), soft_wrap=True)
    console.print(harmless(Text(f"  {full_sentence(wording.summary(assessment, reader))}")), soft_wrap=True)
    blocks = (
        _numbers(assessment, reader),
        _findings(assessment, reader),
        _reasons(assessment, reader),
        _similar(assessment, reader),
        _advice(assessment, reader, diff),
        _savings(assessment, reader),
        _fixed(fixed),
        _notes(assessment, reader),
    )
    for block in blocks:
        lines = list(block)
        if lines:
            console.print()
        for line in lines:
            console.print(harmless(line if isinstance(line, Text) else Text(line)), soft_wrap=True)


def harmless(text: Text) -> Text:
    r"""Keep a line on one line: names and scripts are text of users.

    >>> harmless(Text("a\nb")).plain
    'a\\nb'
    """
    shown = one_line(text.plain)
    return text if shown == text.plain else Text(shown, style=text.style)


def _numbers(assessment: Assessment, reader: Reader) -> Iterator[Text | str]:
    facts = list(wording.facts(assessment, reader))
    width = max((len(name) for name, _ in facts), default=0)
    for name, fact in facts:
        yield f"  {name:{width}}  {fact}"


def _findings(assessment: Assessment, reader: Reader) -> Iterator[Text | str]:
    if assessment.findings:
        yield Text("In the script", style="bold")
    for finding in sorted(assessment.findings, key=_rank):
        line = f"line {finding.line}" if finding.line is not None else ""
        text = Text(f"  {line:9}").append(f"{finding.severity:8}", style=_SEVERITY.get(finding.severity, ""))
        yield text.append(f"{wording.finding(finding, reader)} [{finding.rule}]")
        if fix := wording.fix(finding, reader):
            yield f"  {'':17}{fix}"


def _rank(finding: Finding) -> tuple[int, int]:
    return [*_SEVERITY].index(finding.severity), finding.line or 0


def _reasons(assessment: Assessment, reader: Reader) -> Iterator[Text | str]:
    if assessment.reasons:
        yield Text("Why", style="bold")
    for reason in assessment.reasons:
        yield _reason(reason, reader)


def _reason(reason: Reason, reader: Reader) -> Text:
    sign, style = ("+", "red") if reason.weight > 0 else ("−", "green")
    text = Text("  ").append(sign, style=style).append(f" {wording.reason(reason, reader)}")
    if reason.risk_before is not None and reason.risk_after is not None:
        text.append(f"  ({percent(reason.risk_before)} → {percent(reason.risk_after)})", style="bright_black")
    return text


def _similar(assessment: Assessment, reader: Reader) -> Iterator[Text | str]:
    if assessment.similar and assessment.similar_in_short is not None:
        yield Text("Similar earlier jobs", style="bold")
        yield f"  {full_sentence(wording.words(assessment.similar_in_short, reader))}"
    for job in assessment.similar[:SIMILAR_SHOWN]:
        yield f"  {wording.similar_job(job, reader)}"


def _notes(assessment: Assessment, reader: Reader) -> Iterator[Text | str]:
    for note in (assessment.route.caveat, *assessment.notes):
        if note is not None:
            yield f"  Note: {wording.words(note, reader)}."


def _advice(assessment: Assessment, reader: Reader, diff: bool) -> Iterator[Text | str]:
    if assessment.advice:
        yield Text("Advice", style="bold")
    with_diff = next((advice for advice in assessment.advice if advice.diff), None) if diff else None
    for number, advice in enumerate(assessment.advice, 1):
        head = _numbered(number, advice, reader)
        if risk := wording.risk_change(advice.risk_before, advice.risk_after):
            head.append(f": {risk}")
        yield head
        yield from (f"     {line}" for line in wording.advice(advice, reader))
        yield from _to_type(advice, advice is with_diff)


def _numbered(number: int, advice: Advice | Saving, reader: Reader) -> Text:
    return Text(f"  {number}. ").append(sentence(wording.what(advice, reader)), style="bold")


def _to_type(advice: Advice | Saving, diff: bool) -> Iterator[Text | str]:
    if diff and advice.diff:
        for line in advice.diff.splitlines():
            style = {"+": "green", "-": "red"}.get(line[:1], "bright_black")
            yield Text(f"     {line}", style=style)
    elif advice.command:
        yield Text(f"     {advice.command}", style="cyan")


def _savings(assessment: Assessment, reader: Reader) -> Iterator[Text | str]:
    if assessment.savings:
        yield Text("Could request less", style="bold")
    for number, saving in enumerate(assessment.savings, 1):
        yield _numbered(number, saving, reader)
        yield from (f"     {line}" for line in wording.saving(saving, reader))
        yield from _to_type(saving, diff=False)


def _fixed(fixed: FixedScript | None) -> Iterator[Text | str]:
    if fixed is not None:
        yield Text("Fixed", style="bold")
        verdict = wording.VERDICTS[fixed.assessment.verdict]
        yield f"  {fixed.path}, checked after writing: {verdict}"
        yield f"  {full_sentence(wording.summary(fixed.assessment))}"
