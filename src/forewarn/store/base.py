"""The contract of a store: where observations, online state, assessments and facts are kept.

It has five parts, by what they keep: observations, online state, assessments, facts and cursors, erased
users (`store/contract/`). `Store` reads all of them and is the door to writing, `StoreWriter` writes them.

- **Staged, then published.** What is written inside `writing()` is staged: no reader sees it. It becomes
  visible, all of it together, when the block ends, and no crash loses it after that. A block that fails, or a
  process that dies in it, leaves nothing visible. Publishing again what is published changes nothing, so who
  finds a write of a process that died after publishing may finish it. No store needs a transaction over all
  that it keeps for it: see docs/adding-a-store.md.
- **One writes, many read.** Readers never wait for the writer. A second writer waits, then gets
  `StoreBusyError`. Who may hold on to writing in which deployment: docs/architecture.md.

Each store passes `tests/store/contract.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import Self

from forewarn.store.contract.assessments import (
    ASSESSMENT_KEY,
    ASSESSMENT_SCHEMA,
    NUMBERED_SCHEMA,
    AssessmentReader,
    AssessmentWriter,
)
from forewarn.store.contract.erasure import ErasureReader, ErasureWriter
from forewarn.store.contract.facts import ClusterFacts, FactReader, FactWriter
from forewarn.store.contract.observations import (
    KNOWN_AT,
    ObservationReader,
    ObservationWriter,
    View,
    WriteCounts,
)
from forewarn.store.contract.state import StateReader, StateWriter

__all__ = [
    "ASSESSMENT_KEY",
    "ASSESSMENT_SCHEMA",
    "KNOWN_AT",
    "NUMBERED_SCHEMA",
    "ClusterFacts",
    "Store",
    "StoreWriter",
    "View",
    "WriteCounts",
]


class StoreWriter(ObservationWriter, StateWriter, AssessmentWriter, FactWriter, ErasureWriter):
    """The writing side, valid inside `Store.writing()` for the thread that began the write."""


class Store(ObservationReader, StateReader, AssessmentReader, FactReader, ErasureReader):
    """The reading side, and the way to begin a write. Any number of threads may use one store at once."""

    @property
    @abstractmethod
    def may_write(self) -> bool:
        """Whether `writing` is allowed: False if the store was opened read-only."""

    @property
    @abstractmethod
    def allows_many_writers(self) -> bool:
        """Whether several long-running processes, even on several machines, may write observations.

        Where it is False one process does; what others write in short (a command) waits for its turn.
        """

    @abstractmethod
    def writing(self) -> AbstractContextManager[StoreWriter]:
        """Begin a write: staged inside the block, published at its end, dropped if the block fails.

        `StoreError` where the store was opened for reading only, `StoreBusyError` where another one writes
        and does not end in time.
        """

    @abstractmethod
    def claim(self, name: str) -> AbstractContextManager[object] | None:
        """Claim a name for this process; None if this or another process holds it already.

        It is held from this call to the end of the block of what is returned, and free again at once when the
        process dies, however that happens. Long-running processes agree by it on who does what only one may
        do (``state alps``: who saves the online state of a cluster). `StoreError` where the store was opened
        for reading only.
        """

    @abstractmethod
    def reclaim(self, *, wipe: bool = False) -> int:
        """Give the disk space of what was deleted back to the system; return how many bytes.

        With `wipe`, nothing that was deleted can be read from the store's files afterwards, which takes
        longer. Readers go on; a writer may have to wait.
        """

    @abstractmethod
    def close(self) -> None:
        """Release files and connections; reads that other threads have begun run to their end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
