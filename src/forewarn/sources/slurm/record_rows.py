"""Rows of records, read one by one with a table of fields until they are enough for a frame."""

from __future__ import annotations

from typing import Any

import polars as pl

from forewarn.sources.slurm.record_values import Fields


class RecordRows:
    """Rows of one kind of record, collected for a frame."""

    def __init__(self, fields: Fields, schema: dict[str, pl.DataType]) -> None:
        self._names = [name if isinstance(name, tuple) else (name,) for name in fields]
        self._together = [isinstance(name, tuple) for name in fields]
        self._readers = list(fields.values())
        self._schema = schema
        self._rows: list[list[Any]] = []
        self._lines: list[int] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, record: Any, line: int) -> tuple[str, str] | None:
        """Add a record; return the wrong field and the reason if it is none."""
        try:
            self._rows.append([read(record) for read in self._readers])
        except (ValueError, TypeError, AttributeError, KeyError, IndexError, OverflowError):
            return self._explained(record)
        self._lines.append(line)
        return None

    def _explained(self, record: Any) -> tuple[str, str]:
        if not isinstance(record, dict):
            return "record", f"not an object: {record!r:.80}"
        for names, read in zip(self._names, self._readers, strict=True):
            try:
                read(record)
            except ValueError as error:
                return names[0], str(error)
            except (TypeError, AttributeError, KeyError, IndexError, OverflowError) as error:
                return names[0], f"unknown shape ({type(error).__name__}: {error})"
        raise AssertionError("a record that is wrong as a whole and right in every field")

    def flush(self) -> pl.DataFrame:
        """Return the rows so far as a frame with `line`, and start over."""
        columns: dict[str, pl.Series] = {"line": pl.Series(self._lines, dtype=pl.Int64)}
        values = zip(*self._rows, strict=True) if self._rows else ((),) * len(self._names)
        for names, together, column in zip(self._names, self._together, values, strict=True):
            parts = (zip(*column, strict=True) if column else ((),) * len(names)) if together else (column,)
            for name, part in zip(names, parts, strict=True):
                columns[name] = _series(part, self._schema.get(name, pl.Int64()))
        self._rows, self._lines = [], []
        return pl.DataFrame(columns)


def _series(values: tuple[Any, ...], dtype: pl.DataType) -> pl.Series:
    try:
        return pl.Series(values, dtype=dtype)
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can write it, UTF-8 cannot
        clean = (v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for v in values)
        return pl.Series(list(clean), dtype=dtype)
