"""Erased users: their records do not come back when accounting or a file is read again."""

from __future__ import annotations

from abc import ABC, abstractmethod

from forewarn.store.barred_users import BarredUsers


class ErasureReader(ABC):
    """The reading side of erased users: whose they are cannot be read."""

    @abstractmethod
    def barred_users(self) -> int:
        """Count the users whose earlier records are refused."""

    @abstractmethod
    def erasures(self) -> int:
        """Return how often `bar_user` was called: running processes see by it that somebody was erased."""

    @abstractmethod
    def load_barred_users(self) -> BarredUsers:
        """Return what recognises records of erased users; `StoreError` where its key is missing."""


class ErasureWriter(ABC):
    """The writing side of erased users: for the command that erases one."""

    @abstractmethod
    def bar_user(self, user: str, until: int) -> None:
        """Refuse records of a user from before a time from now on: `observe` drops them and counts them.

        These are jobs submitted and programs seen before `until`; a later time replaces an earlier one. The
        name is not stored, only a hash with a secret key that readers of the store cannot read.
        """
