"""JSON too large for memory, read a piece at a time: a member of an object, an element of an array.

Each piece is decoded by the standard library's scanner (in C) from a buffer that grows only until
that piece is complete.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, Any

from forewarn.errors import CutShortError, SourceError

_SPACE = re.compile(r"[ \t\r\n]*")
# A literal or an escape that the end of a block cut in two is found wrong this close to the end.
_LONGEST_PIECE = 16
_WORDS = ("true", "false", "null")


class JsonReader:
    """Pulls pieces of one JSON text out of a stream, in its order.

    >>> import io
    >>> reader = JsonReader(io.BytesIO(b'{"jobs": [1, 2], "meta": {"a": null}}'), "answer.json", block=4)
    >>> for key in reader.members():
    ...     print(key, list(reader.elements()) if key == "jobs" else reader.value())
    jobs [1, 2]
    meta {'a': None}
    >>> reader.finish()
    """

    def __init__(self, stream: IO[bytes], name: str, block: int = 1 << 20) -> None:
        self._stream = stream
        self._name = name
        self._block = block
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        # Slurm has written raw control characters into strings.
        self._scan = json.JSONDecoder(strict=False).raw_decode
        self._buffer = ""
        self._at = 0
        self._dropped = 0  # characters before the buffer
        self._ended = False

    def members(self) -> Iterator[str]:
        """The keys of the object that comes next; take each one's value before going on."""
        self._take("{")
        if self.peek() == "}":
            self._take("}")
            return
        while True:
            key = self.value()
            if not isinstance(key, str):
                raise self._wrong("a key that is not a string", self._at)
            self._take(":")
            yield key
            if self._take(",}") == "}":
                return

    def elements(self) -> Iterator[Any]:
        """The elements of the array that comes next (none of a null)."""
        if self.peek() == "n" and self.value() is None:
            return
        self._take("[")
        if self.peek() == "]":
            self._take("]")
            return
        while True:
            yield self.value()
            if self._take(",]") == "]":
                return

    def value(self) -> Any:
        """The value that comes next, decoded whole."""
        self.peek()
        while True:
            try:
                value, end = self._scan(self._buffer, self._at)
            except json.JSONDecodeError as error:
                cut = error.pos >= len(self._buffer) - _LONGEST_PIECE or error.msg.startswith("Unterminated")
                if cut and self._more():
                    continue
                raise self._wrong(error.msg, error.pos) from None
            except RecursionError:
                raise self._wrong("nested too deeply", self._at) from None
            except ValueError as error:  # a number of thousands of digits
                raise self._wrong(str(error), self._at) from None
            # A number that ends with the block may go on in the next: 1 as 1.5, and 1e- as 1e-7.
            if len(self._buffer) - end < 3 and isinstance(value, int | float) and self._more():
                continue
            self._at = end
            return value

    def finish(self) -> None:
        """Nothing may follow."""
        if self.peek():
            raise self._wrong("more text after the end of the JSON", self._at)

    def peek(self) -> str:
        """The character that comes next, spaces aside; nothing at the end."""
        while True:
            match = _SPACE.match(self._buffer, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._more():
                return ""

    def _take(self, wanted: str) -> str:
        char = self.peek()
        if not char or char not in wanted:
            raise self._wrong(f"expecting {' or '.join(repr(c) for c in wanted)}", self._at)
        self._at += 1
        return char

    def _more(self) -> bool:
        """Make the buffer longer; False at the end of the stream."""
        if self._ended:
            return False
        rest = self._buffer[self._at :]
        # As much again as there is: a piece of any length is scanned a few times only.
        chunk = self._stream.read(max(self._block, len(rest)))
        self._ended = not chunk
        self._dropped += self._at
        self._buffer = rest + self._text.decode(chunk, final=self._ended)
        self._at = 0
        return True

    def _wrong(self, what: str, at: int) -> SourceError:
        place = f"character {self._dropped + at + 1:,}"
        rest = self._buffer[at : at + _LONGEST_PIECE]
        if (self._ended and any(word.startswith(rest) for word in _WORDS)) or what.startswith("Unterminated"):
            return CutShortError(f"{self._name}: the JSON is cut short at {place} ({what})")
        return SourceError(f"{self._name}: not JSON at {place}: {what}")
