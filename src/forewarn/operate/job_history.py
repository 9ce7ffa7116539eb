"""List the observations of one job in the store: what changed, and when."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from forewarn.errors import UnknownJobError
from forewarn.job.columns import JOB_SCHEMA
from forewarn.store.base import Store

_KEY = ("cluster", "job_id", "submit")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """One observation of a job, with the fields that were new or changed."""

    cluster: str
    job_id: str
    submit: int
    seen_at: int
    source: str
    reconstructed: bool  # from a final record, not observed live
    changed: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "seen_at": self.seen_at,
            "source": self.source,
            "reconstructed": self.reconstructed,
            "changed": dict(self.changed),
        }


def job_history(store: Store, job_id: str, clusters: Collection[str] = ()) -> list[JobChange]:
    """List the observations of a job in order; in some clusters only, as ids may repeat across clusters."""
    frame = store.observations("job", {"job_id": job_id})
    rows = [row for row in frame.iter_rows(named=True) if not clusters or row["cluster"] in clusters]
    if not rows:
        raise UnknownJobError(f"no job {job_id} in the store")
    return list(_changes(rows))


def _changes(rows: list[dict[str, Any]]) -> Iterator[JobChange]:
    before: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        last = before.setdefault(tuple(row[name] for name in _KEY), {})
        changed = {
            name: row[name]
            for name in JOB_SCHEMA
            if name not in _KEY and row[name] is not None and row[name] != last.get(name)
        }
        last.update(changed)
        fields = {name: row[name] for name in (*_KEY, "seen_at", "source", "reconstructed")}
        yield JobChange(**fields, changed=changed)
