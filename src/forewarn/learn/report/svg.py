"""Draw plots with two axes as SVG.

Colours are classes of `style.css`, so that a figure follows the reader's light or dark theme and a curve
takes a few kilobytes. Text is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from forewarn.formatting import significant

WIDTH, HEIGHT = 400, 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 18, 12, 42


def round_steps(low: float, high: float, about: int = 5) -> list[float]:
    """List round numbers between two bounds, for the ticks of an axis.

    >>> round_steps(0, 1), round_steps(0.43, 0.47)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.43, 0.44, 0.45, 0.46, 0.47])
    """
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / about))
    step = min((s * power for s in (1, 2, 5, 10)), key=lambda s: abs((high - low) / s - about))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 10) for place in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class Axis:
    """The label, range and ticks of one axis."""

    label: str
    low: float = 0.0
    high: float = 1.0
    text: Callable[[float], str] = significant
    steps: Sequence[float] | None = None

    def position(self, value: float) -> float:
        """Return how far along the axis a value lies, from 0 to 1; values outside are moved to the ends."""
        span = self.high - self.low
        return min(max((value - self.low) / span, 0.0), 1.0) if span > 0 else 0.5


class Plot:
    """A plot; elements drawn later lie above earlier ones."""

    def __init__(self, title: str, x: Axis, y: Axis, *, height: int = HEIGHT) -> None:
        self.title = title  # read by screen readers
        self.x, self.y = x, y
        self.height = height
        self._elements: list[Markup] = []

    def _at(self, x: float, y: float) -> tuple[float, float]:
        across = _LEFT + self.x.position(x) * (WIDTH - _LEFT - _RIGHT)
        up = self.height - _BOTTOM - self.y.position(y) * (self.height - _TOP - _BOTTOM)
        return round(across, 1), round(up, 1)

    def line(self, xs: Sequence[float], ys: Sequence[float], look: str) -> None:
        """Draw a line through points."""
        points = " ".join("{},{}".format(*self._at(x, y)) for x, y in zip(xs, ys, strict=True))
        self._elements.append(Markup('<polyline class="line {}" points="{}"/>').format(look, points))

    def area(self, xs: Sequence[float], ys: Sequence[float], look: str, base: float = 0.0) -> None:
        """Fill the area between a curve and a level."""
        outline = [*zip(xs, ys, strict=True), (xs[-1], base), (xs[0], base)]
        points = " ".join("{},{}".format(*self._at(x, y)) for x, y in outline)
        self._elements.append(Markup('<polygon class="area {}" points="{}"/>').format(look, points))

    def box(self, x0: float, y0: float, x1: float, y1: float, look: str, tooltip: str = "") -> None:
        """Draw a bar or a band."""
        (left, low), (right, high) = self._at(x0, y0), self._at(x1, y1)
        self._elements.append(
            Markup(
                '<rect class="area {}" x="{}" y="{}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>'
            ).format(look, min(left, right), min(low, high), abs(right - left), abs(high - low), tooltip)
        )

    def dot(self, x: float, y: float, look: str, tooltip: str, radius: float = 4.5) -> None:
        """Draw a circle with a tooltip."""
        across, up = self._at(x, y)
        self._elements.append(
            Markup('<circle class="dot {}" cx="{}" cy="{}" r="{:.1f}"><title>{}</title></circle>').format(
                look, across, up, radius, tooltip
            )
        )

    def diamond(self, x: float, y: float, look: str, tooltip: str, radius: float = 5.0) -> None:
        """Draw a diamond with a tooltip."""
        across, up = self._at(x, y)
        self._elements.append(
            Markup(
                '<path class="dot {}" d="M{} {}l{r} {r}l-{r} {r}l-{r} -{r}z"><title>{}</title></path>'
            ).format(look, across, round(up - radius, 1), tooltip, r=radius)
        )

    def svg(self) -> Markup:
        """Return the plot as SVG."""
        return Markup('<svg viewBox="0 0 {} {}" role="img"><title>{}</title>{}{}</svg>').format(
            WIDTH, self.height, self.title, self._axes(), Markup("").join(self._elements)
        )

    def _axes(self) -> Markup:
        right, bottom = WIDTH - _RIGHT, self.height - _BOTTOM
        elements = []
        for value in self.y.steps or round_steps(self.y.low, self.y.high):
            _, up = self._at(self.x.low, value)
            elements.append(Markup('<path class="grid" d="M{} {}H{}"/>').format(_LEFT, up, right))
            elements.append(
                Markup('<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>').format(
                    _LEFT - 6, up + 3.5, self.y.text(value)
                )
            )
        for value in self.x.steps or round_steps(self.x.low, self.x.high):
            across, _ = self._at(value, self.y.low)
            elements.append(Markup('<path class="grid" d="M{} {}v4"/>').format(across, bottom))
            elements.append(
                Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
                    across, bottom + 16, self.x.text(value)
                )
            )
        middle_x, middle_y = (_LEFT + right) / 2, (_TOP + bottom) / 2
        elements.append(Markup('<path class="axis" d="M{} {}H{}"/>').format(_LEFT, bottom, right))
        elements.append(
            Markup('<text class="label" x="{}" y="{}" text-anchor="middle">{}</text>').format(
                middle_x, self.height - 6, self.x.label
            )
        )
        elements.append(
            Markup(
                '<text class="label" text-anchor="middle" transform="translate(10 {}) rotate(-90)">{}</text>'
            ).format(middle_y, self.y.label)
        )
        return Markup("").join(elements)
