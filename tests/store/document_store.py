"""A small store over documents in memory: what the contract asks for, met as a document database would.

All that it has are collections of documents and operations on one document, each atomic by itself. There is
no transaction over several. So a write is staged under a number of its own, and published by one change of
one document:

- `head`, the one small document: who writes now, which number comes next, which writes are published.
- `segments` and `gone`: observations that a write adds, and segments that it has rewritten. Readers ignore
  those whose number is not published.
- `journal`: puts and drops of small things (state, cursors, facts, assessments), in order. After publishing
  they are carried out in `things`, and removed; readers lay what is left of it over `things`. Each is a value
  by its key, so carrying out the last of them again changes nothing, and whoever finds some left may do it.

A process that dies at any operation leaves a write that is published, or one that nobody ever sees.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import polars as pl

from forewarn.errors import StoreBusyError, StoreError, UsageError
from forewarn.job.columns import KEYS
from forewarn.store.barred_users import BarredUsers, digest
from forewarn.store.base import (
    ASSESSMENT_KEY,
    ASSESSMENT_SCHEMA,
    NUMBERED_SCHEMA,
    ClusterFacts,
    Store,
    StoreWriter,
    View,
    WriteCounts,
)
from forewarn.store.filters import Filter
from forewarn.store.scanning import Scan, changes, observations
from forewarn.store.segment_writer import SegmentWriter
from forewarn.store.segments import Segment, Segments, check_kind

KEY = b"a secret of the server"
_COUNTER: Key = ("numbers",)  # of assessments
Key = tuple[Any, ...]
Document = Mapping[str, Any]
Change = Callable[[Document | None], Document | None]
Things = dict[Key, Document | None]  # None: dropped


class Crashed(BaseException):
    """The process died before an operation."""


class Documents:
    """The server: it outlives the processes that use it. `before` is called before each change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._collections: dict[str, dict[Key, Document]] = {}
        self.before: Callable[[], None] = lambda: None
        self.alive: set[int] = set()  # sessions; a real server has leases that run out
        self._sessions = itertools.count(1)
        self.change("head", (), lambda _: {"writer": None, "next": 1, "published": ()})

    def copied(self) -> Documents:
        """A server of its own with the same documents, which are never changed in place."""
        copy = Documents()
        copy._collections = {name: dict(documents) for name, documents in self._collections.items()}
        return copy

    def session(self) -> int:
        """A client's name."""
        self.alive.add(name := next(self._sessions))
        return name

    def change(self, collection: str, key: Key, changed: Change) -> None:
        """One atomic change of one document; made to None, it is removed. What it raises changes nothing."""
        self.before()
        with self._lock:
            documents = self._collections.setdefault(collection, {})
            document = changed(documents.get(key))
            if document is None:
                documents.pop(key, None)
            else:
                documents[key] = document

    def put(self, collection: str, key: Key, document: Document | None) -> None:
        """Put a document in the place of what was there."""
        self.change(collection, key, lambda _: document)

    def get(self, collection: str, key: Key) -> Document | None:
        """One document."""
        with self._lock:
            return self._collections.get(collection, {}).get(key)

    def find(self, collection: str) -> list[tuple[Key, Document]]:
        """All documents, in order of their keys; others may change them meanwhile, one by one."""
        with self._lock:
            keys = sorted(self._collections.get(collection, {}))
        found = ((key, self.get(collection, key)) for key in keys)
        return [(key, document) for key, document in found if document is not None]


class DocumentSegments(Segments):
    """The segments of the writes that are visible, and of one that is being staged."""

    def __init__(self, documents: Documents, visible: Sequence[int], staged: int | None = None) -> None:
        self._documents, self._staged = documents, staged
        self._visible = {*visible, *(() if staged is None else (staged,))}
        self._numbers = itertools.count(1)

    def listed(self, kind: str, cluster: str | None = None) -> list[Segment]:
        """The segments of a kind."""
        gone = {key[1] for key, _ in self._documents.find("gone") if key[0] in self._visible}
        found = (
            doc["segment"]
            for key, doc in self._documents.find("segments")
            if key[0] in self._visible and key not in gone
        )
        return [one for one in found if one.kind == kind and cluster in (None, one.cluster)]

    def loaded(self, segment: Segment) -> bytes:
        """The data of a segment."""
        document = self._documents.get("segments", divmod(segment.id, 10**6))
        assert document is not None
        data: bytes = document["data"]
        return data

    def put(self, segment: Segment, data: bytes) -> Segment:
        """Stage a segment."""
        assert self._staged is not None
        key = (self._staged, next(self._numbers))
        segment = replace(segment, id=key[0] * 10**6 + key[1])
        self._documents.put("segments", key, {"segment": segment, "data": data})
        return segment

    def drop(self, segments: Iterable[Segment]) -> None:
        """Stage that segments are gone; those who read an older state go on reading them."""
        for segment in segments:
            self._documents.put("gone", (self._staged, divmod(segment.id, 10**6)), {})


class DocumentWriter(StoreWriter):
    """Stages one write."""

    def __init__(self, documents: Documents, visible: Sequence[int], staged: int, things: Things) -> None:
        self._documents, self._staged, self._things = documents, staged, things
        self._entries = itertools.count(1)
        kept = DocumentSegments(documents, visible, staged)
        written = [one.last_written for kind in KEYS for one in kept.listed(kind)]
        written += [doc["last_written"] for _, doc in _within(things, ("removal",))]
        self._observing = SegmentWriter(
            kept,
            max(written, default=0),
            tally=lambda kind, cluster, new: None,
            removed=self._note_removal,
            barred=self._barred,
        )
        self._ended = False

    def finish(self) -> None:
        """Do what is left before it may be published."""
        self._observing.finish()

    def end(self) -> None:
        """Write no more."""
        self._ended = True

    def _check_open(self) -> None:
        if self._ended:
            raise StoreError("this write has ended: begin another one with store.writing()")

    def _set(self, key: Key, value: Document | None) -> None:
        self._check_open()
        self._documents.put("journal", (self._staged, next(self._entries)), {"key": key, "value": value})
        self._things[key] = value

    def observe(self, kind: str, frame: pl.DataFrame, *, file: str | None = None) -> WriteCounts:
        """Stage observations."""
        self._check_open()
        return self._observing.observe(kind, frame, file=file)

    def forget(self, kind: str, keys: pl.DataFrame) -> int:
        """Stage that records are gone."""
        self._check_open()
        return self._observing.forget(kind, keys)

    def thin(self, kind: str, cluster: str, before: int) -> int:
        """Stage that old observations are gone."""
        self._check_open()
        return self._observing.thin(kind, cluster, before)

    def _note_removal(self, kind: str, cluster: str, newest: int) -> None:
        before = self._things.get(("removal", kind, cluster)) or {"times": 0, "last_written": 0}
        self._set(
            ("removal", kind, cluster),
            {"times": before["times"] + 1, "last_written": max(before["last_written"], newest)},
        )

    def bar_user(self, user: str, until: int) -> None:
        """Stage a hash; a real server keeps the key where readers of the database cannot read it."""
        before = self._things.get(("barred", digest(KEY, user))) or {"until": until}
        self._set(("barred", digest(KEY, user)), {"until": max(until, before["until"])})
        self._note_removal("erasure", "", 0)
        self._observing.bar_again()

    def _barred(self) -> BarredUsers:
        return BarredUsers(KEY, {key[1]: doc["until"] for key, doc in _within(self._things, ("barred",))})

    def describe_cluster(self, cluster: str, facts: ClusterFacts) -> None:
        """Stage what is known of a cluster."""
        fields = json.dumps(dict(facts.fields))
        self._set(("cluster", cluster), {"timezone": facts.timezone, "fields": fields})

    def set_cursor(self, name: str, value: str) -> None:
        """Stage a cursor."""
        self._set(("cursor", name), {"value": value})

    def drop_cursor(self, name: str) -> None:
        """Stage that a cursor is gone."""
        self._set(("cursor", name), None)

    def put_state(self, cluster: str, space: str, rows: Iterable[tuple[int, bytes]]) -> None:
        """Stage values of online state."""
        for key, value in rows:
            self._set(("state", cluster, space, key), {"value": value})

    def drop_state(self, cluster: str, space: str, keys: Iterable[int] | None = None) -> None:
        """Stage that values are dropped: which those of a space are is known now, since one writes."""
        of_space = [key[-1] for key, _ in _within(self._things, ("state", cluster, space))]
        for key in of_space if keys is None else keys:
            self._set(("state", cluster, space, key), None)

    def keep_assessments(self, frame: pl.DataFrame) -> int:
        """Stage assessments."""
        new, frame = 0, self._barred().without_assessments(frame)
        for row in frame.select(*ASSESSMENT_SCHEMA).iter_rows(named=True):
            key = ("assessment", *(row[name] for name in ASSESSMENT_KEY))
            if None in key:
                raise UsageError(
                    f"an assessment without {ASSESSMENT_KEY[key.index(None) - 1]} cannot be kept"
                )
            new += self._things.get(key) is None
            number = (self._things.get(_COUNTER) or {"number": 0})["number"] + 1
            self._set(_COUNTER, {"number": number})
            self._set(key, row | {"number": number})
        return new

    def forget_assessments(self, cluster: str, before: int) -> int:
        """Stage that assessments are dropped."""
        old = [key for key, row in _within(self._things, ("assessment", cluster)) if row["made_at"] < before]
        for key in old:
            self._set(key, None)
        return len(old)

    def drop_assessments(self, keys: pl.DataFrame) -> int:
        """Stage that assessments are dropped, by their keys."""
        found = [("assessment", *row) for row in keys.select(ASSESSMENT_KEY).iter_rows()]
        there = [key for key in found if self._things.get(key) is not None]
        for key in there:
            self._set(key, None)
        return len(there)


class DocumentStore(Store):
    """A client of the server. Readers retry what they read while something was published."""

    def __init__(self, documents: Documents, *, known_delay: int = 0, busy_seconds: float = 5) -> None:
        self._documents, self._known_delay, self._busy_seconds = documents, known_delay, busy_seconds
        self._session = documents.session()
        self._closed = False

    # --- writing

    @property
    def may_write(self) -> bool:
        """Always."""
        return True

    @property
    def allows_many_writers(self) -> bool:
        """They take turns, one write each, wherever they run."""
        return True

    @contextmanager
    def writing(self) -> Iterator[DocumentWriter]:
        """Stage, publish, carry out."""
        self._check_open()
        number = self._begin()
        try:
            self._carry_out()  # what somebody published who died then
            published, things = self._read_things()
            writer = DocumentWriter(self._documents, published, number, things)
            try:
                yield writer
                writer.finish()
            finally:
                writer.end()
            self.publish(number)
            self._carry_out()
        finally:
            if self._session in self._documents.alive:
                self._documents.change("head", (), lambda head: {**_existing(head), "writer": None})

    def _begin(self) -> int:
        """Become the one who writes, with a number that nobody had: also a dead one's, who may wake."""

        def begun(head: Document | None) -> Document:
            head = _existing(head)
            if head["writer"] in self._documents.alive:
                raise StoreBusyError("another one is writing and did not finish; try again when it is done")
            return {**head, "writer": self._session, "next": head["next"] + 1}

        for patience in range(int(self._busy_seconds * 100), -1, -1):
            try:
                self._documents.change("head", (), begun)
                break
            except StoreBusyError:
                if not patience:
                    raise
                threading.Event().wait(0.01)
        return int(self._head()["next"]) - 1

    def publish(self, number: int) -> None:
        """Make a write visible: one change of one document. Doing it again changes nothing."""

        def published(head: Document | None) -> Document:
            head = _existing(head)
            if number in head["published"]:
                return head
            if head["writer"] != self._session:
                raise StoreError("another one writes now: this write was given up")
            return {**head, "published": (*head["published"], number)}

        self._documents.change("head", (), published)

    def _carry_out(self) -> None:
        """Do what published journals say, in order, then remove them, the oldest entry first."""
        published = self._head()["published"]
        entries = [(key, doc) for key, doc in self._documents.find("journal") if key[0] in published]
        for _, entry in entries:
            self._documents.put("things", entry["key"], entry["value"])
        for key, _ in entries:
            self._documents.put("journal", key, None)

    def claim(self, name: str) -> Any:
        """A document with the holder's name."""

        def claimed(document: Document | None) -> Document:
            if document is not None and document["holder"] in self._documents.alive:
                raise StoreBusyError(name)
            return {"holder": self._session}

        @contextmanager
        def held() -> Iterator[None]:
            try:
                yield
            finally:
                self._documents.put("claims", (name,), None)

        try:
            self._documents.change("claims", (name,), claimed)
        except StoreBusyError:
            return None
        return held()

    # --- reading

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store has been closed")

    def _head(self) -> Document:
        return _existing(self._documents.get("head", ()))

    def _segments(self) -> DocumentSegments:
        self._check_open()
        return DocumentSegments(self._documents, self._head()["published"])

    def _read_things(self) -> tuple[tuple[int, ...], Things]:
        """The small things as of one published write.

        While nothing more is published, what is carried out is no more than what the journal says.
        """
        self._check_open()
        while True:
            published: tuple[int, ...] = self._head()["published"]
            journal = [doc for key, doc in self._documents.find("journal") if key[0] in published]
            things: Things = dict(self._documents.find("things"))
            things |= {entry["key"]: entry["value"] for entry in journal}
            if self._head()["published"] == published:
                return published, {key: value for key, value in things.items() if value is not None}

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
        """One row per record."""
        scan = Scan(
            kind=kind,
            views={view: columns},
            cluster=cluster,
            since=since,
            until=until,
            job_ids=job_ids,
            where=where,
            rows=rows,
            known_delay=self._known_delay,
        )
        kept = self._segments()
        return (frames[view] for frames in scan.frames(kept))

    def scan_views(
        self, columns: Mapping[View, Sequence[str]], *, cluster: str | None = None, rows: int = 1_000_000
    ) -> Iterator[Mapping[View, pl.DataFrame]]:
        """Jobs through several views."""
        scan = Scan(kind="job", views=columns, cluster=cluster, rows=rows, known_delay=self._known_delay)
        return scan.frames(self._segments())

    def observations(self, kind: str, key: Mapping[str, Any]) -> pl.DataFrame:
        """Every observation whose columns equal `key`."""
        return observations(self._segments(), kind, key)

    def count(self, kind: str = "job", *, cluster: str | None = None) -> int:
        """How many records there are."""
        return sum(frame.height for frame in self.scan(kind, cluster=cluster, columns=KEYS[kind]))

    def revision(self, kind: str = "job", *, cluster: str | None = None) -> int:
        """The number of the newest observation."""
        check_kind(kind)
        numbers = [one.last_written for one in self._segments().listed(kind, cluster)]
        gone = _within(self._read_things()[1], ("removal", kind, *(() if cluster is None else (cluster,))))
        return max([*numbers, *(doc["last_written"] for _, doc in gone)], default=0)

    def removals(self, kind: str = "job", *, cluster: str) -> int:
        """How often observations were deleted."""
        check_kind(kind)
        found = self._read_things()[1].get(("removal", kind, cluster))
        return 0 if found is None else found["times"]

    def barred_users(self) -> int:
        """How many users were erased."""
        return sum(1 for _ in _within(self._read_things()[1], ("barred",)))

    def erasures(self) -> int:
        """Return how often somebody was barred."""
        return int((self._read_things()[1].get(("removal", "erasure", "")) or {"times": 0})["times"])

    def load_barred_users(self) -> BarredUsers:
        """Return what recognises erased users."""
        things = self._read_things()[1]
        return BarredUsers(KEY, {key[1]: doc["until"] for key, doc in _within(things, ("barred",))})

    def cursors(self) -> dict[str, str]:
        """All cursors by name."""
        return {key[1]: doc["value"] for key, doc in _within(self._read_things()[1], ("cursor",))}

    def reclaim(self, *, wipe: bool = False) -> int:
        """Remove what no reader can see any more; nobody may be scanning an older state."""
        self._check_open()
        published = self._head()["published"]
        gone = [key for key, _ in self._documents.find("gone") if key[0] in published]
        freed = 0
        for key in gone:
            document = self._documents.get("segments", key[1])
            freed += 0 if document is None else len(document["data"])
            self._documents.put("segments", key[1], None)
            self._documents.put("gone", key, None)
        return freed

    def changes(self, kind: str = "job", *, cluster: str, since: int) -> tuple[pl.DataFrame, int]:
        """The keys of the records that were observed anew after a revision."""
        check_kind(kind)
        return changes(self._segments(), kind, cluster, since)

    def clusters(self) -> dict[str, ClusterFacts]:
        """The clusters that have been described."""
        found = _within(self._read_things()[1], ("cluster",))
        return {key[1]: ClusterFacts(doc["timezone"], json.loads(doc["fields"])) for key, doc in found}

    def cursor(self, name: str) -> str | None:
        """How far a reader had come."""
        found = self._read_things()[1].get(("cursor", name))
        return None if found is None else found["value"]

    def get_state(self, cluster: str, space: str, keys: Sequence[int]) -> dict[int, bytes]:
        """The online state of these keys."""
        there = dict(self.all_state(cluster, space))
        return {key: there[key] for key in keys if key in there}

    def all_state(self, cluster: str, space: str) -> Iterator[tuple[int, bytes]]:
        """All online state of a space."""
        found = _within(self._read_things()[1], ("state", cluster, space))
        yield from sorted((key[-1], doc["value"]) for key, doc in found)

    def assessments(
        self,
        *,
        cluster: str | None = None,
        job_id: str | None = None,
        since: int | None = None,
        until: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pl.DataFrame:
        """Assessments made in [since, until)."""
        rows = [doc for _, doc in _within(self._read_things()[1], ("assessment",))]
        found = pl.DataFrame(rows, schema={"number": pl.Int64, **ASSESSMENT_SCHEMA}).sort(
            "made_at", *ASSESSMENT_KEY[:-1]
        )
        tests = [
            *([] if cluster is None else [pl.col("cluster") == cluster]),
            *([] if job_id is None else [pl.col("job_id") == job_id]),
            *([] if since is None else [pl.col("made_at") >= since]),
            *([] if until is None else [pl.col("made_at") < until]),
        ]
        return found.filter(pl.lit(True), *tests).select(columns or list(ASSESSMENT_SCHEMA))

    def newest_assessment(self) -> int:
        """The number given last."""
        return int((self._read_things()[1].get(_COUNTER) or {"number": 0})["number"])

    def assessments_after(self, number: int, *, until: int, most: int) -> pl.DataFrame:
        """Assessments by number."""
        docs = (doc for _, doc in _within(self._read_things()[1], ("assessment",)))
        rows = [
            {name: doc[name] for name in NUMBERED_SCHEMA} for doc in docs if number < doc["number"] <= until
        ]
        return pl.DataFrame(rows, schema=dict(NUMBERED_SCHEMA)).sort("number").head(most)

    def close(self) -> None:
        """The client is gone."""
        self._closed = True
        self._documents.alive.discard(self._session)


def _existing(document: Document | None) -> Document:
    assert document is not None
    return document


def _within(things: Things, prefix: Key) -> list[tuple[Key, Document]]:
    """The documents whose keys begin so."""
    return [(key, doc) for key, doc in things.items() if doc is not None and key[: len(prefix)] == prefix]
