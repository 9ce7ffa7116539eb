"""What every store of people's things keeps: the promises of `forewarn.store.people`, as tests."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest

from forewarn.errors import StoreError, UsageError
from forewarn.store.people import Entry, ErasedEntries, PeopleStore


class PeopleContract:
    """Inherit it, and the store is held to its contract."""

    def fresh(self) -> AbstractContextManager[PeopleStore]:
        raise NotImplementedError("say how a fresh store is opened")

    @pytest.fixture
    def people(self) -> Iterator[PeopleStore]:
        with self.fresh() as people:
            yield people

    def test_what_is_put_is_there_and_replaced(self, people: PeopleStore) -> None:
        assert people.get("threshold", "alps/submit") is None
        people.put("threshold", "alps/submit", {"value": 0.4, "by": "ann"}, at=10)
        people.put("threshold", "alps/submit", {"value": 0.5, "by": "böb", "why": None}, at=11)
        people.put("session", "alps/submit", {}, at=12)
        kept = Entry("threshold", "alps/submit", 11, {"value": 0.5, "by": "böb", "why": None})
        assert people.get("threshold", "alps/submit") == kept
        assert people.entries("threshold") == [kept]

    def test_entries_in_order_of_time(self, people: PeopleStore) -> None:
        for at in (30, 10, 20, 20):
            people.add("feedback", {"at": at}, at=at)
        assert [entry.at for entry in people.entries("feedback")] == [10, 20, 20, 30]
        assert [entry.at for entry in people.entries("feedback", since=20, until=30)] == [20, 20]
        assert [entry.at for entry in people.entries("feedback", newest=2)] == [20, 30]
        assert people.entries("feedback", newest=0) == []
        assert people.entries("audit") == []

    def test_what_is_added_has_a_key_of_its_own(self, people: PeopleStore) -> None:
        keys = {people.add("audit", {"did": "promote"}, at=5) for _ in range(20)}
        assert len(keys) == 20
        assert all(len(key) >= 32 for key in keys)
        assert {entry.key for entry in people.entries("audit")} == keys

    def test_an_audit_line_stays_as_it_is(self, people: PeopleStore) -> None:
        key = people.add("audit", {"did": "promote"}, at=5)
        with pytest.raises(UsageError, match="neither changed nor removed"):
            people.put("audit", key, {"did": "nothing"}, at=6)
        with pytest.raises(UsageError, match="neither changed nor removed"):
            people.remove("audit", key)
        assert people.get("audit", key) == Entry("audit", key, 5, {"did": "promote"})

    def test_sessions_end_and_old_things_are_forgotten(self, people: PeopleStore) -> None:
        keys = [people.add("session", {}, at=at) for at in (1, 2, 3)]
        assert (people.remove("session", keys[2]), people.remove("session", keys[2])) == (True, False)
        people.add("audit", {}, at=1)
        assert (people.forget("session", 2), people.forget("session", 2)) == (1, 0)
        assert [entry.key for entry in people.entries("session")] == [keys[1]]
        assert len(people.entries("audit")) == 1, "another kind"
        assert people.forget("audit", 2) == 1

    def test_an_erased_user_is_mentioned_nowhere(self, people: PeopleStore) -> None:
        people.add("session", {"user": "ann"}, at=1)
        people.add("feedback", {"user": "ann", "job": "17"}, at=1)
        people.add(
            "feedback", {"user": "ben", "text": "as ann wrote to mary-ann, ann.b and /home/ann/x"}, at=2
        )
        people.put("session", "of ann", {"who": ["ann", {"ann": 1}]}, at=3)
        line = people.add("audit", {"user": "ann", "did": "promote"}, at=4)
        people.put("threshold", "alps", {"user": "ann", "value": 0.4}, at=5)
        other = people.add("audit", {"user": "anna"}, at=6)
        assert people.erase("ann", "erased-1") == ErasedEntries(deleted=2, renamed=4)
        assert people.get("audit", line) == Entry("audit", line, 4, {"user": "erased-1", "did": "promote"})
        assert people.get("audit", other) == Entry("audit", other, 6, {"user": "anna"})
        assert people.entries("threshold")[0].value == {"user": "erased-1", "value": 0.4}
        assert people.entries("session") == [
            Entry("session", "of erased-1", 3, {"who": ["erased-1", {"erased-1": 1}]})
        ]
        text = "as erased-1 wrote to mary-ann, ann.b and /home/erased-1/x"
        assert [entry.value["text"] for entry in people.entries("feedback")] == [text]
        assert people.erase("ann", "erased-2") == ErasedEntries()

    def test_no_other_kinds(self, people: PeopleStore) -> None:
        with pytest.raises(UsageError, match=r"no such kind.*'job'.*threshold, audit, feedback, session"):
            people.add("job", {}, at=1)  # type: ignore[arg-type]

    def test_threads_write_at_once(self, people: PeopleStore) -> None:
        def work(n: int) -> None:
            for m in range(20):
                people.add("audit", {"n": n, "m": m}, at=m)
                people.put("threshold", "one", {"n": n, "m": m}, at=m)
                assert people.get("threshold", "one") is not None

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert len(people.entries("audit")) == 160

    def test_closed_is_closed(self, people: PeopleStore) -> None:
        people.close()
        with pytest.raises(StoreError, match="closed"):
            people.entries("audit")
