"""A store over documents keeps the same contract, and a crash before any operation leaves all or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl
import pytest

from forewarn.errors import StoreError
from forewarn.store.base import ASSESSMENT_SCHEMA, ClusterFacts, Store, StoreWriter
from tests.store.contract import StoreContract, whole, write
from tests.store.document_store import Crashed, Documents, DocumentStore
from tests.store.samples import frame, many, row


class TestDocuments(StoreContract):
    @contextmanager
    def fresh(self, *, known_delay: int = 0) -> Iterator[Store]:
        with DocumentStore(Documents(), known_delay=known_delay, busy_seconds=0.1) as store:
            yield store


def fill(documents: Documents) -> None:
    """A store with small segments, so that one more write rewrites them, and with something of everything."""
    with DocumentStore(documents) as store:
        for n in range(15):
            write(store, row(str(n), n, 400))
        with store.writing() as writer:
            writer.put_state("c", "users", [(n, b"old") for n in range(5)])
            writer.put_state("c", "weights", [(1, b"old")])
            writer.set_cursor("sacct", "1")
            writer.keep_assessments(assessments(100, 101))


def assessments(*moments: int) -> pl.DataFrame:
    key = ("c", "1", 100, "submit", "m")
    rows = [(*key, at, 0.5, 0.5, "fine", 1.0, None, "{}") for at in moments]
    return pl.DataFrame(rows, schema=dict(ASSESSMENT_SCHEMA), orient="row")


def one_write(writer: StoreWriter) -> None:
    writer.observe("job", frame(row("99", 99, 400), row("3", 3, 500, state="RUNNING")))
    writer.put_state("c", "users", [(1, b"new"), (1, b"newer"), (9, b"new")])
    writer.drop_state("c", "users", [2])
    writer.drop_state("c", "weights")
    writer.put_state("c", "weights", [(2, b"new")])
    writer.set_cursor("sacct", "2")
    writer.describe_cluster("c", ClusterFacts("Europe/Berlin"))
    writer.forget_assessments("c", 101)
    writer.keep_assessments(assessments(102))


def seen(store: Store) -> list[object]:
    """All that a reader can see."""
    return [
        *(whole(store).rows(), store.count(), store.revision(), store.clusters(), store.cursor("sacct")),
        *(dict(store.all_state("c", space)) for space in ("users", "weights")),
        *(store.assessments().rows(), store.changes(cluster="c", since=5)[1]),
    ]


@pytest.mark.slow
def test_a_crash_before_any_operation_leaves_all_or_nothing() -> None:
    untouched = Documents()
    fill(untouched)
    written, operations = untouched.copied(), 0

    def count() -> None:
        nonlocal operations
        operations += 1

    written.before = count
    with DocumentStore(written) as store, store.writing() as writer:
        one_write(writer)
    nothing, everything = seen(DocumentStore(untouched)), seen(DocumentStore(written))
    assert nothing != everything
    outcomes = [_crashed(untouched.copied(), before, nothing, everything) for before in range(operations)]
    assert outcomes == sorted(outcomes), "once it is published it stays so"
    assert set(outcomes) == {False, True}
    assert operations > 30


def _crashed(documents: Documents, after: int, nothing: list[object], everything: list[object]) -> bool:
    """Die before an operation of a write, and look: whether all of it is there."""
    dying, left = DocumentStore(documents), after

    def before() -> None:
        nonlocal left
        if not left:
            dying.close()
            raise Crashed
        left -= 1

    documents.before = before
    with pytest.raises(Crashed), dying.writing() as writer:
        one_write(writer)
    documents.before = lambda: None
    with DocumentStore(documents) as reopened:
        found = seen(reopened)
        assert found in (nothing, everything), f"half a write after {after} operations"
        with reopened.writing() as writer:  # another one, and then the same again
            writer.set_cursor("other", "1")
        assert seen(reopened) == found, "what was left is finished, or stays unseen"
        with reopened.writing() as writer:
            one_write(writer)
        again = seen(reopened)
        assert (again[0], again[4:7]) == (everything[0], everything[4:7])
    return found == everything


def test_publishing_twice_changes_nothing() -> None:
    documents = Documents()
    fill(documents)
    with DocumentStore(documents) as store:
        before = seen(store)
        for number in store._head()["published"]:
            store.publish(number)
            store._carry_out()
        assert seen(store) == before


def test_one_who_was_thought_dead_publishes_nothing() -> None:
    """Their lease ran out, another one has written since: their write is given up."""
    documents = Documents()
    slow, other = DocumentStore(documents), DocumentStore(documents)

    def write_slowly() -> None:
        with slow.writing() as writer:
            writer.set_cursor("sacct", "slow")
            documents.alive.discard(slow._session)
            with other.writing() as second:
                second.set_cursor("sacct", "other")
                second.observe("job", many(10))

    with pytest.raises(StoreError, match="given up"):
        write_slowly()
    assert (other.cursor("sacct"), other.count()) == ("other", 10)


def test_several_write_in_turns() -> None:
    documents = Documents()
    stores = [DocumentStore(documents) for _ in range(3)]
    assert all(store.allows_many_writers for store in stores)
    for n in range(30):
        with stores[n % 3].writing() as writer:
            writer.observe("job", many(5, first=5 * n))
    assert [store.count() for store in stores] == [150] * 3
