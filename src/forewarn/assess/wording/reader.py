"""The person who reads a text: "your jobs" for their owner, "alice's jobs" for anybody else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of texts about a user's jobs."""

    owner: str | None = None  # of the jobs; None: the reader

    @classmethod
    def of(cls, owner: str | None, viewer: str | None) -> Reader:
        """Create the reader for a viewer of somebody's jobs; an unknown viewer is taken for their owner.

        >>> Reader.of("alice", "bob").whose, Reader.of("alice", "alice").whose, Reader.of("alice", None).whose
        ("alice's", 'your', 'your')
        """
        return cls(None if owner is None or viewer in (None, owner) else owner)

    @property
    def whose(self) -> str:
        """The possessive that precedes "jobs"."""
        return "your" if self.owner is None else f"{self.owner}'s"


YOU = Reader()
