"""What was seen of one job, and when: the observations behind its current view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from forewarn.errors import UsageError
from forewarn.job.columns import JOB_SCHEMA
from forewarn.serve.cli.output import print_json, print_table
from forewarn.store.base import Store

_KEY = ("cluster", "job_id", "submit")


def print_history(
    store: Store, job_id: str, clusters: Sequence[str], zones: Mapping[str, str], *, as_json: bool
) -> None:
    """Each observation of a job with the fields that were new or had changed."""
    seen = store.observations("job", {"job_id": job_id})
    rows = [row for row in seen.iter_rows(named=True) if not clusters or row["cluster"] in clusters]
    if not rows:
        raise UsageError(f"no job {job_id} in the store")
    before: dict[tuple[Any, ...], dict[str, Any]] = {}
    table: list[tuple[str | None, ...]] = []
    for row in rows:
        key = tuple(row[name] for name in _KEY)
        last = before.setdefault(key, {})
        changed = {
            name: row[name]
            for name in JOB_SCHEMA
            if name not in _KEY and row[name] is not None and row[name] != last.get(name)
        }
        last.update(changed)
        if as_json:
            about = {name: row[name] for name in (*_KEY, "seen_at", "source", "reconstructed")}
            print_json(about | {"changed": changed})
        else:
            zone = ZoneInfo(zones.get(row["cluster"], "UTC"))
            moment = datetime.fromtimestamp(row["seen_at"], zone).strftime("%Y-%m-%dT%H:%M:%S")
            what = " ".join(f"{name}={value}" for name, value in changed.items()) or "nothing new"
            origin = row["source"] + (" (final record)" if row["reconstructed"] else "")
            table.append((row["cluster"], moment, origin, what))
    if table:
        print_table(("cluster", "seen at", "source", "what was new"), table, shorten=["what was new"])
