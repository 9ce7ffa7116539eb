"""Long texts as the embedded store keeps them."""

from __future__ import annotations

import zlib


def packed_text(text: str | None) -> bytes | None:
    """A text as it is kept: an assessment is mostly names of fields, and a third of its size so."""
    return None if text is None else zlib.compress(text.encode(), 6)


def unpacked_text(data: bytes | None) -> str | None:
    """The text again."""
    return None if data is None else zlib.decompress(data).decode()
