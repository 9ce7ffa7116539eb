"""Text of callers in messages and headers: one line, without control characters, of bounded length."""

from __future__ import annotations

LONGEST = 500  # characters


def one_line(text: str, most: int = LONGEST) -> str:
    r"""Return a text as one printable line.

    >>> one_line("a\r\nSet-Cookie: x\x1b[2J")
    'a  Set-Cookie: x [2J'
    """
    printable = "".join(char if char.isprintable() else " " for char in text[: most + 1])
    return printable if len(printable) <= most else printable[: most - 1] + "…"
