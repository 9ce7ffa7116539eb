"""Which jobs a caller may see: their own, those of some accounts, or all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

# A figure about jobs of others is over at least so many of their users.
FEWEST_USERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """The jobs that a caller may see: of these users, or of these accounts. By default none.

    >>> Visibility(users=frozenset({"ann"})).sees("ann", None), Visibility.everything().sees(None, None)
    (True, True)
    """

    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    sees_all: bool = False

    @classmethod
    def everything(cls) -> Visibility:
        """Return the visibility of helpers, operators and administrators."""
        return cls(sees_all=True)

    @classmethod
    def of(cls, users: Iterable[str] = (), accounts: Iterable[str] = ()) -> Visibility:
        """Return the visibility of a user or a coordinator."""
        return cls(users=frozenset(users), accounts=frozenset(accounts))

    def sees(self, user: str | None, account: str | None) -> bool:
        """Check whether a job of this user and account may be seen."""
        return self.sees_all or user in self.users or account in self.accounts

    def polars(self) -> pl.Expr:
        """Build the same test over the columns `user` and `account`: true or false, never null."""
        if self.sees_all:
            return pl.lit(True)
        tests = (
            pl.col(name).is_in(sorted(names)).fill_null(False)
            for name, names in (("user", self.users), ("account", self.accounts))
            if names
        )
        return pl.any_horizontal(pl.lit(False), *tests)


EVERYTHING = Visibility.everything()
