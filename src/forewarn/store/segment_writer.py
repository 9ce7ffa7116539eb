"""Adding of observations to segments: finding new ones, numbering them, keeping segments few.

For any store that keeps segments: its writer has one `SegmentWriter` for the time of a write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

from forewarn.errors import UsageError
from forewarn.job.columns import KEYS, OBSERVATION_COLUMNS, SCHEMAS
from forewarn.store import compaction, segments
from forewarn.store.barred_users import BarredUsers
from forewarn.store.contract.observations import WriteCounts
from forewarn.store.deduplicate import (
    BatchComparison,
    Mask,
    MatchedRows,
    NamedObservations,
    compare_batch,
    equal_rows,
    identity,
)
from forewarn.store.forgetting import check_keys, without_old, without_records
from forewarn.store.segments import TIME, WRITTEN, Segment, Segments, check_kind

Tally = Callable[[str, str, int], None]  # kind, cluster, how many records are new (less than 0: deleted)
Removed = Callable[[str, str, int], None]  # kind, cluster, number of the newest observation in what changed


class SegmentWriter:
    """The observations of one write.

    `stored` are the segments as the writer sees them, including what it has staged; `written` is the number
    of the newest observation there ever was; `tally` is called with new records of kinds that are counted as
    they arrive, `removed` after each deletion. `barred` loads the erased users at the first observation.
    """

    def __init__(
        self,
        stored: Segments,
        written: int,
        *,
        tally: Tally,
        removed: Removed,
        barred: Callable[[], BarredUsers],
    ) -> None:
        self._stored, self._written = stored, written
        self._tally, self._removed, self._load_barred = tally, removed, barred
        self._barred: BarredUsers | None = None
        self._segments: dict[tuple[str, str], list[Segment]] = {}
        self._named: dict[str, NamedObservations] = {}

    def observe(self, kind: str, frame: pl.DataFrame, *, file: str | None = None) -> WriteCounts:
        """Add observations: see the contract."""
        check_kind(kind)
        _check_schema(frame, kind)
        for name in (*KEYS[kind], *OBSERVATION_COLUMNS):
            if frame[name].null_count():
                raise UsageError(f"a {kind} without {name} cannot be stored")
        if self._barred is None:
            self._barred = self._load_barred()
        before, frame = frame.height, self._barred.without(kind, frame)
        barred = before - frame.height
        named = None if file is None else self._named.setdefault(file, NamedObservations())
        new, conflicts = 0, [frame.clear()]
        for batch in frame.partition_by("cluster", maintain_order=True):
            comparison = self._observe(kind, batch["cluster"][0], batch, named)
            new += int(comparison.new.sum())
            conflicts.append(batch.filter(pl.Series(comparison.conflict)))
        contradicting = pl.concat(conflicts)
        return WriteCounts(new, frame.height - new - contradicting.height, contradicting, barred)

    def bar_again(self) -> None:
        """Load the erased users again, after one more."""
        self._barred = None

    def forget(self, kind: str, keys: pl.DataFrame) -> int:
        """Delete every observation of some records: see the contract."""
        check_keys(kind, keys)
        count = 0
        for of_cluster in keys.unique().partition_by("cluster"):
            cluster = of_cluster["cluster"][0]
            found = self._found(kind, cluster)
            gone = [pl.DataFrame(schema={name: SCHEMAS[kind][name] for name in KEYS[kind]})]
            for segment, rest, records in without_records(self._stored, list(found), of_cluster):
                self._replace(found, segment, rest)
                gone.append(records)
            self._merge_small(found)
            records = pl.concat(gone).unique()
            if records.height and TIME[kind] in KEYS[kind]:
                self._tally(kind, cluster, -records.height)
            count += records.height
        return count

    def thin(self, kind: str, cluster: str, before: int) -> int:
        """Delete observations seen before a time on which no current row rests: see the contract."""
        check_kind(kind)
        if TIME[kind] != "seen_at":
            raise UsageError(f"{kind}s are deleted as a whole, by their keys, and not thinned")
        found, count = self._found(kind, cluster), 0
        for segment, rest, gone in without_old(self._stored, list(found), before):
            self._replace(found, segment, rest)
            count += gone
        self._merge_small(found)
        return count

    def _replace(self, found: list[Segment], segment: Segment, rest: pl.DataFrame) -> None:
        """Put what is left of a segment in its place."""
        found.remove(segment)
        self._stored.drop([segment])
        self._removed(segment.kind, segment.cluster, segment.last_written)
        if rest.height:
            found += self._stored.add(segment.kind, segment.cluster, rest)

    def _merge_small(self, found: list[Segment]) -> None:
        while due := compaction.small_ones(found):
            self._rewrite(found, due)

    def _observe(
        self, kind: str, cluster: str, batch: pl.DataFrame, named: NamedObservations | None
    ) -> BatchComparison:
        pairs, known = self._matches(kind, cluster, batch)
        comparison = compare_batch(batch, kind, pairs, named)
        added = batch.filter(pl.Series(comparison.new)).select(*SCHEMAS[kind])
        first = self._written + 1
        if named is not None:
            named.add(comparison.named)
            named.add(np.arange(first, first + added.height))
        if added.is_empty():
            return comparison
        if TIME[kind] in KEYS[kind]:
            unknown = batch.filter(pl.Series(comparison.new & ~known)).select(KEYS[kind]).n_unique()
            self._tally(kind, cluster, unknown)
        added = added.with_columns(pl.int_range(first, first + pl.len()).alias(WRITTEN))
        self._written += added.height
        found = self._found(kind, cluster)
        found += self._stored.add(kind, cluster, added)
        self._merge_small(found)
        return comparison

    def _found(self, kind: str, cluster: str) -> list[Segment]:
        if (kind, cluster) not in self._segments:
            self._segments[kind, cluster] = self._stored.listed(kind, cluster)
        return self._segments[kind, cluster]

    def _rewrite(self, found: list[Segment], due: list[Segment]) -> None:
        gone = {segment.id for segment in due}
        found[:] = [segment for segment in found if segment.id not in gone]
        found += compaction.rewrite(self._stored, due)

    def _matches(self, kind: str, cluster: str, batch: pl.DataFrame) -> tuple[MatchedRows, Mask]:
        """Find stored observations with a row's identity, and the rows whose records are already stored."""
        # A segment holds one cluster only: no need to compare that.
        key = [name for name in KEYS[kind] if name != "cluster"]
        same = {name: value for name, value in identity(kind).items() if name != "cluster"}
        needed = dict.fromkeys(root for value in same.values() for root in value.meta.root_names())
        time = TIME[kind]
        rows = batch.select(**(same | {time: pl.col(time)})).with_row_index("_row")
        known = np.zeros(batch.height, bool)
        pairs: list[MatchedRows] = []
        for segment in _overlapping(self._found(kind, cluster), kind, batch):
            here = rows.filter(pl.col(time).is_between(segment.first_time, segment.last_time))
            at_these_times = pl.col(time).is_in(here[time].unique().implode())
            data = self._stored.loaded(segment)
            stored = segments.unpacked(data, kind, [*needed, WRITTEN], at_these_times)
            stored = stored.select(WRITTEN, **same).with_row_index("_at")
            known[here.join(stored, on=key, how="semi")["_row"].to_numpy()] = True
            both = here.join(stored, on=list(same))
            if both.height:
                whole = segments.unpacked(data, kind, where=at_these_times)[both["_at"]]
                equal = equal_rows(batch[both["_row"]], whole, kind)
                pairs.append(
                    MatchedRows(both["_row"].to_numpy().astype(np.int64), both[WRITTEN].to_numpy(), equal)
                )
        return MatchedRows.joined(pairs), known

    def finish(self) -> None:
        """Complete the write so that it can be published."""
        for found in self._segments.values():
            if crowded := compaction.crowded_ones(found):
                self._rewrite(found, crowded)


def _check_schema(frame: pl.DataFrame, kind: str) -> None:
    """Raise if a frame does not have the full schema, which its source must complete."""
    schema, found = SCHEMAS[kind], frame.schema  # once: polars makes it anew for each who asks
    wrong = [name for name, dtype in schema.items() if found.get(name) != dtype]
    wrong += [name for name in found if name not in schema and name != "line"]
    if wrong:
        raise UsageError(
            f"columns that are missing, unknown or of another type: {', '.join(wrong)}; "
            f"job.columns.complete makes observations of a {kind} of a frame"
        )


def _overlapping(found: list[Segment], kind: str, batch: pl.DataFrame) -> Iterator[Segment]:
    """Find segments that may hold rows of the batch."""
    times = np.sort(batch[TIME[kind]].to_numpy())
    lowest, highest = segments.number_range(batch)
    for segment in found:
        # An old job among new ones must not open all segments between.
        after = np.searchsorted(times, segment.last_time, side="right")
        if np.searchsorted(times, segment.first_time) == after:
            continue
        if lowest is not None and highest is not None and segment.first_number is not None:
            assert segment.last_number is not None
            if segment.last_number < lowest or segment.first_number > highest:
                continue
        yield segment
