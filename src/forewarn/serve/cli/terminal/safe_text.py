r"""The one gate to the terminal: no text of a job, a log or a script can control it.

Job names, work folders, accounts and error messages are text of any user. An escape sequence in one of them
could clear the screen, change the window's title or show a line that is not there; a direction mark could
reverse a path. Everything that a command prints passes here, and such characters are shown as ``\x1b``.
A test forbids other ways out. Coloured text and tables take the same way: `console.py`.
"""

from __future__ import annotations

import re

import click

# Controls (all but tab and line feed), invisible marks, marks of direction, surrogates, tags.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    r"""Show characters that would control a terminal as their escapes.

    >>> print(visible("a\x1b[2Jb\u202ec\nd"))
    a\x1b[2Jb\u202ec
    d
    """
    return _STEERING.sub(_escape, text) if _STEERING.search(text) else text


def one_line(text: str) -> str:
    r"""Do the same for a text without line breaks of its own: a name cannot pretend to be another line.

    >>> print(one_line("job\nforewarn: all is fine"))
    job\nforewarn: all is fine
    """
    return visible(text).replace("\n", "\\n").replace("\t", " ")


def json_visible(text: str) -> str:
    r"""Do the same for JSON, whose strings keep their values.

    >>> print(json_visible('{"name": "a\x9b2J"}'))
    {"name": "a\u009b2J"}
    """
    return _STEERING.sub(_escape_json, text) if _STEERING.search(text) else text


def echo(text: object = "", *, err: bool = False, end: str = "\n") -> None:
    """Print text of one or several lines."""
    click.echo(visible(str(text)) + end, nl=False, err=err)


def echo_json(text: str, *, end: str = "\n") -> None:
    """Print JSON on stdout."""
    click.echo(json_visible(text) + end, nl=False)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_json(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
