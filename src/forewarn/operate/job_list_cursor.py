"""The cursor of a list of jobs: where a page ended, as an opaque text.

It names the last job of the page by its value and key, not by its number, so that jobs that are added or that
leave do not move others to another page. It belongs to one order, one set of filters and one caller.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import polars as pl

from forewarn.errors import UsageError
from forewarn.operate.visibility import Visibility

_LONGEST = 4000  # characters of a cursor
_LARGEST = 1 << 62  # a number in a cursor
CursorValue = str | int | float | None
IS_OVER = "_is_over"  # the column of a list by which jobs come last, whatever their value


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCursor:
    """A place in a list: after the job with this value, submit, cluster and id, among those over or not."""

    order: str
    descending: bool
    is_text: bool  # whether the order is by a text
    list_hash: str  # of filters, order and caller
    place: tuple[bool, CursorValue, int, str, str] | None = None

    @classmethod
    def of(
        cls, order: str, descending: bool, visible: Visibility, which: Mapping[str, Any], *, is_text: bool
    ) -> Self:
        """Return the beginning of a list."""
        about = [
            *(order, descending, sorted(visible.users), sorted(visible.accounts), visible.sees_all),
            sorted((name, str(value)) for name, value in which.items() if value is not None),
        ]
        digest = hashlib.sha256(json.dumps(about).encode()).hexdigest()
        return cls(order=order, descending=descending, is_text=is_text, list_hash=digest[:16])

    def after(self, job: Mapping[str, Any]) -> str:
        """Return the cursor after a job, as text."""
        place = [job[IS_OVER], job[self.order], job["submit"], job["cluster"], job["job_id"]]
        text = json.dumps([self.list_hash, *place], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def at(self, text: str) -> Self:
        """Read a cursor of the same list; `UsageError` for any other text."""
        try:
            if len(text) > _LONGEST:
                raise ValueError(text)
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            list_hash, is_over, value, submit, cluster, job_id = json.loads(raw)
            (cluster + job_id).encode()
            if isinstance(value, str):
                value.encode()
            numbers = [submit] if value is None or isinstance(value, str) else [submit, value]
            if any(isinstance(n, bool) or not abs(n) < _LARGEST for n in numbers) or type(submit) is not int:
                raise ValueError(text)
            if type(is_over) is not bool:
                raise ValueError(text)
        except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError):
            raise UsageError(
                "after: not a cursor of this list; take `next` of the page before, unchanged"
            ) from None
        if list_hash != self.list_hash:
            raise UsageError(
                "after: the cursor belongs to a list with other filters or another order; begin without it"
            )
        if value is not None and isinstance(value, str) != self.is_text:
            raise UsageError("after: the cursor's value is not one of this order; begin without it")
        return replace(self, place=(is_over, value, submit, cluster, job_id))

    def follows(self) -> pl.Expr:
        """Build the test that a job comes after the place."""
        assert self.place is not None
        is_over, value, submit, cluster, job_id = self.place
        key = pl.col("submit"), pl.col("cluster"), pl.col("job_id")
        later_key = (key[0] < submit) | (
            (key[0] == submit) & ((key[1] > cluster) | ((key[1] == cluster) & (key[2] > job_id)))
        )
        column = pl.col(self.order)
        if value is None:
            later = column.is_null() & later_key
        else:
            further = column < value if self.descending else column > value
            later = column.is_null() | further | ((column == value) & later_key)
        over = pl.col(IS_OVER)
        return over & later if is_over else over | later
