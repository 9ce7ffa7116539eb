"""Deletion by age: jobs that ended long ago, old assessments, audit lines, sessions and notices.

The online state is computed again from the jobs that are left, so that online and batch features stay equal:
a store that was pruned is like one that began to collect later.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

from forewarn.config import Config
from forewarn.operate.access.audit import write_audit_line
from forewarn.operate.access.home_actions import home_owner
from forewarn.operate.access.identity import Identity
from forewarn.operate.online_state import LONGEST
from forewarn.operate.upkeep.patience import patiently, writing_patiently
from forewarn.operate.upkeep.windows import drop_computed, forget_jobs, job_keys, program_keys, windows
from forewarn.operate.workspace import Workspace
from forewarn.progress import ShowProgress, no_progress
from forewarn.store.base import Store
from forewarn.store.filters import Between, Filter, Missing
from forewarn.store.opening import location_of
from forewarn.store.people import EntryType, PeopleStore

DAY = 86400
SESSIONS_KEPT = 90  # days; a session ends long before
_THINNED = ("node", "partition")


@dataclass(slots=True, kw_only=True)
class PruneResult:
    """What a deletion by age deleted, or would delete."""

    dry_run: bool
    history_before: int | None  # Unix seconds: jobs that ended before are deleted; None: none are
    assessments_before: int
    audit_before: int
    jobs: dict[str, int] = field(default_factory=dict)  # by cluster
    programs: int = 0
    observations: int = 0  # of nodes and partitions; None of those that the current view rests on
    assessments: int = 0
    entries: dict[str, int] = field(default_factory=dict)  # audit lines, sessions, …
    rejects: int = 0  # files of rows that could not be read
    freed: int = 0  # bytes

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to delete."""
        parts = (self.programs, self.observations, self.assessments, self.rejects)
        return not (any(parts) or any(self.jobs.values()) or any(self.entries.values()))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def prune(
    workspace: Workspace,
    *,
    history_kept: int | None = None,
    dry_run: bool = False,
    at: int | None = None,
    people: PeopleStore | None = None,
    by: Identity | None = None,
    watch: ShowProgress = no_progress,
) -> PruneResult:
    """Delete what is older than the settings say. Other processes, and engines of this one, go on.

    Parameters
    ----------
    history_kept
        Days, instead of the setting of that name.
    dry_run
        Count, and delete nothing.
    people
        The open store of people's entries; else it is opened.
    by
        Who deletes, for the audit line; else whoever runs the command.
    """
    config, today = workspace.config, int(time.time()) if at is None else at
    at = workspace.now() if at is None else at  # jobs live by the cluster's clock, people by the wall clock
    result = _cuts(config, history_kept or config.history_kept, at, today, dry_run=dry_run)
    location = location_of(config)
    if location.exists:
        store = workspace.reading() if dry_run else workspace.writing()
        with watch("deleting old records") as progress:
            for cluster in store.clusters():
                _prune_cluster(store, cluster, result, at)
                progress(sum(result.jobs.values()))
    with ExitStack() as stack:
        if people is None and location.has_people:
            people = stack.enter_context(location.open_people())
        if people is not None:
            _prune_people(people, result, today)
        _prune_rejects(config, result, today - at)
        if not dry_run and not result.is_empty:
            people = people or stack.enter_context(location.open_people())
            _write_down(people, result, by or home_owner())
    if location.exists and not dry_run and not result.is_empty:
        with watch("freeing the disk"):
            result.freed = patiently(workspace.writing().reclaim)
    return result


def _write_down(people: PeopleStore, result: PruneResult, by: Identity) -> None:
    """Add what was deleted to the audit log."""
    names = ("dry_run", "freed")  # not dry, and not known yet
    details = {name: value for name, value in result.to_json().items() if value and name not in names}
    # The audit log hides what is named as a secret is, such as `session`.
    details["entries"] = {f"{name} entries": number for name, number in result.entries.items()}
    write_audit_line(people, by, "store.prune", details=details)


def _cuts(config: Config, history_kept: int | None, at: int, today: int, *, dry_run: bool) -> PruneResult:
    # No assessment outlives the history that it is about.
    assessments_kept = min(config.assessments_kept, history_kept or config.assessments_kept)
    return PruneResult(
        dry_run=dry_run,
        history_before=None if history_kept is None else at - history_kept * DAY,
        assessments_before=at - assessments_kept * DAY,
        audit_before=today - config.audit_kept * DAY,
    )


def ended_before(before: int, at: int) -> Filter:
    """Return what jobs pass that ended before a time, or were last seen before it and cannot be live."""
    lost = Missing("end") & Between("seen_at", most=before - 1) & Between("submit", most=at - LONGEST)
    return Between("end", most=before - 1) | lost


def _prune_cluster(store: Store, cluster: str, result: PruneResult, at: int) -> None:
    before, keep_from = result.history_before, result.assessments_before
    old = store.assessments(cluster=cluster, until=keep_from, columns=["made_at"])
    result.assessments += old.height
    if old.height and not result.dry_run:
        with writing_patiently(store) as writer:
            writer.forget_assessments(cluster, keep_from)
    if before is None:
        return
    ended, seen = ended_before(before, at), Between("seen_at", most=before - 1)
    if result.dry_run:
        counts = (job_keys(store, cluster, ended, *ends).height for ends in windows(store, cluster, before))
        result.jobs[cluster] = sum(counts)
        result.programs += program_keys(store, cluster, seen).height
        return
    result.jobs[cluster] = sum(forget_jobs(store, cluster, ended, before))
    with writing_patiently(store) as writer:
        for kind in _THINNED:
            result.observations += writer.thin(kind, cluster, before)
        programs = program_keys(store, cluster, seen)
        if programs.height:
            result.programs += writer.forget("program", programs)
            drop_computed(writer, cluster)


def _prune_people(people: PeopleStore, result: PruneResult, today: int) -> None:
    cuts: dict[EntryType, int] = {
        "audit": result.audit_before,
        "session": today - SESSIONS_KEPT * DAY,
        "notice": result.assessments_before,
        "acknowledgement": result.assessments_before,
    }
    counts: Counter[str] = Counter()
    for entry_type, before in cuts.items():
        if result.dry_run:
            counts[entry_type] = len(people.entries(entry_type, until=before))
        else:
            counts[entry_type] = people.forget(entry_type, before)
    result.entries = {name: count for name, count in counts.items() if count}


def _prune_rejects(config: Config, result: PruneResult, ahead: int) -> None:
    """Delete old files of rows that could not be read: they hold rows of jobs.

    Files have the wall clock's time, which is `ahead` seconds ahead of the cluster's.
    """
    if result.history_before is None:
        return
    for path in (config.home / "rejects").glob("*.jsonl"):
        if path.stat().st_mtime < result.history_before + ahead:
            result.rejects += 1
            if not result.dry_run:
                path.unlink(missing_ok=True)
