"""Evidence: a stable code with its values, turned into English in one place, `assess/wording`.

Logic states its result as a code and raw values (seconds, bytes, shares) and builds no sentences. Each
subject lists its codes in an enumeration of its own, so that no code without an English text can be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from forewarn.quick_init import quick_init

Scalar = str | int | float | bool | None
Value = Scalar | tuple[Scalar, ...]
Values = Mapping[str, Value]


class Code(StrEnum):
    """The base of all enumerations of codes. Each code is a member of exactly one."""


@quick_init
@dataclass(frozen=True, slots=True)
class Statement:
    """One piece of evidence: a code and its values."""

    code: Code
    values: Values = field(default_factory=dict, hash=False)
