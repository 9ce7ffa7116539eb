"""Reader of JSON that is too large for memory, one piece at a time: an object's member, an array's element.

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
# Where the end of a block cuts a literal or an escape in two, the error is this close to the end.
_LONGEST_PIECE = 16
_WORDS = ("true", "false", "null")


class JsonReader:
    """Reader of the pieces of one JSON text in a stream, in order.

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
        """Yield the keys of the next object; read each key's value before going on."""
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
        """Yield the elements of the next array (none for null)."""
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
        """Decode the next value as a whole."""
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
        """Check that nothing follows."""
        if self.peek():
            raise self._wrong("more text after the end of the JSON", self._at)

    def peek(self) -> str:
        """Return the next character after spaces, or an empty text at the end."""
        while True:
            match = _SPACE.match(self._buffer, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._more():
                return ""

    def _take(self, expected: str) -> str:
        char = self.peek()
        if not char or char not in expected:
            raise self._wrong(f"expecting {' or '.join(repr(c) for c in expected)}", self._at)
        self._at += 1
        return char

    def _more(self) -> bool:
        """Read more into the buffer; False at the end of the stream."""
        if self._ended:
            return False
        rest = self._buffer[self._at :]
        # As much again as is left: a piece of any length is scanned only a few times.
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
