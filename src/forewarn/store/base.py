"""The contract of a store: where what was seen is kept.

- **Observations** are append-only. Writing one that is already there changes nothing, whatever order
  files and live sightings arrive in. `scan` looks at them through a view: as things are known now, or
  as they had been seen by each job's submit or start.
- **One writer, many readers.** A write happens inside `writing()`: all of it or nothing, and it is
  acknowledged when the block ends; after that no crash loses it. Readers never wait for the writer and
  see the last acknowledged state. A second writer waits, then gets `StoreBusyError`.
- **Nothing a row at a time**: what is many travels as Polars frames.

Each store passes `tests/store/contract.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import polars as pl

# Through which eyes a scan looks: everything seen so far, or what had been seen at the job's own moment.
View = Literal["now", "submit", "start"]

# Columns that a scan of jobs has beside the record's: see `Store.scan`.
KNOWN_AT = "known_at"


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What is known of a cluster as a whole."""

    timezone: str = "UTC"
    fields: Mapping[str, Any] = field(default_factory=dict)  # field policies: see features/absence.py


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a frame of observations."""

    new: int  # observations added
    same: int  # already there, equal in every field: nothing changed
    conflicts: pl.DataFrame  # rows (with their `line`) that contradict another row of the same file


class Writer(ABC):
    """The writing side, valid inside `Store.writing()`."""

    @abstractmethod
    def observe(self, kind: str, frame: pl.DataFrame, *, file: str | None = None) -> Written:
        """Add observations (columns of `SCHEMAS[kind]`, perhaps `line`).

        Same key, `seen_at` and `source`: equal rows are one observation. Two rows of one `file` that
        share these and differ contradict each other: the later one is a conflict and is not written.
        So do two final records (reconstructed, of a job with an outcome) of one key and source, whatever
        their `seen_at`: it follows from the end that they claim, and a job ends once (but in the sources
        `RUN_BY_RUN`, which tell of every run of a job).
        Rows of different files, or live sightings, that do so are both kept; the one seen later, then the
        one written later, is current.
        """

    @abstractmethod
    def describe_cluster(self, cluster: str, facts: ClusterFacts) -> None:
        """Set what is known of a cluster, over what was."""

    @abstractmethod
    def set_cursor(self, name: str, value: str) -> None:
        """Remember how far a reader of some source has come."""

    @abstractmethod
    def put_state(self, cluster: str, space: str, rows: Iterable[tuple[int, bytes]]) -> None:
        """Set online state by key within a space (entities, weights, jobs in flight, …).

        A key is a signed number of 64 bits.
        """

    @abstractmethod
    def drop_state(self, cluster: str, space: str, keys: Iterable[int] | None = None) -> None:
        """Forget online state: of some keys, or of the whole space."""

    @abstractmethod
    def predict(self, frame: pl.DataFrame) -> int:
        """Keep predictions (columns of `PREDICTION_SCHEMA`); how many were new.

        One whose key is there already takes its place: of the same second, what was said last.
        """

    @abstractmethod
    def forget_predictions(self, cluster: str, before: int) -> int:
        """Remove a cluster's predictions that were made before a moment; how many."""


class Store(ABC):
    """The reading side, and the door to writing."""

    @property
    @abstractmethod
    def may_write(self) -> bool:
        """Whether `writing` is allowed: not where it was opened for reading only."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Writer]:
        """One all-or-nothing write."""

    @abstractmethod
    def scan(
        self,
        kind: str = "job",
        *,
        view: View = "now",
        cluster: str | None = None,
        since: int | None = None,
        until: int | None = None,
        job_ids: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        where: pl.Expr | None = None,
        rows: int = 1_000_000,
    ) -> Iterator[pl.DataFrame]:
        """One row per record, in frames of about `rows`, jobs in order of submit (then cluster, id).

        `since` ≤ submit < `until` for jobs and usage, and of these only `job_ids` (quick: no whole scan).
        `where` is applied to the view's rows. `columns` are the record's, perhaps `seen_at`, `source` and
        `reconstructed` of its latest observation; without them, all of the record. Jobs have one column
        more, `known_at`: when the outcome was first seen live, else end plus the configured delay; null
        while there is none. A scan sees one state of the store to its end. Through a view:

        - ``now``: each field's latest value that was seen, by (seen_at, order of writing); of an outcome
          `failed` what was told more exactly (`job/step_outcomes.py`), whenever that was;
        - ``submit``, ``start``: the same over observations with `seen_at` up to that moment of the job
          (start: submit for jobs that have not started); where there is none, its earliest observation.
          What a job was given is, at start, what was first seen of it, since whoever looks looks later.
          Times, result and use (from `eligible` on in `Job`) are those of ``now`` in every view: they
          carry their own moments, and features ask for them by moment.
        """

    @abstractmethod
    def observations(self, kind: str, key: Mapping[str, Any]) -> pl.DataFrame:
        """Every observation whose columns equal `key`, in the order they were seen.

        `key` may be part of a record's key (only `job_id`) or any other columns.
        """

    @abstractmethod
    def count(self, kind: str = "job", *, cluster: str | None = None) -> int:
        """How many records (not observations) there are."""

    @abstractmethod
    def revision(self, kind: str = "job", *, cluster: str | None = None) -> int:
        """A number that grows whenever observations of the kind are added, and else stays."""

    @abstractmethod
    def changes(self, kind: str = "job", *, cluster: str, since: int) -> tuple[pl.DataFrame, int]:
        """The keys of the records that were observed anew after a revision, and the revision up to which."""

    @abstractmethod
    def clusters(self) -> dict[str, ClusterFacts]:
        """The clusters that have been described."""

    @abstractmethod
    def cursor(self, name: str) -> str | None:
        """How far a reader had come."""

    @abstractmethod
    def get_state(self, cluster: str, space: str, keys: Sequence[int]) -> dict[int, bytes]:
        """The online state of these keys, those that have one."""

    @abstractmethod
    def all_state(self, cluster: str, space: str) -> Iterator[tuple[int, bytes]]:
        """All online state of a space: for the one writer, when it starts."""

    @abstractmethod
    def predictions(
        self,
        *,
        cluster: str | None = None,
        since: int | None = None,
        until: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pl.DataFrame:
        """Predictions made in [since, until), in that order: all columns, or these."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# One prediction: its key is the job, the phase, the model, and when it was made.
PREDICTION_KEY = ("cluster", "job_id", "submit", "phase", "model", "made_at")
PREDICTION_SCHEMA: Mapping[str, pl.DataType] = {
    "cluster": pl.String(),
    "job_id": pl.String(),
    "submit": pl.Int64(),
    "phase": pl.String(),
    "model": pl.String(),
    "made_at": pl.Int64(),
    "probability": pl.Float64(),
    "threshold": pl.Float64(),
    "detail": pl.String(),  # JSON: causes, reasons, routing
}
