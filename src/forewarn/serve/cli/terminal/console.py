"""Coloured text and tables, through the one gate to the terminal (`safe_text.py`)."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from forewarn.serve.cli.terminal.safe_text import visible


class Terminal(Console):
    """A console that prints text literally: markup, emoji names and highlights are not interpreted.

    Styles come from rich; the text of a segment may come from anybody.
    """

    def __init__(self, *, err: bool = False, **settings: Any) -> None:
        where = {"stderr": True} if err else {"file": sys.stdout}
        super().__init__(**where, highlight=False, markup=False, emoji=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, with control characters made visible; cursor movements are rich's own."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)
