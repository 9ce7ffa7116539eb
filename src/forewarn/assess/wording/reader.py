"""Who reads: the words for somebody's own jobs are others than those for another's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of what is said about a user's jobs."""

    owner: str | None = None  # whose jobs they are; None: the reader's own

    @classmethod
    def of(cls, owner: str | None, viewer: str | None) -> Reader:
        """A viewer of somebody's jobs; who is not known is taken for their owner.

        >>> Reader.of("alice", "bob").whose, Reader.of("alice", "alice").whose, Reader.of("alice", None).whose
        ("alice's", 'your', 'your')
        """
        return cls(None if owner is None or viewer in (None, owner) else owner)

    @property
    def whose(self) -> str:
        """As it stands before "jobs"."""
        return "your" if self.owner is None else f"{self.owner}'s"


YOU = Reader()
