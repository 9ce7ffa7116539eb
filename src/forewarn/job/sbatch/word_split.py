"""One line of options split into words, as sbatch does it: close to a shell, but no shell.

Quotes of both kinds group, and a backslash takes the next character as it is, inside quotes too. An
unescaped ``#`` ends the line wherever it stands, in the middle of a word too; so does a word that is
nothing but a pair of quotes (`get_argument` has no text to give back and is taken to have found the end).
"""

from __future__ import annotations

from dataclasses import dataclass

SPACE = " \t\n\v\f\r"  # C's isspace: a carriage return is none of a value's business


@dataclass(frozen=True, slots=True)
class Word:
    """A word, and where it stands: columns of the line, from 0, quotes included."""

    text: str
    begin: int
    end: int
    plain: bool  # no quote and no backslash in it: each character stands where it stands in the line


class WordError(ValueError):
    """sbatch ends with an error at this line."""


def split_words(line: str, begin: int = 0, *, old: bool = False) -> list[Word]:
    r"""The words from a column on; `old` sbatch (22.05) ends a word at a blank though it is escaped.

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
