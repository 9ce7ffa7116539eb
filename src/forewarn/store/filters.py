"""Tests of a record's fields, as plain data: what a scan is asked for, in words that every store understands.

    Equal("user", "ann") & ~Missing("outcome") & Between("end", 100, 200)

A test is a frozen dataclass of names, texts and numbers, so that a store can translate it into its own
language: `polars` does so for columns, the table in docs/adding-a-store.md for MongoDB. `matches` says what
is meant, of one record at a time.

A test is true or false, never unknown: of a missing field only `Missing` is true, and `~` turns that round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

Value = str | int | float | bool


class Filter(ABC):
    """A test of a record."""

    __slots__ = ()

    @property
    @abstractmethod
    def fields(self) -> frozenset[str]:
        """The fields that are looked at."""

    @abstractmethod
    def matches(self, record: Mapping[str, Any]) -> bool:
        """Tell whether one record passes; a field that it has not is missing."""

    @abstractmethod
    def polars(self) -> pl.Expr:
        """Make an expression over the columns of a frame of it: true or false, never null."""

    def __and__(self, other: Filter) -> Filter:
        return AllOf((self, other))

    def __or__(self, other: Filter) -> Filter:
        return AnyOf((self, other))

    def __invert__(self) -> Filter:
        return Not(self)


@dataclass(frozen=True, slots=True)
class _OfField(Filter):
    field: str

    @property
    def fields(self) -> frozenset[str]:
        """The fields that are looked at."""
        return frozenset({self.field})


@dataclass(frozen=True, slots=True)
class _OfTests(Filter):
    tests: tuple[Filter, ...]

    @property
    def fields(self) -> frozenset[str]:
        """The fields that are looked at."""
        return frozenset[str]().union(*(test.fields for test in self.tests))


@dataclass(frozen=True, slots=True)
class Equal(_OfField):
    """The field has this value. None equals nothing, not even a field that is missing."""

    value: Value | None

    def matches(self, record: Mapping[str, Any]) -> bool:
        """
        >>> Equal("user", "ann").matches({"user": "ann"}), Equal("user", None).matches({})
        (True, False)
        """
        return self.value is not None and bool(record.get(self.field) == self.value)

    def polars(self) -> pl.Expr:
        """An expression over columns."""
        return _known(pl.col(self.field) == self.value) if self.value is not None else pl.lit(False)


@dataclass(frozen=True, slots=True)
class OneOf(_OfField):
    """The field has one of these values."""

    values: tuple[Value, ...]

    def matches(self, record: Mapping[str, Any]) -> bool:
        """
        >>> OneOf("user", ("ann", "bob")).matches({"user": "bob"})
        True
        """
        return record.get(self.field) in self.values

    def polars(self) -> pl.Expr:
        """An expression over columns."""
        return _known(pl.col(self.field).is_in(list(self.values))) if self.values else pl.lit(False)


@dataclass(frozen=True, slots=True)
class Missing(_OfField):
    """The field has no value."""

    def matches(self, record: Mapping[str, Any]) -> bool:
        """
        >>> Missing("outcome").matches({"outcome": None}), (~Missing("outcome")).matches({})
        (True, False)
        """
        return record.get(self.field) is None

    def polars(self) -> pl.Expr:
        """An expression over columns."""
        return pl.col(self.field).is_null()


@dataclass(frozen=True, slots=True)
class Between(_OfField):
    """The field is a number from `least` to `most`, both included; an end that is None is open."""

    least: float | None = None
    most: float | None = None

    def matches(self, record: Mapping[str, Any]) -> bool:
        """
        >>> Between("end", 5, 7).matches({"end": 7}), Between("end", most=7).matches({"end": None})
        (True, False)
        """
        value = record.get(self.field)
        if value is None:
            return False
        return bool((self.least is None or value >= self.least) and (self.most is None or value <= self.most))

    def polars(self) -> pl.Expr:
        """An expression over columns."""
        ends = [] if self.least is None else [pl.col(self.field) >= self.least]
        ends += [] if self.most is None else [pl.col(self.field) <= self.most]
        return _known(pl.all_horizontal(ends)) if ends else pl.col(self.field).is_not_null()


@dataclass(frozen=True, slots=True)
class Lists(_OfField):
    """The field is a list with commas (``gpu,long``: partitions), and one of these values is in it."""

    values: tuple[str, ...]

    def matches(self, record: Mapping[str, Any]) -> bool:
        """
        >>> Lists("partition", ("gpu",)).matches({"partition": "long,gpu"})
        True
        """
        value = record.get(self.field)
        return value is not None and not set(self.values).isdisjoint(value.split(","))

    def polars(self) -> pl.Expr:
        """An expression over columns."""
        if not self.values:
            return pl.lit(False)
        parts = pl.col(self.field).str.split(",")
        return _known(parts.list.set_intersection(list(self.values)).list.len() > 0)


@dataclass(frozen=True, slots=True)
class AllOf(_OfTests):
    """Every one of these tests is true; also where there is none."""

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Tell whether one record passes."""
        return all(test.matches(record) for test in self.tests)

    def polars(self) -> pl.Expr:
        """An expression over columns."""
        return pl.all_horizontal(pl.lit(True), *(test.polars() for test in self.tests))


@dataclass(frozen=True, slots=True)
class AnyOf(_OfTests):
    """One of these tests is true; not where there is none."""

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Tell whether one record passes."""
        return any(test.matches(record) for test in self.tests)

    def polars(self) -> pl.Expr:
        """An expression over columns."""
        return pl.any_horizontal(pl.lit(False), *(test.polars() for test in self.tests))


@dataclass(frozen=True, slots=True)
class Not(Filter):
    """The test is false."""

    test: Filter

    @property
    def fields(self) -> frozenset[str]:
        """The fields that are looked at."""
        return self.test.fields

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Tell whether one record passes."""
        return not self.test.matches(record)

    def polars(self) -> pl.Expr:
        """An expression over columns."""
        return ~self.test.polars()


def _known(test: pl.Expr) -> pl.Expr:
    return test.fill_null(False)
