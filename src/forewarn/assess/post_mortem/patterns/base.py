"""What a pattern is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_UNSAID = "\0"
_EMPTY = re.compile(r"[:,]? ?\(?\0\)?")
SURE, STRONG, FAIR, WEAK = 0.9, 0.75, 0.5, 0.25  # how much a line is worth as a cause


@dataclass(frozen=True)
class Pattern:
    """A line that tells something of a failure.

    `hints` are texts of which the line has at least one: they are searched for first, since that is a hundred
    times as fast as the expression. Quantifiers have an upper bound, so that a crafted line takes no longer
    than its length: a log is anybody's text. `what` may name groups of the expression; what the line does not say
    is left out.
    """

    name: str
    family: str
    expression: str
    hints: tuple[str, ...]
    what: str
    worth: float = STRONG
    follow_up: bool = False  # says that something went wrong before it, not what

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The expression, made once."""
        return re.compile(self.expression)

    def meaning(self, line: str) -> str | None:
        """What the line says, or None where it is not of this pattern.

        >>> one = Pattern("a", "b", r"lost (?P<what>\\w+)", ("lost",), "{what} was lost")
        >>> one.meaning("we lost it"), one.meaning("found")
        ('it was lost', None)
        """
        found = self.compiled.search(line)
        if found is None:
            return None
        groups = {name: text.strip()[:120] for name, text in found.groupdict().items() if text}
        # Of two ways to write it, `that` is what the second has.
        groups.setdefault("what", groups.get("that") or _UNSAID)
        groups.setdefault("that", _UNSAID)
        said = self.what.format(**groups)
        return _EMPTY.sub("", said).strip()
