"""Splitter of a line of options into words, as sbatch does it: similar to a shell, but not the same.

Quotes of both kinds group, and a backslash keeps the next character, inside quotes too. An unescaped ``#``
ends the line anywhere, even in the middle of a word; so does a word that is only a pair of quotes
(`get_argument` returns no text, which is taken for the end).
"""

from __future__ import annotations

from dataclasses import dataclass

SPACE = " \t\n\v\f\r"  # C's isspace: a carriage return is not part of a value


@dataclass(frozen=True, slots=True)
class Word:
    """A word and its place: columns of the line, from 0, quotes included."""

    text: str
    begin: int
    end: int
    plain: bool  # no quote and no backslash: columns of the text are those of the line


class WordError(ValueError):
    """A line at which sbatch ends with an error."""


def split_words(line: str, begin: int = 0, *, old: bool = False) -> list[Word]:
    r"""Split a line into words from a column on; `old` sbatch (22.05) ends a word at an escaped blank, too.

    >>> [word.text for word in split_words(r'''#SBATCH -J "a b"c\# --mem=4G#more --time=1''', 7)]
    ['-J', 'a bc#', '--mem=4G']
    """
    line = line.partition("\0")[0]
    found: list[Word] = []
    place = begin
    while (word := _next_word(line, place, old)) is not None:
        found.append(word)
        place = word.end
    return found


def _next_word(line: str, place: int, old: bool) -> Word | None:
    while place < len(line) and line[place] in SPACE:
        place += 1
    if line[place : place + 1] == ":":
        raise WordError("a word that begins with a colon, which divides components on the command line only")
    begin, text, quote, escaped, plain = place, list[str](), "", False, True
    while place < len(line) and (quote or (escaped and not old) or line[place] not in SPACE):
        sign = line[place]
        if escaped:
            escaped = False
            text.append(sign)
        elif sign == "\\":
            escaped, plain = True, False
        elif quote:
            if sign == quote:
                quote = ""
            else:
                text.append(sign)
        elif sign in "\"'":
            quote, plain = sign, False
        elif sign == "#":
            break
        else:
            text.append(sign)
        place += 1
    if quote:
        raise WordError(f"a quote ({quote}) that is not closed in its line")
    return Word("".join(text), begin, place, plain) if text else None
