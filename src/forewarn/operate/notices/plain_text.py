"""Text of users, jobs and nodes in messages: one line, nothing that steers a mail, a page or a chat."""

from __future__ import annotations

import unicodedata

_STEERING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_LONGEST = 300


def plain(text: object, longest: int = _LONGEST) -> str:
    r"""Write a foreign text as one line without control, direction and invisible characters, cut if long.

    >>> plain("run\r\nBcc: eve@example.org\u202e"), plain("x" * 400, 5)
    ('run Bcc: eve@example.org', 'xxxx…')
    """
    shown = "".join(
        " " if character.isspace() or unicodedata.category(character) in _STEERING else character
        for character in str(text)[: 10 * longest]
    )
    line = " ".join(shown.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"
