"""How results look: tables for people, values that are missing as `n/a`, outcomes in their colours.

Data goes to stdout, everything else to stderr. Colours stay out where there is no terminal or
`NO_COLOR` is set.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from forewarn.job.outcomes import Outcome

MISSING = "n/a"
STYLE_OF: Mapping[str, str] = MappingProxyType(
    {
        Outcome.COMPLETED: "green",
        Outcome.FAILED: "red",
        Outcome.OUT_OF_MEMORY: "yellow",
        Outcome.TIMEOUT: "yellow",
        Outcome.DEADLINE: "yellow",
        Outcome.NODE_FAIL: "magenta",
        Outcome.BOOT_FAIL: "magenta",
        Outcome.PREEMPTED: "bright_black",
        Outcome.CANCELLED: "bright_black",
        Outcome.UNKNOWN: "bright_black",
        "running": "cyan",
        "pending": "blue",
    }
)


def say(message: str) -> None:
    """A line for the person, on stderr."""
    click.echo(message, err=True)


def note(message: str) -> None:
    """Something the person should know, on stderr."""
    text = Text("note: ", style="yellow").append(message, style="default")
    Console(stderr=True, highlight=False).print(text, soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON value on stdout."""
    click.echo(json.dumps(value, ensure_ascii=False, default=str))


def print_facts(title: str, facts: Mapping[str, str | Text | None]) -> None:
    """A few named facts on stdout, those that there are."""
    console = Console(file=sys.stdout, highlight=False)
    console.print(Text(title, style="bold"), soft_wrap=True)
    width = max(map(len, facts), default=0)
    for name, fact in facts.items():
        if fact is not None:
            console.print(Text(f"  {name:{width}}  ").append(fact), soft_wrap=True)


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str | None]], *, right: Iterable[str] = ()
) -> None:
    """A table on stdout: cut to a terminal's width, whole where there is none."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(cell, row))
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = max(1, console.measure(table, options=console.options.update(width=100_000)).maximum)
    console.print(table)


def cell(value: str | None) -> Text:
    """A value as it stands in a table."""
    if value is None:
        return Text(MISSING, style="bright_black")
    return Text(value, style=STYLE_OF.get(value, ""))


def share(part: int, whole: int) -> str | None:
    """A percentage that is 0 only for none, or nothing where there is nothing to be a part of.

    >>> share(1, 8), share(1, 5000), share(0, 0)
    ('12.5 %', '<0.1 %', None)
    """
    if not whole:
        return None
    return "<0.1 %" if 0 < part / whole < 0.0005 else f"{part / whole * 100:.1f} %"


def shares(counts: Counter[str]) -> Text | None:
    """Outcomes with their shares, the most frequent first."""
    parts = [
        Text(outcome, style=STYLE_OF.get(outcome, "")).append(
            f" {share(count, counts.total())}", style="default"
        )
        for outcome, count in counts.most_common()
    ]
    return Text(", ").join(parts) if parts else None
