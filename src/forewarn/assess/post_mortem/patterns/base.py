"""The form of a pattern."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_ABSENT = "\0"
_EMPTY = re.compile(r"[:,]? ?\(?\0\)?")
SURE, STRONG, FAIR, WEAK = 0.9, 0.75, 0.5, 0.25  # weight of a line as evidence for a cause


@dataclass(frozen=True)
class Pattern:
    """A pattern of log lines that show a failure.

    A line contains at least one of the `hints`: they are searched for first, which is a hundred times as fast
    as the expression. Quantifiers have an upper bound, so that a crafted line takes no longer than its length:
    any user can write a log. `what` may name groups of the expression; groups that a line lacks are left out.
    """

    name: str
    family: str
    expression: str
    hints: tuple[str, ...]
    what: str
    worth: float = STRONG
    follow_up: bool = False  # shows that something failed before, not what

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The compiled expression."""
        return re.compile(self.expression)

    def meaning(self, line: str) -> str | None:
        """Return what a line means, or None where it does not match.

        >>> one = Pattern("a", "b", r"lost (?P<what>\\w+)", ("lost",), "{what} was lost")
        >>> one.meaning("we lost it"), one.meaning("found")
        ('it was lost', None)
        """
        found = self.compiled.search(line)
        if found is None:
            return None
        groups = {name: text.strip()[:120] for name, text in found.groupdict().items() if text}
        # An expression with two alternatives names the group of the second one `that`.
        groups.setdefault("what", groups.get("that") or _ABSENT)
        groups.setdefault("that", _ABSENT)
        return _EMPTY.sub("", self.what.format(**groups)).strip()
