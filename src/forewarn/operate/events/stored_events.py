"""The assessments of the store as events, in the order in which they were saved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from forewarn.assess.assessment import SCHEMA_VERSION
from forewarn.operate.events.event import Event, assessment_event
from forewarn.store.base import Store

_Accounts = Mapping[tuple[str, str, int], str | None]


class StoredEvents:
    """The history of a bus: what `EventHistory` describes, read from a store."""

    def __init__(self, store: Callable[[], Store]) -> None:
        """Read from the store that a function returns, which any thread may read."""
        self._store = store

    def newest(self) -> int:
        """Return the number of the newest assessment; 0 if there is none."""
        return self._store().newest_assessment()

    def read(self, after: int, until: int, most: int) -> list[Event]:
        """Return the events of assessments with after < number ≤ until, at most so many, in order.

        Fewer than `most` are the last ones: rows of other schema versions are skipped, not counted.
        """
        store, events = self._store(), list[Event]()
        while len(events) < most:
            wanted = most - len(events)
            frame = store.assessments_after(after, until=until, most=wanted)
            events += _events(store, frame)
            if frame.height < wanted:
                break
            after = frame["number"][-1]
        return events


def _events(store: Store, frame: pl.DataFrame) -> Iterator[Event]:
    accounts = _accounts(store, frame)
    for number, cluster, job_id, submit, body in frame.iter_rows():
        if (whole := _readable(body)) is not None:
            event = assessment_event(whole, accounts.get((cluster, job_id, submit)))
            yield replace(event, id=str(number))


def _readable(body: str | None) -> Mapping[str, Any] | None:
    """Read the JSON of an assessment; None where another version of Forewarn wrote it in another form."""
    whole = json.loads(body) if body else None
    is_ours = isinstance(whole, dict) and whole.get("schema_version") == SCHEMA_VERSION
    return whole if is_ours else None


def _accounts(store: Store, frame: pl.DataFrame) -> _Accounts:
    """Read the accounts of the jobs: who coordinates one may see its events."""
    found: dict[tuple[str, str, int], str | None] = {}
    for (cluster,), jobs in frame.group_by("cluster"):
        records = store.scan(
            cluster=str(cluster),
            since=jobs["submit"].min(),  # type: ignore[arg-type]  # submits are integers
            job_ids=jobs["job_id"].unique().to_list(),
            columns=["job_id", "submit", "account"],
        )
        for record in records:
            found |= {
                (str(cluster), job_id, submit): account for job_id, submit, account in record.iter_rows()
            }
    return found
