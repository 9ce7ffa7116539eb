"""The collector: a scheduler's history into the store, then, round after round, what is new.

How far it has come is a cursor in the store, set in the same write as the records before it: killed at any
moment, it goes on from there, and what it reads again the store knows. Accounting hears of a job's end late:
each round begins a little before the cursor. Where somebody was away for longer (slurmdbd, its database, the
collector itself), the controller may still have ends to hand over that lie far behind: that gap is kept in
the store too, and read again once the controller says that it has nothing left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import polars as pl

from forewarn.assess.assessment import Assessment
from forewarn.assess.node_health import keep_health, node_health
from forewarn.errors import SchedulerError, StoreBusyError, UnreachableError
from forewarn.operate.ingest import review
from forewarn.operate.sightings import Kept, keep
from forewarn.sources.base import Batch
from forewarn.sources.clock import Clock
from forewarn.sources.live import Scheduler
from forewarn.store.base import Store

DAY = 86400
BEGINNING = 30 * DAY  # how much history is read where nobody says it
LATE = 600  # seconds by which accounting may hear late: what is read again each round
LONGEST_GAP = 7 * DAY  # what is read again, at most, after somebody was away
HANDED_OVER = 3600  # seconds after which a gap is read again though the controller is never done
MOST_JOBS = 50_000  # of history, a round; then it rests as long as it has worked
SURROUNDINGS = 600  # seconds between looks at nodes and partitions
REVIEW = 3600  # seconds between looks for fields that give the outcome away, which take a whole scan
LONGEST_WAIT = 300  # seconds between rounds in which nothing answers


@dataclass(frozen=True, slots=True)
class Said:
    """What was said of live jobs, and of which something kept it from being said."""

    assessments: Sequence[Assessment] = ()
    troubles: Sequence[str] = ()


class Watch(Protocol):
    """Who assesses live jobs (`operate/watch.py`), which needs the learners."""

    def after(self, at: int) -> Said:
        """What is said after a round, of what is new in the store."""


@dataclass(slots=True, kw_only=True)
class Round:
    """What a round brought, and what it asked of Slurm."""

    at: int
    new_jobs: int = 0
    changed_jobs: int = 0
    nodes_and_partitions: int = 0
    assessed: int = 0  # live jobs, as they came or something became known of them
    warned: int = 0  # of these
    bad: int = 0  # records that could not be read
    behind: bool = False  # there is more history than one round takes
    lag: int | None = None  # seconds from the cursor to now
    requests: int = 0
    received: int = 0  # bytes
    seconds: float = 0.0
    troubles: dict[str, str] = field(default_factory=dict)  # what could not be read, and why
    notes: list[str] = field(default_factory=list)

    def add(self, kept: Kept) -> None:
        """Count what was written."""
        self.new_jobs += kept.new_jobs
        self.changed_jobs += kept.changed_jobs
        self.nodes_and_partitions += kept.others


@dataclass(frozen=True, slots=True)
class Gap:
    """A time of which accounting may still learn: from when on, and when that was noticed."""

    since: int
    noticed: int

    @classmethod
    def parse(cls, text: str | None) -> Gap | None:
        """What the store keeps; nothing where there is none."""
        return cls(*map(int, text.split())) if text else None

    def __str__(self) -> str:
        return f"{self.since} {self.noticed}"


class Collector:
    """Collects one cluster. `since` is where its history begins, the first time."""

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        *,
        since: int | None = None,
        timezone: str | None = None,
        most_jobs: int = MOST_JOBS,
        clock: Clock | None = None,
        watch: Watch | None = None,
        whose: str | None = None,  # of whom a person's own history is: the cursor is theirs
    ) -> None:
        self._whose = whose
        self._store, self._scheduler, self._watch = store, scheduler, watch
        self._since, self._timezone, self._most_jobs = since, timezone, most_jobs
        self._clock = clock or Clock()
        self._surroundings_at: float | None = None
        self._review_at: float | None = None
        self._ended = False  # outcomes have come since the last review

    # --- rounds --------------------------------------------------------------------------------------

    def once(self) -> Iterator[Round]:
        """Rounds until everything up to now is there. Trouble is raised when all else has been read."""
        while True:
            done, errors = self._round()
            yield done
            if errors or not done.behind:
                break
            self._clock.sleep(done.seconds)
        self._review()
        if errors:
            raise errors[0]

    def forever(self, interval: float) -> Iterator[Round]:
        """Rounds without end. Trouble is waited out; what does not pass by itself, ends it at the start."""
        failed, worked = 0, False
        while True:
            done, errors = self._round()
            lasting = [error for error in errors if not getattr(error, "passing", True)]
            if lasting and not worked:
                raise lasting[0]
            nothing = "history" in done.troubles and "live jobs" in done.troubles
            failed, worked = (failed + 1, worked) if nothing else (0, True)
            if self._is_due(self._review_at, REVIEW) and not done.behind:
                try:
                    self._review()
                except StoreBusyError:
                    pass  # then with the next round
                except Exception as error:
                    done.troubles["review"] = _words(error)
                    self._review_at = self._clock.monotonic()
            yield done
            if done.behind:
                self._clock.sleep(done.seconds)
            else:
                wait = min(interval * 2**failed, max(interval, LONGEST_WAIT))
                self._clock.sleep(max(0.0, wait - done.seconds))

    def _round(self) -> tuple[Round, list[SchedulerError | StoreBusyError]]:
        begun, asked = self._clock.monotonic(), self._scheduler.load
        done = Round(at=int(self._clock.now()))
        errors: list[SchedulerError | StoreBusyError] = []
        parts: tuple[tuple[str, Callable[[Round], None]], ...] = (
            ("history", self._history),
            ("live jobs", self._live_jobs),
            ("nodes", self._surroundings),
        )
        for name, read in parts:
            try:
                if errors and isinstance(errors[-1], UnreachableError):
                    raise errors[-1]  # nobody is there to be asked
                read(done)
            except (SchedulerError, StoreBusyError) as error:
                done.troubles[name] = str(error)
                errors.append(error)
        self._look_at(done)
        load = self._scheduler.load
        done.requests, done.received = load.requests - asked.requests, load.received - asked.received
        done.seconds = self._clock.monotonic() - begun
        return done, errors

    def _look_at(self, done: Round) -> None:
        """Have the live jobs assessed of which something is new; not in the midst of a long history."""
        if self._watch is None or done.behind:
            return
        try:
            said = self._watch.after(int(self._clock.now()))
        except Exception as error:
            # Whatever is wrong with a model or a record must not keep the history from being collected.
            done.troubles["assessments"] = _words(error)
            return
        done.assessed = len(said.assessments)
        done.warned = sum(bool(one.failure and one.failure.warns) for one in said.assessments)
        if said.troubles:
            more = f" (and {len(said.troubles) - 1} more)" if len(said.troubles) > 1 else ""
            done.troubles["assessments"] = said.troubles[0] + more

    def _is_due(self, last: float | None, every: float) -> bool:
        return last is None or self._clock.monotonic() - last >= every

    # --- what is read --------------------------------------------------------------------------------

    def _live_jobs(self, done: Round) -> None:
        self._keep(done, self._scheduler.live_jobs())

    def _surroundings(self, done: Round) -> None:
        if self._is_due(self._surroundings_at, SURROUNDINGS):
            self._keep(done, self._scheduler.nodes())
            self._keep(done, self._scheduler.partitions())
            self._surroundings_at = self._clock.monotonic()

    def _history(self, done: Round) -> None:
        now = int(self._clock.now())
        start, cursors = self._beginning(now)
        reached, read = start, 0
        done.lag = now - reached
        for piece in self._scheduler.history(start, now):
            whole_window = piece.reached > reached
            reached = max(reached, piece.reached)
            moved = cursors | {self._cursor: str(reached)} if whole_window else None
            self._keep(done, [_ended(piece.batch)], moved)
            done.notes += piece.notes
            done.lag = now - reached
            read += piece.batch.frame.height
            if whole_window and read >= self._most_jobs and reached < now:
                done.behind = True
                return
        # Quiet hours have no pieces.
        self._keep(done, (), cursors | {self._cursor: str(now)})
        done.lag = 0

    def _beginning(self, now: int) -> tuple[int, dict[str, str]]:
        """Where this round's history begins, and what to remember with it."""
        known = self._store.cursor(self._cursor)
        first = self._store.cursor(self._first)
        begin = self._since if self._since is not None else now - BEGINNING
        if known is None or first is None:
            start, cursors = begin, {self._first: str(begin)}
        elif self._since is not None and self._since < int(first):
            start, cursors = self._since, {self._first: str(self._since)}
        else:
            start, cursors = int(known) - LATE, {}
        gap = Gap.parse(self._store.cursor(self._gap))
        if gap is None and now - start <= 1.5 * LATE:
            return start, cursors  # nobody was away
        waiting = self._waiting_ends()
        if gap is None and waiting != 0:
            gap = Gap(max(start, now - LONGEST_GAP), now)
            keep(self._store, (), cursors={self._gap: str(gap)})
        elif gap is not None and (waiting == 0 or now - gap.noticed > HANDED_OVER):
            # From here on the cursor, which is set back, remembers what is left to read.
            start, cursors = min(start, gap.since), cursors | {self._gap: ""}
        return start, cursors

    def _waiting_ends(self) -> int | None:
        """How much the controller has to tell accounting yet; None where it cannot be asked."""
        try:
            return self._scheduler.diag().database_queue
        except SchedulerError:
            return None

    # --- what is kept --------------------------------------------------------------------------------

    @property
    def _cursor(self) -> str:
        return f"collect {self._scheduler.cluster}" + (f" of {self._whose}" if self._whose else "")

    @property
    def _first(self) -> str:
        return f"{self._cursor} from"

    @property
    def _gap(self) -> str:
        return f"{self._cursor} gap"

    def _keep(self, done: Round, batches: Iterable[Batch], cursors: dict[str, str] | None = None) -> None:
        read = list(batches)
        kept = keep(self._store, read, timezone=self._timezone, cursors=cursors)
        done.add(kept)
        bad = [row for batch in read for row in batch.bad]
        if bad and not done.bad:
            done.notes.append(f"a record could not be read and is left out: {bad[0]}")
        done.bad += len(bad)
        self._ended |= kept.ended

    def _review(self) -> None:
        """Keep up which fields give an outcome away by their absence, and how healthy the nodes are."""
        if self._ended:
            cluster, at = self._scheduler.cluster, int(self._clock.now())
            review(self._store, [cluster])
            revision = self._store.revision(cluster=cluster)
            health = node_health(self._store, cluster, at)
            with self._store.writing() as writer:
                keep_health(writer, cluster, health, at, revision)
            self._ended, self._review_at = False, self._clock.monotonic()


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, StoreBusyError) else f"{type(error).__name__}: {error}"


def _ended(batch: Batch) -> Batch:
    """Only jobs that have ended: of the others the controller says more, and when it was so.

    Accounting tells a limit that was changed since as if it had been asked for.
    """
    return Batch(batch.kind, batch.frame.filter(pl.col("outcome").is_not_null()), batch.bad)


def read_history(
    store: Store,
    scheduler: Scheduler,
    since: int,
    *,
    timezone: str | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """A history, once, into a store of its own: how many jobs it had."""
    read = 0
    for piece in scheduler.history(since, int(time.time())):
        keep(store, [piece.batch], timezone=timezone)
        read += piece.batch.frame.height
        progress(read)
    return read
