"""Text that identifies: names and folders without the parts that change from run to run, and stable hashes.

Each rule exists twice, for one text and for a column, since Polars is too slow for one and Python for
many; a property test holds them equal.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

# In this order: UUIDs, hashes (letters and digits of a hex number in turn), numbers, and what is left of
# dates and times. Both Python's and Rust's regular expressions read these the same way.
_RUN_SPECIFIC = (
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    r"(?:[0-9]+[a-f]+|[a-f]+[0-9]+[a-f]+)[0-9a-f]{5,}",
    r"[0-9]+",
    r"#(?:[-_.:t]*#)+",
)
_COMPILED = tuple(re.compile(pattern) for pattern in _RUN_SPECIFIC)
# A name that is one long hash is a pseudonym: it is the identity, not a part that varies.
_PSEUDONYM = r"^[0-9a-f]{32,}$"
_IS_PSEUDONYM = re.compile(_PSEUDONYM)


@lru_cache(maxsize=1 << 14)
def normalised(text: str) -> str:
    """Remove run numbers, dates, hashes and job ids from a name or folder.

    >>> normalised("sweep_017"), normalised("/scratch/Ann/run-2024-05-01T10:00/case3")
    ('sweep_#', '/scratch/ann/run-#/case#')
    """
    text = text.lower()
    if _IS_PSEUDONYM.match(text):
        return text
    for pattern in _COMPILED:
        text = pattern.sub("#", text)
    return text


def normalised_column(column: pl.Expr) -> pl.Expr:
    """Apply `normalised` to a column."""
    lower = column.str.to_lowercase()
    plain = lower
    for pattern in _RUN_SPECIFIC:
        plain = plain.str.replace_all(pattern, "#")
    return pl.when(lower.str.contains(_PSEUDONYM)).then(lower).otherwise(plain)


@lru_cache(maxsize=1 << 17)
def text_hash(text: str) -> int:
    """Hash a text to 64 bits, never 0, the same in every process and version.

    >>> text_hash("alice") == text_hash("alice") != text_hash("bob")
    True
    """
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") | 1


def hashed_column(column: pl.Series, *, normalise: bool = False) -> NDArray[np.uint64]:
    """Apply `text_hash` to a column, or to its `normalised` text; 0 for null; each distinct text once."""
    distinct = column.drop_nulls().unique()
    if not distinct.len():
        return np.zeros(column.len(), np.uint64)
    texts = distinct
    if normalise:
        texts = distinct.to_frame().select(normalised_column(pl.col(column.name))).to_series()
    hashes = pl.Series([text_hash(text) for text in texts], dtype=pl.UInt64)
    return column.replace_strict(distinct, hashes, default=0, return_dtype=pl.UInt64).to_numpy()
