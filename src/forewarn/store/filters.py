"""Filters on a record's fields, as plain data that every store can translate.

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

FilterValue = str | int | float | bool


class Filter(ABC):
    """A condition on a record."""

    __slots__ = ()

    @property
    @abstractmethod
    def fields(self) -> frozenset[str]:
        """Return the fields that the filter reads."""

    @abstractmethod
    def matches(self, record: Mapping[str, Any]) -> bool:
        """Check whether one record passes; an absent field counts as missing."""

    @abstractmethod
    def polars(self) -> pl.Expr:
        """Build an expression over the columns of a frame: true or false, never null."""

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
        """Return the fields that the filter reads."""
        return frozenset({self.field})


@dataclass(frozen=True, slots=True)
class _OfTests(Filter):
    tests: tuple[Filter, ...]

    @property
    def fields(self) -> frozenset[str]:
        """Return the fields that the filter reads."""
        return frozenset[str]().union(*(test.fields for test in self.tests))


@dataclass(frozen=True, slots=True)
class Equal(_OfField):
    """A filter that the field has this value. None equals nothing, not even a missing field."""

    value: FilterValue | None

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Check whether one record passes.

        >>> Equal("user", "ann").matches({"user": "ann"}), Equal("user", None).matches({})
        (True, False)
        """
        return self.value is not None and bool(record.get(self.field) == self.value)

    def polars(self) -> pl.Expr:
        """Build an expression over columns."""
        return _known(pl.col(self.field) == self.value) if self.value is not None else pl.lit(False)


@dataclass(frozen=True, slots=True)
class OneOf(_OfField):
    """A filter that the field has one of these values."""

    values: tuple[FilterValue, ...]

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Check whether one record passes.

        >>> OneOf("user", ("ann", "bob")).matches({"user": "bob"})
        True
        """
        return record.get(self.field) in self.values

    def polars(self) -> pl.Expr:
        """Build an expression over columns."""
        return _known(pl.col(self.field).is_in(list(self.values))) if self.values else pl.lit(False)


@dataclass(frozen=True, slots=True)
class Missing(_OfField):
    """A filter that the field has no value."""

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Check whether one record passes.

        >>> Missing("outcome").matches({"outcome": None}), (~Missing("outcome")).matches({})
        (True, False)
        """
        return record.get(self.field) is None

    def polars(self) -> pl.Expr:
        """Build an expression over columns."""
        return pl.col(self.field).is_null()


@dataclass(frozen=True, slots=True)
class Between(_OfField):
    """A filter that the field is a number from `least` to `most`, both included; None leaves an end open."""

    least: float | None = None
    most: float | None = None

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Check whether one record passes.

        >>> Between("end", 5, 7).matches({"end": 7}), Between("end", most=7).matches({"end": None})
        (True, False)
        """
        value = record.get(self.field)
        if value is None:
            return False
        return bool((self.least is None or value >= self.least) and (self.most is None or value <= self.most))

    def polars(self) -> pl.Expr:
        """Build an expression over columns."""
        ends = [] if self.least is None else [pl.col(self.field) >= self.least]
        ends += [] if self.most is None else [pl.col(self.field) <= self.most]
        return _known(pl.all_horizontal(ends)) if ends else pl.col(self.field).is_not_null()


@dataclass(frozen=True, slots=True)
class Lists(_OfField):
    """A filter that the field, a list with commas (``gpu,long``: partitions), has one of these values."""

    values: tuple[str, ...]

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Check whether one record passes.

        >>> Lists("partition", ("gpu",)).matches({"partition": "long,gpu"})
        True
        """
        value = record.get(self.field)
        return value is not None and not set(self.values).isdisjoint(value.split(","))

    def polars(self) -> pl.Expr:
        """Build an expression over columns."""
        if not self.values:
            return pl.lit(False)
        parts = pl.col(self.field).str.split(",")
        return _known(parts.list.set_intersection(list(self.values)).list.len() > 0)


@dataclass(frozen=True, slots=True)
class AllOf(_OfTests):
    """A filter that all of these filters pass; true if there are none."""

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Check whether one record passes."""
        return all(test.matches(record) for test in self.tests)

    def polars(self) -> pl.Expr:
        """Build an expression over columns."""
        return pl.all_horizontal(pl.lit(True), *(test.polars() for test in self.tests))


@dataclass(frozen=True, slots=True)
class AnyOf(_OfTests):
    """A filter that one of these filters passes; false if there are none."""

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Check whether one record passes."""
        return any(test.matches(record) for test in self.tests)

    def polars(self) -> pl.Expr:
        """Build an expression over columns."""
        return pl.any_horizontal(pl.lit(False), *(test.polars() for test in self.tests))


@dataclass(frozen=True, slots=True)
class Not(Filter):
    """A filter that another filter does not pass."""

    test: Filter

    @property
    def fields(self) -> frozenset[str]:
        """Return the fields that the filter reads."""
        return self.test.fields

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Check whether one record passes."""
        return not self.test.matches(record)

    def polars(self) -> pl.Expr:
        """Build an expression over columns."""
        return ~self.test.polars()


def _known(test: pl.Expr) -> pl.Expr:
    return test.fill_null(False)
