"""Observations of jobs, nodes, partitions, usage and programs: append-only, read through views."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from forewarn.store.filters import Filter

# Through which eyes a scan looks: everything seen so far, or what had been seen at the job's own moment.
View = Literal["now", "submit", "start"]

# A column that a scan of jobs has beside the record's: see `ObservationReader.scan`.
KNOWN_AT = "known_at"


@dataclass(frozen=True, slots=True)
class WriteCounts:
    """Counts of what a write did with a frame of observations."""

    new: int  # observations added
    same: int  # already there, equal in every field: nothing changed
    conflicts: pl.DataFrame  # rows (with their `line`) that contradict another row of the same file
    barred: int = 0  # records of erased users, which are not stored


class ObservationReader(ABC):
    """The reading side of observations: for any caller, at any time, from any thread.

    Nothing travels a row at a time: what is many is a Polars frame. `UsageError` where there is no such kind,
    column or view.
    """

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
        where: Filter | None = None,
        rows: int = 1_000_000,
    ) -> Iterator[pl.DataFrame]:
        """Yield one row per record, in frames of about `rows`, jobs in order of submit (then cluster, id).

        `since` ≤ submit < `until` for jobs and usage, and of these only `job_ids` (quick: no whole scan).
        `where` is applied to the view's rows. `columns` are the record's, perhaps `seen_at`, `source` and
        `reconstructed` of its latest observation; without them, all of the record. Jobs have one column
        more, `known_at`: when the outcome was first seen live, else end plus the configured delay; null
        while there is none. A scan sees one state of the store to its end. Through a view:

        - ``now``: each field's latest value that was seen, by (seen_at, order of writing); of an outcome
          `failed` the more exact outcome (`job/step_outcomes.py`), whenever it was seen;
        - ``submit``, ``start``: the same over observations with `seen_at` up to that moment of the job
          (start: submit for jobs that have not started); where there is none, its earliest observation.
          What a job was given is, at start, what was first seen of it, since whoever looks looks later.
          Times, result and use (from `eligible` on in `Job`) are those of ``now`` in every view: they
          carry their own moments, and features ask for them by moment.
        """

    @abstractmethod
    def scan_views(
        self,
        columns: Mapping[View, Sequence[str]],
        *,
        cluster: str | None = None,
        rows: int = 1_000_000,
    ) -> Iterator[Mapping[View, pl.DataFrame]]:
        """Scan jobs through several views in one pass; `columns` lists the columns of each view.

        The frames are those of one `scan` for each view, as of one state of the store; row by row they are of
        the same jobs.
        """

    @abstractmethod
    def observations(self, kind: str, key: Mapping[str, Any]) -> pl.DataFrame:
        """Return every observation whose columns equal `key`, in the order they were seen.

        `key` may be part of a record's key (only `job_id`) or any other columns.
        """

    @abstractmethod
    def count(self, kind: str = "job", *, cluster: str | None = None) -> int:
        """Count records (not observations)."""

    @abstractmethod
    def revision(self, kind: str = "job", *, cluster: str | None = None) -> int:
        """Return a number that grows whenever observations of the kind are published, and only then.

        It never falls, whatever is deleted.
        """

    @abstractmethod
    def changes(self, kind: str = "job", *, cluster: str, since: int) -> tuple[pl.DataFrame, int]:
        """Return the keys of records observed after a revision, and the newest revision."""

    @abstractmethod
    def removals(self, kind: str = "job", *, cluster: str) -> int:
        """Return a number that grows whenever observations of the kind were deleted, and only then.

        Whoever keeps what was computed from them in memory computes it again when it has grown.
        """


class ObservationWriter(ABC):
    """The writing side of observations: for the collector, the stream's workers and `ingest`."""

    @abstractmethod
    def observe(self, kind: str, frame: pl.DataFrame, *, file: str | None = None) -> WriteCounts:
        """Add observations (exactly the columns of `SCHEMAS[kind]`, in any order, optionally `line`).

        Writing one that is already there changes nothing, in whatever order they arrive.
        Same key, `seen_at` and `source`: equal rows are one observation. Two rows of one `file` that
        share these and differ contradict each other: the later one is a conflict and is not written.
        So do two final records (reconstructed, of a job with an outcome) of one key and source, whatever
        their `seen_at`: it follows from the end that they claim, and a job ends once (but in the sources
        `SOURCES_OF_RUNS`, which tell of every run of a job).
        Rows of different files, or of live sources, that do so are both stored; the one seen later, then the
        one written later, is current. `UsageError` where a row lacks its key or the frame a column.
        """

    @abstractmethod
    def forget(self, kind: str, keys: pl.DataFrame) -> int:
        """Delete every observation of some records; return how many records there were.

        `keys` has the column `cluster` and others of the kind's key: of a usage sample `job_id` and `submit`
        are enough, for all samples of a job. Keys without a record are skipped. `UsageError` where it has no
        `cluster`, nothing beside it, or a column that is not part of the key.
        """

    @abstractmethod
    def thin(self, kind: str, cluster: str, before: int) -> int:
        """Delete observations seen before a time, but none on which a current row rests; return how many.

        For what has no end, nodes and partitions: who scans ``now``, or what was seen since, finds the same.
        """
