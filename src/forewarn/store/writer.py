"""The writing side of the embedded store: one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl

from forewarn.errors import StoreError, UsageError
from forewarn.job.columns import KEYS, SCHEMAS, SEEN, complete
from forewarn.store import segments, tidy
from forewarn.store.base import PREDICTION_KEY, PREDICTION_SCHEMA, ClusterFacts, Writer, Written
from forewarn.store.sameness import Claims, Mask, Pairs, Verdict, equal_rows, identity, judge
from forewarn.store.segments import TIME, WRITTEN, Segment, check_kind


class EmbeddedWriter(Writer):
    """Writes into an open transaction; who opened that ends it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._open: sqlite3.Connection | None = connection
        self._segments: dict[tuple[str, str], list[Segment]] = {}
        self._claims: dict[str, Claims] = {}
        (self._written,) = connection.execute("SELECT coalesce(max(last_written), 0) FROM segment").fetchone()

    def observe(self, kind: str, frame: pl.DataFrame, *, file: str | None = None) -> Written:
        """Add observations: see the contract."""
        check_kind(kind)
        frame = complete(frame, kind)
        for name in (*KEYS[kind], *SEEN):
            if frame[name].null_count():
                raise UsageError(f"a {kind} without {name} cannot be kept")
        claims = None if file is None else self._claims.setdefault(file, Claims())
        new, conflicts = 0, [frame.clear()]
        for batch in frame.partition_by("cluster", maintain_order=True):
            verdict = self._observe(kind, batch["cluster"][0], batch, claims)
            new += int(verdict.new.sum())
            conflicts.append(batch.filter(pl.Series(verdict.conflict)))
        contradicting = pl.concat(conflicts)
        return Written(new, frame.height - new - contradicting.height, contradicting)

    def _observe(self, kind: str, cluster: str, batch: pl.DataFrame, claims: Claims | None) -> Verdict:
        pairs, known = self._matches(kind, cluster, batch)
        verdict = judge(batch, kind, pairs, claims)
        added = batch.filter(pl.Series(verdict.new)).select(*SCHEMAS[kind])
        first = self._written + 1
        if claims is not None:
            claims.add(verdict.named)
            claims.add(np.arange(first, first + added.height))
        if added.is_empty():
            return verdict
        if TIME[kind] in KEYS[kind]:
            unknown = batch.filter(pl.Series(verdict.new & ~known)).select(KEYS[kind]).n_unique()
            self._connection.execute(
                "INSERT INTO tally VALUES (?, ?, ?)"
                " ON CONFLICT DO UPDATE SET records = records + excluded.records",
                (kind, cluster, unknown),
            )
        added = added.with_columns(pl.int_range(first, first + pl.len()).alias(WRITTEN))
        self._written += added.height
        found = self._found(kind, cluster)
        found += segments.add(self._connection, kind, cluster, added)
        while due := tidy.small_ones(found):
            self._rewrite(found, due)
        return verdict

    def _found(self, kind: str, cluster: str) -> list[Segment]:
        if (kind, cluster) not in self._segments:
            self._segments[kind, cluster] = segments.listed(self._connection, kind, cluster)
        return self._segments[kind, cluster]

    def _rewrite(self, found: list[Segment], due: list[Segment]) -> None:
        gone = {segment.id for segment in due}
        found[:] = [segment for segment in found if segment.id not in gone]
        found += tidy.rewrite(self._connection, due)

    def _matches(self, kind: str, cluster: str, batch: pl.DataFrame) -> tuple[Pairs, Mask]:
        """Stored observations that have a row's identity, and which rows' records are known."""
        # A segment holds one cluster only: no need to compare that.
        key = [name for name in KEYS[kind] if name != "cluster"]
        same = {name: value for name, value in identity(kind).items() if name != "cluster"}
        needed = dict.fromkeys(root for value in same.values() for root in value.meta.root_names())
        time = TIME[kind]
        rows = batch.select(**(same | {time: pl.col(time)})).with_row_index("_row")
        known = np.zeros(batch.height, bool)
        pairs: list[Pairs] = []
        for segment in _overlapping(self._found(kind, cluster), kind, batch):
            here = rows.filter(pl.col(time).is_between(segment.first_time, segment.last_time))
            at_these_times = pl.col(time).is_in(here[time].unique().implode())
            data = segments.loaded(self._connection, segment)
            stored = segments.unpacked(data, kind, [*needed, WRITTEN], at_these_times)
            stored = stored.select(WRITTEN, **same).with_row_index("_at")
            known[here.join(stored, on=key, how="semi")["_row"].to_numpy()] = True
            both = here.join(stored, on=list(same))
            if both.height:
                whole = segments.unpacked(data, kind, where=at_these_times)[both["_at"]]
                equal = equal_rows(batch[both["_row"]], whole, kind)
                pairs.append(Pairs(both["_row"].to_numpy().astype(np.int64), both[WRITTEN].to_numpy(), equal))
        return Pairs.joined(pairs), known

    def finish(self) -> None:
        """What is left to do before the transaction may end."""
        for found in self._segments.values():
            if crowded := tidy.crowded_ones(found):
                self._rewrite(found, crowded)

    def end(self) -> None:
        """Write no more: the connection is another's now."""
        self._open = None

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            raise StoreError("this write has ended: begin another one with store.writing()")
        return self._open

    def describe_cluster(self, cluster: str, facts: ClusterFacts) -> None:
        """Set what is known of a cluster, over what was."""
        self._connection.execute(
            "INSERT OR REPLACE INTO cluster VALUES (?, ?, ?)",
            (cluster, facts.timezone, json.dumps(dict(facts.fields), sort_keys=True)),
        )

    def set_cursor(self, name: str, value: str) -> None:
        """Remember how far a reader of some source has come."""
        self._connection.execute("INSERT OR REPLACE INTO cursor VALUES (?, ?)", (name, value))

    def put_state(self, cluster: str, space: str, rows: Iterable[tuple[int, bytes]]) -> None:
        """Set online state by key within a space."""
        self._connection.execute(
            "INSERT OR IGNORE INTO space (cluster, name) VALUES (?, ?)", (cluster, space)
        )
        (number,) = self._connection.execute(
            "SELECT id FROM space WHERE cluster = ? AND name = ?", (cluster, space)
        ).fetchone()
        self._connection.executemany(
            "INSERT OR REPLACE INTO state VALUES (?, ?, ?)", ((number, key, value) for key, value in rows)
        )

    def drop_state(self, cluster: str, space: str, keys: Iterable[int] | None = None) -> None:
        """Forget online state: of some keys, or of the whole space."""
        of_space = "DELETE FROM state WHERE space = (SELECT id FROM space WHERE cluster = ? AND name = ?)"
        if keys is None:
            self._connection.execute(of_space, (cluster, space))
        else:
            self._connection.executemany(f"{of_space} AND key = ?", ((cluster, space, key) for key in keys))

    def predict(self, frame: pl.DataFrame) -> int:
        """Keep predictions; how many were new."""
        columns = list(PREDICTION_SCHEMA)
        for name in PREDICTION_KEY:
            if frame[name].null_count():
                raise UsageError(f"a prediction without {name} cannot be kept")
        before = self._connection.total_changes
        self._connection.executemany(
            f"INSERT INTO prediction ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
            " ON CONFLICT DO NOTHING",
            frame.select(columns).iter_rows(),
        )
        new = self._connection.total_changes - before
        if new < frame.height:
            said = [name for name in columns if name not in PREDICTION_KEY]
            self._connection.executemany(
                f"UPDATE prediction SET {', '.join(f'{name} = ?' for name in said)}"
                f" WHERE {' AND '.join(f'{name} = ?' for name in PREDICTION_KEY)}",
                frame.select(*said, *PREDICTION_KEY).iter_rows(),
            )
        return new

    def forget_predictions(self, cluster: str, before: int) -> int:
        """Remove old predictions; how many."""
        return self._connection.execute(
            "DELETE FROM prediction WHERE made_at < ? AND cluster = ?", (before, cluster)
        ).rowcount


def _overlapping(found: list[Segment], kind: str, batch: pl.DataFrame) -> Iterator[Segment]:
    """Segments that may hold rows of the batch."""
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
