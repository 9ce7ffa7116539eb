"""Records of erased users, recognised by a keyed hash of the name; for any store."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

import polars as pl

from forewarn.errors import StoreError

KEY_BYTES = 32
# The moment that decides whether a record is of the time before the erasure, of kinds that name a user.
_MOMENTS = {"job": "submit", "program": "seen_at"}


def new_key() -> bytes:
    """Return a new secret key."""
    return secrets.token_bytes(KEY_BYTES)


def digest(key: bytes, user: str) -> bytes:
    """Return the keyed hash of a user's name.

    >>> digest(b"k", "ann") == digest(b"k", "ann"), digest(b"k", "ann") == digest(b"l", "ann")
    (True, False)
    """
    return hmac.new(key, user.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()


def load_barred(rows: Iterable[tuple[bytes, int]], key_file: Path) -> BarredUsers:
    """Return the erased users of these rows; `StoreError` without the key."""
    until = dict(rows)
    if until and not key_file.exists():
        raise no_key(key_file)
    return BarredUsers(key_file.read_bytes() if until else b"", until)


def no_key(key_file: Path) -> StoreError:
    """Return the error of a key that is gone."""
    return StoreError(
        f"{key_file}: is missing, so records of erased users cannot be recognised; restore it from a backup"
    )


class BarredUsers:
    """The erased users of a store, for the time of a write, or until somebody else is erased."""

    def __init__(self, key: bytes, until: Mapping[bytes, int]) -> None:
        self._key, self._until = key, until
        self._found: dict[str, int | None] = {}

    def without(self, kind: str, frame: pl.DataFrame) -> pl.DataFrame:
        """Remove records of erased users from before their erasure."""
        if kind not in _MOMENTS or not self._until:
            return frame
        users = frame["user"].drop_nulls().unique().to_list()
        barred = {user: until for user in users if (until := self._until_of(user)) is not None}
        if not barred:
            return frame
        limit = pl.col("user").replace_strict(barred, default=None, return_dtype=pl.Int64)
        return frame.filter((pl.col(_MOMENTS[kind]) < limit).fill_null(False).not_())

    def without_assessments(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Remove assessments of such jobs: whoever computed them had read the job before the erasure."""
        if not self._until:
            return frame
        rows = frame.select("submit", "body").iter_rows()
        others = [not self.includes(_user_of(body), submit) for submit, body in rows]
        return frame.filter(pl.Series(others, dtype=pl.Boolean))

    def includes(self, user: str | None, moment: int | None) -> bool:
        """Check whether a record of a user is of the time before the user's erasure, or of an unknown one."""
        until = None if user is None or not self._until else self._until_of(user)
        return until is not None and (moment is None or moment < until)

    def _until_of(self, user: str) -> int | None:
        if user not in self._found:
            self._found[user] = self._until.get(digest(self._key, user))
        return self._found[user]


def _user_of(body: str | None) -> str | None:
    value = json.loads(body) if body else None
    return value.get("user") if isinstance(value, dict) else None
