"""Draw the reasons as a waterfall: how each moves the risk, from the average job to this one.

The SVG stands alone: its colours follow the light or dark theme of the viewer, its text is escaped.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from html import escape

from forewarn.assess.assessment import Reason
from forewarn.assess.wording.lookup import reason as in_words
from forewarn.assess.wording.reader import YOU, Reader
from forewarn.formatting import percent

WIDTH, LABELS, RIGHT = (
    760,
    400,
    58,
)  # pixels: in total, of the labels on the left, of the numbers on the right
_LINE, _GAP, _LETTERS = 15, 14, 62  # pixels per line and between rows; letters per line
_STYLE = """
.fw{font:12.5px system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif;fill:#1d2125}
.fw .soft{fill:#5d646c}.fw .up{fill:#c8500a}.fw .down{fill:#1f66b0}.fw .end{fill:#8b9198}
.fw .grid{stroke:#e3e4e1;stroke-width:1}.fw .link{stroke:#8b9198;stroke-width:1;stroke-dasharray:2 2}
.fw .by{font-weight:600}.fw .back{fill:#fff}
@media (prefers-color-scheme:dark){.fw{fill:#e7e8e6}.fw .soft{fill:#a3a9b0}.fw .up{fill:#f08c4a}
.fw .down{fill:#6fb0f0}.fw .grid{stroke:#2c3137}.fw .back{fill:#191c20}}
"""


def waterfall_svg(reasons: Sequence[Reason], reader: Reader = YOU) -> str:
    """Draw the figure, from the risk before the first reason down to the risk after the last.

    >>> from forewarn.assess.codes import ReasonCode
    >>> code, values = ReasonCode.PROFILE, {"profile": "<small>"}
    >>> one = Reason(code=code, values=values, group="g", weight=1.0, risk_before=0.1, risk_after=0.4)
    >>> figure = waterfall_svg([one])
    >>> figure.startswith("<svg"), "jobs that were &lt;small&gt;" in figure, "+30" in figure
    (True, True, True)
    """
    steps = [(reason, *_risks(reason)) for reason in reasons]
    if not steps:
        raise ValueError("a waterfall needs at least one reason")
    highest = max(max(before, after) for _, before, after in steps)
    top = next(step for step in (0.1, 0.2, 0.5, 1.0) if highest <= step)
    shapes: list[str] = []
    y = 26
    bars: list[tuple[float, int]] = []  # x of the end and y of the middle of each
    rows: list[tuple[str, Reason | None, float, float]] = [("the average job", None, 0.0, steps[0][1])]
    rows += [(in_words(reason, reader), reason, before, after) for reason, before, after in steps]
    rows.append(("this job", None, 0.0, steps[-1][2]))
    for words, of_reason, before, after in rows:
        lines = textwrap.wrap(words, _LETTERS, max_lines=3, placeholder=" …") or [""]
        height = max(_LINE * len(lines), 20)
        middle = y + height // 2
        shapes += _words(lines, middle, bold=of_reason is None)
        shapes += _bar(before, after, middle, top, change=of_reason is not None, words=words)
        if bars:
            x, above = bars[-1]
            shapes.append(f'<path class="link" d="M{x:.1f} {above + 9}V{middle - 9}"/>')
        bars.append((_x(after, top), middle))
        y += height + _GAP
    grid = [
        f'<path class="grid" d="M{_x(value, top):.1f} 20V{y - _GAP + 4}"/>'
        f'<text class="soft" x="{_x(value, top):.1f}" y="13" text-anchor="middle">'
        f"{percent(value)}</text>"
        for value in (top * share / 5 for share in range(6))
    ]
    title = f"The risk of failure goes from {percent(steps[0][1])} to {percent(steps[-1][2])}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fw" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" '
        f'height="{y}" role="img"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f'<rect class="back" width="{WIDTH}" height="{y}" rx="6"/>{"".join(grid)}{"".join(shapes)}</svg>'
    )


def _risks(reason: Reason) -> tuple[float, float]:
    if reason.risk_before is None or reason.risk_after is None:
        raise ValueError(f"the reason {reason.code} has no risk before and after")
    return reason.risk_before, reason.risk_after


def _x(risk: float, top: float) -> float:
    return LABELS + (WIDTH - LABELS - RIGHT) * min(risk / top, 1.0)


def _words(lines: Sequence[str], middle: int, *, bold: bool) -> list[str]:
    first = middle - (len(lines) - 1) * _LINE / 2 + 4.5
    look = ' class="by"' if bold else ""
    return [
        f'<text{look} x="{LABELS - 14}" y="{first + place * _LINE:.1f}" text-anchor="end">'
        f"{escape(line)}</text>"
        for place, line in enumerate(lines)
    ]


def _bar(before: float, after: float, middle: int, top: float, *, change: bool, words: str) -> list[str]:
    """Draw a bar from one risk to the next, or from 0, with its number at the right end."""
    left, right = sorted((_x(before, top), _x(after, top)))
    look = ("up" if after > before else "down") if change else "end"
    number = f"{100 * (after - before):+.0f}" if change else percent(after)
    if change and abs(after - before) < 0.005:
        number = "±0"
    return [
        f'<rect class="{look}" x="{left:.1f}" y="{middle - 9}" width="{max(right - left, 1.5):.1f}" '
        f'height="18" rx="2"><title>{escape(words)}</title></rect>',
        f'<text class="by" x="{right + 6:.1f}" y="{middle + 4.5}">{number}</text>',
    ]
