"""The form of the tables: for each code a template of its values, or a function of them and the reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forewarn.assess.wording.reader import Reader
from forewarn.evidence import Code

TextValues = Mapping[str, Any]
Words = str | Callable[[TextValues, Reader], str]
Table = Mapping[Code, Words]


def filled(words: Words, values: TextValues, reader: Reader) -> str:
    """Fill the values into a template.

    >>> filled("{path} does not exist", {"path": "a{b}"}, Reader())
    'a{b} does not exist'
    """
    return words.format_map(values) if isinstance(words, str) else words(values, reader)
