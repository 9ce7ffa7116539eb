"""Erasure of a user: all records of the person go, and do not come back when accounting is read again.

The steps are in an order in which a process that is killed leaves no way back; the same command again does
what is left.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from forewarn.config import Config
from forewarn.errors import UsageError
from forewarn.files import write_file
from forewarn.operate.upkeep.erase_entries import erase_entries
from forewarn.operate.upkeep.patience import patiently, writing_patiently
from forewarn.operate.upkeep.traces import files_with_mention, models_trained
from forewarn.operate.upkeep.windows import drop_computed, forget_jobs, job_keys, program_keys, windows
from forewarn.operate.workspace import Workspace
from forewarn.progress import ShowProgress, no_progress
from forewarn.store.base import ASSESSMENT_KEY, Store
from forewarn.store.filters import Equal
from forewarn.store.name_mentions import mention_pattern, new_pseudonym
from forewarn.store.opening import location_of
from forewarn.store.people import ErasedEntries

FOR_EVER = (1 << 62) - 1
_TEXTS = ("user", "group", "account", "name", "work_dir", "submit_line", "dependency", "reason")
_DAYS_AT_ONCE = 30 * 86400  # of assessments, whose bodies are read


@dataclass(slots=True, kw_only=True)
class ErasureResult:
    """What an erasure deleted, or would delete, and what is left."""

    dry_run: bool
    pseudonym: str | None = None  # stands for the name in audit lines from now on
    jobs: dict[str, int] = field(default_factory=dict)  # by cluster
    programs: int = 0
    assessments: int = 0
    entries: ErasedEntries = field(default_factory=ErasedEntries)
    cursors: int = 0
    rejected_rows: int = 0
    jobs_of_others: int = 0  # that mention the name, as a path or an account: these stay
    files: list[str] = field(default_factory=list)  # of the home that mention the name, and were not changed
    models: list[str] = field(default_factory=list)  # that learnt from the jobs: no name is in them
    freed: int = 0  # bytes

    @property
    def found_nothing(self) -> bool:
        """Whether no trace of the name was found."""
        counts = (self.programs, self.assessments, self.cursors, self.rejected_rows, self.jobs_of_others)
        return not any((*self.jobs.values(), *counts, self.entries.deleted, self.entries.renamed, self.files))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def erase_user(
    workspace: Workspace,
    user: str,
    *,
    future: bool = False,
    dry_run: bool = False,
    at: int | None = None,
    by: str | None = None,
    watch: ShowProgress = no_progress,
) -> ErasureResult:
    """Erase a user from the home.

    Parameters
    ----------
    future
        Also refuse jobs that the user submits later; else those from now on are recorded again.
    dry_run
        Count, and change nothing.
    by
        Who erases, for the audit line.
    """
    if not user.strip():
        raise UsageError("name the user to erase")
    config, erased_at = workspace.config, int(time.time()) if at is None else at
    at = workspace.now() if at is None else at  # a simulated cluster's jobs are not of the wall clock's time
    location = location_of(config)
    result = ErasureResult(dry_run=dry_run, pseudonym=None if dry_run else new_pseudonym())
    if location.exists:
        store = workspace.reading() if dry_run else workspace.writing()
        if not dry_run:
            with writing_patiently(store) as writer:  # first: from now on nothing of before comes back
                writer.bar_user(user, FOR_EVER if future else at + 1)
        with watch("erasing jobs") as progress:
            for cluster in store.clusters():
                _erase_jobs(store, cluster, user, result)
                progress(sum(result.jobs.values()))
        _erase_assessments(store, user, result)
        _erase_cursors(store, user, result)
    if location.has_people and result.pseudonym is not None:
        with location.open_people() as people:
            result.entries = erase_entries(people, user, result.pseudonym)
            people.add("audit", {"action": "user.erase", "of": result.pseudonym, "by": by}, at=erased_at)
    _erase_rejects(config.home, user, result)
    if location.exists and not dry_run:
        with watch("writing the whole store again"):
            result.freed = patiently(lambda: workspace.writing().reclaim(wipe=True))
        with writing_patiently(
            workspace.writing()
        ) as writer:  # again: services drop what they read in between
            writer.bar_user(user, FOR_EVER if future else at + 1)
    _report_what_is_left(workspace, user, result)
    return result


def _erase_jobs(store: Store, cluster: str, user: str, result: ErasureResult) -> None:
    of_user = Equal("user", user)
    if result.dry_run:
        counts = (job_keys(store, cluster, of_user, *ends).height for ends in windows(store, cluster))
        result.jobs[cluster] = sum(counts)
        result.programs += program_keys(store, cluster, of_user).height
        return
    # First those that are about the jobs, by the jobs' keys, which are gone then.
    for since, until in windows(store, cluster):
        _drop_assessments_of(store, job_keys(store, cluster, of_user, since, until), result)
    result.jobs[cluster] = sum(forget_jobs(store, cluster, of_user))
    if (programs := program_keys(store, cluster, of_user)).height:
        with writing_patiently(store) as writer:
            result.programs += writer.forget("program", programs)
            drop_computed(writer, cluster)


def _drop_assessments_of(store: Store, jobs: pl.DataFrame, result: ErasureResult) -> None:
    if jobs.is_empty():
        return
    cluster = jobs["cluster"][0]
    keys = store.assessments(cluster=cluster, columns=ASSESSMENT_KEY)
    keys = keys.join(jobs, on=["cluster", "job_id", "submit"], how="semi")
    if keys.height:
        with writing_patiently(store) as writer:
            result.assessments += writer.drop_assessments(keys)


def _erase_assessments(store: Store, user: str, result: ErasureResult) -> None:
    """Delete assessments that name the user: of jobs that are not in the store any more, too."""
    times = store.assessments(columns=["made_at"])["made_at"]
    if times.is_empty():
        return
    for since in range(int(times[0]), int(times[-1]) + 1, _DAYS_AT_ONCE):
        frame = store.assessments(since=since, until=since + _DAYS_AT_ONCE, columns=[*ASSESSMENT_KEY, "body"])
        of_user = pl.Series([_is_about(body, user) for body in frame["body"]], dtype=pl.Boolean)
        keys = frame.filter(of_user).select(ASSESSMENT_KEY)
        if keys.is_empty():
            continue
        if result.dry_run:
            result.assessments += keys.height
            continue
        with writing_patiently(store) as writer:
            result.assessments += writer.drop_assessments(keys)


def _is_about(body: str | None, user: str) -> bool:
    """Check whether an assessment is about a job of a user; an older form does not say whose job it is."""
    if body is None:
        return False
    value = json.loads(body)
    if isinstance(value, dict) and "user" in value:
        return bool(value["user"] == user)
    return mention_pattern(user).search(body) is not None


def _erase_cursors(store: Store, user: str, result: ErasureResult) -> None:
    mention = mention_pattern(user)
    names = [name for name in store.cursors() if mention.search(name)]
    result.cursors = len(names)
    if names and not result.dry_run:
        with writing_patiently(store) as writer:
            for name in names:
                writer.drop_cursor(name)


def _erase_rejects(home: Path, user: str, result: ErasureResult) -> None:
    """Delete rows that name the user from the files of rows that could not be read."""
    mention = mention_pattern(user)
    for path in sorted((home / "rejects").glob("*.jsonl")):
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines(keepends=True)
        kept = [line for line in lines if not mention.search(_plain(line))]
        result.rejected_rows += len(lines) - len(kept)
        if len(kept) < len(lines) and not result.dry_run:
            write_file(path, "".join(kept).encode("utf-8", "surrogateescape"), private=True)


def _plain(line: str) -> str:
    """Return a line of JSON with its escapes decoded."""
    with suppress(ValueError):
        return json.dumps(json.loads(line), ensure_ascii=False)
    return line


def _report_what_is_left(workspace: Workspace, user: str, result: ErasureResult) -> None:
    config: Config = workspace.config
    if location_of(config).exists:
        name = rf"(^|[^\w-]){_escaped(user)}([^\w-]|$)"
        texts = pl.any_horizontal(pl.col(column).str.contains(name).fill_null(False) for column in _TEXTS)
        others = pl.col("user").ne_missing(user) & texts
        for frame in workspace.reading().scan(columns=_TEXTS):
            result.jobs_of_others += int(frame.select(others.sum()).item())
    result.files = files_with_mention(config.home, user)
    result.models = models_trained(config.home)


def _escaped(text: str) -> str:
    return "".join(f"\\x{{{ord(c):x}}}" for c in text)
