"""A reader of FlatBuffers, the format of CatBoost's files.

A table begins with the distance back to its list of fields. An entry of that list is the offset of the
field's value from the table, or 0 if the field has its default. All numbers are little-endian
(https://flatbuffers.dev/internals).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import unpack_from
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class FlatTable:
    """A table in a buffer. Its fields are numbered in the order of the schema.

    Methods raise `struct.error` or `ValueError` for an offset outside of the buffer.
    """

    data: bytes
    place: int

    @classmethod
    def root(cls, data: bytes) -> FlatTable:
        """Return the root table of a buffer."""
        return cls(data, unpack_from("<I", data, 0)[0])

    def number(self, field: int, form: str, default: float) -> float:
        """Read one number; `form` is a format character of `struct`."""
        place = self._field(field)
        return float(unpack_from(f"<{form}", self.data, place)[0]) if place else default

    def numbers(self, field: int, dtype: str) -> NDArray[Any]:
        """Read an array of numbers."""
        place, count = self._vector(field)
        return np.frombuffer(self.data, f"<{dtype}", count, place) if count else np.empty(0, f"<{dtype}")

    def text(self, field: int) -> str:
        """Read a string."""
        place, count = self._vector(field)
        return self.data[place : place + count].decode(errors="replace")

    def table(self, field: int) -> FlatTable:
        """Read a nested table."""
        place = self._field(field)
        if not place:
            raise ValueError(f"no table in field {field}")
        return self._at(place)

    def tables(self, field: int) -> Iterator[FlatTable]:
        """Read an array of tables."""
        place, count = self._vector(field)
        return (self._at(place + 4 * number) for number in range(count))

    def count(self, field: int) -> int:
        """Count the entries of an array."""
        return self._vector(field)[1]

    def _at(self, place: int) -> FlatTable:
        return FlatTable(self.data, place + unpack_from("<I", self.data, place)[0])

    def _vector(self, field: int) -> tuple[int, int]:
        place = self._field(field)
        if not place:
            return 0, 0
        place += unpack_from("<I", self.data, place)[0]
        return place + 4, unpack_from("<I", self.data, place)[0]

    def _field(self, field: int) -> int:
        fields = self.place - unpack_from("<i", self.data, self.place)[0]
        if fields < 0 or self.place < 0:
            raise ValueError("a table outside of the file")
        if 4 + 2 * field >= unpack_from("<H", self.data, fields)[0]:
            return 0
        offset = unpack_from("<H", self.data, fields + 4 + 2 * field)[0]
        return self.place + offset if offset else 0
