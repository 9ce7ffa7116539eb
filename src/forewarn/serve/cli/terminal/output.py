"""Print results: tables for people, missing values as `n/a`, outcomes in their colours.

Data goes to stdout, everything else to stderr. There are no colours where there is no terminal or
`NO_COLOR` is set.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

from forewarn.formatting import MISSING, percent_in_table
from forewarn.job.outcomes import Outcome, outcome_name
from forewarn.serve.cli.terminal.console import Terminal
from forewarn.serve.cli.terminal.safe_text import echo, echo_json, one_line

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
    """Print a line for the person, on stderr."""
    echo(message, err=True)


def note(message: str) -> None:
    """Print a note for the person, on stderr."""
    text = Text("note: ", style="yellow").append(message, style="default")
    Terminal(err=True).print(text, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print one JSON value on stdout."""
    echo_json(json.dumps(value, ensure_ascii=False, default=str))


def print_facts(title: str, facts: Mapping[str, str | Text | None]) -> None:
    """Print named facts on stdout, without those that are None."""
    console = Terminal()
    console.print(Text(title, style="bold"), soft_wrap=True)
    width = max(map(len, facts), default=0)
    for name, fact in facts.items():
        if fact is not None:
            shown = one_line(fact) if isinstance(fact, str) else fact
            console.print(Text(f"  {name:{width}}  ").append(shown), soft_wrap=True)


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str | None]],
    *,
    right: Iterable[str] = (),
    shorten: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> list[str]:
    """Print a table on stdout, and return the columns for which the terminal had no room.

    To fit a terminal the columns `shorten` are cut first, then those of `drop` are left out, in that order.
    No other column is cut: half a job id is useless. Without a terminal the whole table is printed.
    """
    console = Terminal()
    cells = [[*map(cell, row)] for row in rows]
    widths = {
        heading: max([len(heading), *(row[place].cell_len for row in cells)])
        for place, heading in enumerate(headings)
    }
    if console.is_terminal:
        widths = fitted(widths, console.width, shorten, drop)
    table = Table(box=None, pad_edge=False, header_style="bold")
    places = [place for place, heading in enumerate(headings) if heading in widths]
    for place in places:
        heading = headings[place]
        side: Literal["left", "right"] = "right" if heading in right else "left"
        table.add_column(heading, justify=side, no_wrap=True, width=widths[heading])
    for row in cells:
        table.add_row(*(row[place] for place in places))
    console.width = max(1, _total(widths))
    console.print(table)
    return [heading for heading in headings if heading not in widths]


_SHORTEST = 8  # characters of a text that is still useful when cut
_GAP = 2  # characters between columns


def fitted(
    widths: Mapping[str, int], room: int, shorten: Sequence[str] = (), drop: Sequence[str] = ()
) -> dict[str, int]:
    """Return the columns that there is room for, and their widths.

    >>> fitted({"id": 5, "name": 30, "code": 3}, 22, shorten=["name"], drop=["code", "name"])
    {'id': 5, 'name': 10, 'code': 3}
    >>> fitted({"id": 5, "name": 30, "code": 3}, 15, shorten=["name"], drop=["code", "name"])
    {'id': 5, 'name': 8}
    """
    columns = dict(widths)
    for dropped in (None, *drop):
        if dropped is not None:
            columns.pop(dropped, None)
        shown = dict(columns)
        while (over := _total(shown) - room) > 0:
            long = [name for name in shorten if shown.get(name, 0) > _SHORTEST]
            if not long:
                break
            widest = max(long, key=lambda name: shown[name])
            shown[widest] = max(_SHORTEST, shown[widest] - over)
        if over <= 0:
            break
    return shown


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + _GAP * max(0, len(widths) - 1)


def cell(value: str | None) -> Text:
    """Format a value for a table."""
    if value is None or value == MISSING:
        return Text(MISSING, style="bright_black")
    return Text(one_line(value), style=STYLE_OF.get(value, ""))


def share(part: int, whole: int) -> str | None:
    """Format a part of a whole as a percentage; None where the whole is 0.

    >>> share(1, 8), share(1, 5000), share(0, 0)
    ('12.5%', '<0.1%', None)
    """
    return percent_in_table(part / whole) if whole else None


def shares(counts: Counter[str], name: Callable[[str], str] = outcome_name) -> Text | None:
    """Format outcomes, or what else `name` writes as words, with their shares, the most frequent first."""
    parts = [
        Text(name(outcome), style=STYLE_OF.get(outcome, "")).append(
            f" {share(count, counts.total())}", style="default"
        )
        for outcome, count in counts.most_common()
    ]
    return Text(", ").join(parts) if parts else None
