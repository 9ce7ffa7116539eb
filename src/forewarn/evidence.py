"""Evidence: a stable code with its values. Words are made of it in one place, `assess/wording`.

Logic states what it found as a code and raw values (seconds, bytes, shares); it builds no sentence. Each
subject lists its codes in an enumeration of its own, so that a code that has no words cannot be stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Scalar = str | int | float | bool | None
Value = Scalar | tuple[Scalar, ...]
Values = Mapping[str, Value]


class Code(StrEnum):
    """The base of all enumerations of codes. A code stands in one of them only."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One piece of evidence."""

    code: Code
    values: Values = field(default_factory=dict, hash=False)
