"""The live jobs to assess again since what answers for them has changed: a model, a threshold, the history.

An assessment is out of date if it was made before the last such change. The store keeps which change that was
and whether all live jobs have been assessed since: a restart neither forgets the rest nor begins again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import inf

from forewarn.operate.engine import Engine
from forewarn.operate.online_state import Key, newest_first
from forewarn.store.base import Store

REMEMBERED = 7 * 86400  # seconds for which assessments are looked at; a job without one is assessed again


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """The last change of what answers: to what, when, and whether all live jobs have been assessed since."""

    to: str  # `Engine.answers_by`
    at: int
    is_done: bool = False

    def to_text(self) -> str:
        """Write it as the store keeps it."""
        return json.dumps([self.to, self.at, self.is_done])


class OutdatedAssessments:
    """The live jobs of one cluster whose turn to be assessed again has not come yet, the most hours first."""

    def __init__(self, store: Store, engine: Engine) -> None:
        self._store, self._engine = store, engine
        self._cursor = f"assessed {engine.cluster}"
        self._change: AnswerChange | None = None
        self._waiting: list[Key] = []  # of a pending array one task

    def waiting(self, at: int) -> list[Key]:
        """Return the jobs that wait, after a look at what answers now."""
        known = self._change or _read(self._store.cursor(self._cursor))
        answers_by = self._engine.answers_by
        if known is None or known.to != answers_by:
            known = AnswerChange(answers_by, at)
            self._save(known)
            self._waiting = self._due_since(at, at)
        elif self._change is None and not known.is_done:
            self._waiting = self._due_since(known.at, at)
        self._change = known
        live = set(self._engine.live) if self._waiting else set[Key]()
        return [key for key in self._waiting if key in live]

    def wait(self, keys: Collection[Key]) -> None:
        """Let these jobs wait for the next round, and no others."""
        assert self._change is not None
        self._waiting = list(keys)
        done = AnswerChange(self._change.to, self._change.at, not keys)
        if done != self._change:
            self._save(done)
            self._change = done

    def _save(self, change: AnswerChange) -> None:
        with self._store.writing() as writer:
            writer.set_cursor(self._cursor, change.to_text())

    def _due_since(self, moment: int, at: int) -> list[Key]:
        """Return the live jobs without an assessment since a moment, the most hours at risk first.

        One that was never assessed comes before all others: nobody knows its hours.
        """
        pending = set(self._engine.pending)
        tasks = Counter(array_of(key) for key in pending)
        found: dict[Key, Key] = {}  # a pending array, or a job: the task or job to assess
        for key in sorted(self._engine.live, key=newest_first):
            found.setdefault(array_of(key) if key in pending else key, key)
        made_at, hours = self._newest(found, at)
        due = [one for one in found if made_at.get(one, -inf) < moment]
        due.sort(key=lambda one: -hours.get(one, inf) * tasks.get(one, 1))
        return [found[one] for one in due]

    def _newest(self, units: Collection[Key], at: int) -> tuple[dict[Key, int], dict[Key, float]]:
        """Read when jobs and arrays were assessed last, and the hours at risk then."""
        made_at: dict[Key, int] = {}
        hours: dict[Key, float] = {}
        since = max(at - REMEMBERED, min((submit for _, submit in units), default=at))
        stored = self._store.assessments(
            cluster=self._engine.cluster,
            since=since,
            columns=["job_id", "submit", "made_at", "hours_at_risk"],
        )
        for job_id, submit, moment, at_risk in stored.iter_rows():
            for unit in {(job_id, submit), array_of((job_id, submit))}:
                if unit in units:
                    made_at[unit], hours[unit] = moment, at_risk or 0.0
        return made_at, hours


def _read(text: str | None) -> AnswerChange | None:
    return None if text is None else AnswerChange(*json.loads(text))


def one_per_array(keys: Iterable[Key]) -> list[Key]:
    """Keep the first task of each array, and all other jobs."""
    representatives: dict[Key, Key] = {}
    for key in keys:
        representatives.setdefault(array_of(key), key)
    return list(representatives.values())


def array_of(key: Key) -> Key:
    """Return the array of a task; of any other job its own key.

    >>> array_of(("7_12", 100)), array_of(("7", 100))
    (('7', 100), ('7', 100))
    """
    job_id, submit = key
    return job_id.partition("_")[0], submit
