"""The collector: a scheduler's history into the store, then, round after round, what is new.

How far it has come is a cursor in the store, set in the same write as the records before it: killed at any
moment, it goes on from there, and what it reads again the store knows. Accounting hears of a job's end late.
So each round asks the controller first how much it has yet to hand over: while that is not nothing, the
moment from which ends may be missing is kept in the store too, and everything from there on is read again
later. And a job that the controller shows as ended, or has no longer, is waited for until accounting tells
of it (`awaited.py`).

A collector that has caught up hears of ends from the controller, which it asks anyway, and reads accounting
up to two minutes ago: a job's last steps are in it by then, and each job is read once. One that runs once
reads up to now.

A Slurm without accounting is collected from its controller alone: ends that nobody saw are unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Protocol

import polars as pl

from forewarn.assess.assessment import Assessment
from forewarn.assess.node_health import cache_health, node_health
from forewarn.errors import (
    ForewarnError,
    NoAccountingError,
    SchedulerError,
    StoreBusyError,
    UnreachableError,
    UsageError,
)
from forewarn.operate.awaited_ends import GIVEN_UP, AwaitedEnds
from forewarn.operate.ingest_file import review
from forewarn.operate.observe import Also, ObservedCounts, keep, unknown_ends, without_known_ends
from forewarn.sources.base import INCOMPLETE, Batch
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.store.base import Store, StoreWriter

DAY = 86400
BEGINNING = 30 * DAY  # how much history is read where nobody says it
LATE = 120  # seconds by which a job's last steps are told after it, and clocks differ
AWAY = 900  # seconds without a look at the controller after which an end was seen by nobody
LONGEST_GAP = 7 * DAY  # what is read again, at most, after somebody was away
HANDED_OVER = (
    3600  # seconds after which a gap is read again though the controller is never done; then doubled
)
MOST_JOBS = 50_000  # of history, a round; then it rests as long as it has worked
SURROUNDINGS = 600  # seconds between looks at nodes and partitions, and for an accounting that there was not
REVIEW = 3600  # seconds between looks for fields that give the outcome away, which take a whole scan
ASSESSMENTS_KEPT = 400 * DAY  # a year, and what is compared with it
LONGEST_WAIT = 300  # seconds between rounds in which nothing answers


@dataclass(frozen=True, slots=True)
class RoundAssessments:
    """What was said of live jobs, and of which something kept it from being said."""

    assessments: Sequence[Assessment] = ()
    troubles: Sequence[str] = ()


class LiveAssessor(Protocol):
    """Who assesses live jobs (`operate/live_assessment.py`), which needs the learners."""

    def after(self, at: int) -> RoundAssessments:
        """What is said after a round, of what is new in the store."""


@dataclass(slots=True, kw_only=True)
class CollectorRound:
    """What a round brought, and what it asked of Slurm."""

    at: int
    new_jobs: int = 0
    changed_jobs: int = 0
    nodes_and_partitions: int = 0
    assessed: int = 0  # live jobs, as they came or something became known of them
    warned: int = 0  # of these
    unknown_ends: int = 0  # jobs that ended unseen, and of which nobody can tell how
    bad: int = 0  # records that could not be read
    incomplete: int = 0  # rows of jobs whose own record accounting has not got yet: they are read again
    behind: bool = False  # there is more history than one round takes
    lag: int | None = None  # seconds from the cursor to now
    requests: int = 0
    received: int = 0  # bytes
    seconds: float = 0.0
    troubles: dict[str, str] = field(default_factory=dict)  # what could not be read, and why
    notes: list[str] = field(default_factory=list)

    def add(self, kept: ObservedCounts) -> None:
        """Count what was written."""
        self.new_jobs += kept.new_jobs
        self.changed_jobs += kept.changed_jobs
        self.nodes_and_partitions += kept.others


@dataclass(frozen=True, slots=True)
class Gap:
    """A time of which accounting may still learn: from when on, when that was noticed, how long to wait."""

    since: int
    noticed: int
    wait: int = HANDED_OVER

    @classmethod
    def parse(cls, text: str | None) -> Gap | None:
        """What the store keeps; nothing where there is none."""
        return cls(*map(int, text.split())) if text else None

    def __str__(self) -> str:
        return f"{self.since} {self.noticed} {self.wait}"

    def after_reading(self, now: int) -> Gap:
        """The same when it was read while the controller had more to tell: next time after twice as long."""
        return Gap(max(self.since, now - LONGEST_GAP), now, 2 * self.wait)


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
        watch: LiveAssessor | None = None,
        whose: str | None = None,  # of whom a person's own history is: the cursor is theirs
        assessments_kept: int = ASSESSMENTS_KEPT,  # seconds
    ) -> None:
        self._whose, self._assessments_kept = whose, assessments_kept
        self._store, self._scheduler, self._watch = store, scheduler, watch
        self._since, self._timezone, self._most_jobs = since, timezone, most_jobs
        self._stopped = Event()
        self._clock = clock or Clock(sleep=self._rest)
        self._surroundings_at: float | None = None
        self._no_accounting_at: float | None = None  # when it was last found that there is none
        self._awaited: AwaitedEnds | None = None
        self._unseen: list[Batch] = []  # live jobs that ended before somebody looked
        self._queue: int | None = (
            None  # what the controller has yet to tell accounting; None: it does not say
        )
        self._goes_on = False  # another round follows: what accounting hears late, that one reads
        self._caught_up = False  # accounting has been read up to now once
        self._review_at: float | None = None
        self._ended = False  # outcomes have come since the last review

    # --- rounds --------------------------------------------------------------------------------------

    def once(self) -> Iterator[CollectorRound]:
        """Rounds until everything up to now is there. Trouble is raised when all else has been read."""
        while True:
            done, errors = self._round()
            yield done
            if errors or not done.behind or self._stopped.is_set():
                break
            self._clock.sleep(done.seconds)
        self._review()
        if errors:
            raise errors[0]

    def _rest(self, seconds: float) -> None:
        self._stopped.wait(seconds)

    def stop(self) -> None:
        """End `forever` and `once` after the round that they are in: for another thread to call."""
        self._stopped.set()

    def forever(self, interval: float) -> Iterator[CollectorRound]:
        """Rounds until `stop`. Trouble is waited out; what does not pass by itself, ends it at the start."""
        failed, worked = 0, False
        self._goes_on = True
        while not self._stopped.is_set():
            done, errors = self._round()
            lasting = [e for e in errors if isinstance(e, SchedulerError) and not e.transient]
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

    def _round(self) -> tuple[CollectorRound, list[Exception]]:
        begun, asked = self._clock.monotonic(), self._scheduler.load
        done = CollectorRound(at=int(self._clock.now()))
        errors: list[Exception] = []
        # The controller first: what it shows as ended, accounting may tell in the same round.
        parts: tuple[tuple[str, Callable[[CollectorRound], None]], ...] = (
            ("live jobs", self._live_jobs),
            ("history", self._history),
            ("late ends", self._late_ends),
            ("nodes", self._surroundings),
        )
        for name, read in parts:
            try:
                if errors and isinstance(errors[-1], UnreachableError):
                    raise errors[-1]  # nobody is there to be asked
                read(done)
            except UsageError:
                raise
            except Exception as error:
                # A full disk, an answer that makes no sense: it is waited out like a daemon that is away.
                done.troubles[name] = _words(error)
                errors.append(error)
                if not isinstance(error, SchedulerError):
                    self._awaited = None  # what was written is not what it believes
        self._look_at(done)
        load = self._scheduler.load
        done.requests, done.received = load.requests - asked.requests, load.received - asked.received
        done.seconds = self._clock.monotonic() - begun
        return done, errors

    def _look_at(self, done: CollectorRound) -> None:
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

    def _live_jobs(self, done: CollectorRound) -> None:
        at = int(self._clock.now())
        if self._awaited is None:
            self._awaited = AwaitedEnds(self._store, self._scheduler.cluster, at, self._whose)
        awaited = self._awaited
        batches = list(self._scheduler.live_jobs())
        shown = batches
        last = self._store.cursor(self._seen)
        self._unseen = []
        if last is None or at - int(last) > AWAY:
            # Nobody looked when these ended: accounting tells when that was, and they count as known then.
            # All known only now would leave a young history without any to learn from.
            has_ended = pl.col("outcome").is_not_null()
            self._unseen = [replace(batch, frame=batch.frame.filter(has_ended)) for batch in batches]
            shown = [replace(batch, frame=batch.frame.filter(~has_ended)) for batch in batches]

        def wait_for_the_others(writer: StoreWriter, sightings: Sequence[pl.DataFrame]) -> None:
            awaited.seen([batch.frame for batch in batches], at)
            awaited.ended(sightings, at)
            awaited.save(writer)
            writer.set_cursor(self._seen, str(at))

        self._keep(done, [without_known_ends(self._store, b) for b in shown], also=wait_for_the_others)

    def _keep_unseen(self, done: CollectorRound) -> None:
        """Of those that ended when nobody looked, keep what only the controller says.

        This includes the end itself where accounting has not reported it yet; accounting is asked about it.
        """
        awaited, at = self._awaited, int(self._clock.now())

        def wait_for_accounting(writer: StoreWriter, sightings: Sequence[pl.DataFrame]) -> None:
            if awaited is not None:
                awaited.ended(sightings, at)
                awaited.save(writer)

        known = [without_known_ends(self._store, batch) for batch in self._unseen]
        self._keep(done, known, also=wait_for_accounting)
        self._unseen = []

    def _surroundings(self, done: CollectorRound) -> None:
        if self._is_due(self._surroundings_at, SURROUNDINGS):
            self._keep(done, self._scheduler.nodes())
            self._keep(done, self._scheduler.partitions())
            self._surroundings_at = self._clock.monotonic()

    def _history(self, done: CollectorRound) -> None:
        try:
            if self._no_accounting_at is None or self._is_due(self._no_accounting_at, SURROUNDINGS):
                self._read_history(done)
                self._no_accounting_at = None
        except NoAccountingError as error:
            if not self._store.cursor(self._first):  # it is told the first time only
                done.notes.append(f"{error}. {_LOST_WITHOUT_ACCOUNTING}")
                keep(self._store, (), cursors={self._first: str(done.at)})
            self._keep(done, self._unseen)
            self._unseen = []
            self._no_accounting_at = self._clock.monotonic()
        if self._no_accounting_at is not None and "live jobs" not in done.troubles:
            # For whoever asks how fresh this is; a history would begin here, if there is one some day.
            keep(self._store, (), cursors={self._cursor: str(done.at)})
            done.lag = 0

    def _read_history(self, done: CollectorRound) -> None:
        now = int(self._clock.now())
        start, cursors = self._beginning(now)
        until = self._end(now, done)
        self._caught_up = False  # until it has come through: who was away is read up to now
        reached, read = start, 0
        done.lag = now - reached
        for piece in self._scheduler.history(start, until):
            whole_window = piece.reached > reached
            reached = max(reached, piece.reached)
            moved = cursors | {self._cursor: str(reached)} if whole_window else None
            self._keep(done, [_ended(piece.batch)], moved, also=self._settle)
            done.notes += piece.notes
            done.lag = now - reached
            read += piece.batch.frame.height
            if whole_window and read >= self._most_jobs and reached < until:
                done.behind = True
                return
        # Quiet hours have no pieces. What is later than LATE before the cursor is read again from here.
        self._keep(done, (), cursors | {self._cursor: str(now)})
        self._caught_up = True
        done.lag = 0
        if self._unseen:
            self._keep_unseen(done)

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
        # Before accounting is asked: what the controller has told by now, accounting has.
        self._queue = self._waiting_ends()
        gap = Gap.parse(self._store.cursor(self._gap))
        if gap is None and self._queue != 0:
            gap = Gap(max(start, now - LONGEST_GAP), now)
            keep(self._store, (), cursors={self._gap: str(gap)})
        elif gap is not None and (self._queue == 0 or now - gap.noticed > gap.wait):
            # From here on the cursor, which is set back, remembers what is left to read.
            left = "" if self._queue == 0 else str(gap.after_reading(now))
            start, cursors = min(start, gap.since), cursors | {self._gap: left}
        return start, cursors

    def _end(self, now: int, done: CollectorRound) -> int:
        """Where this round's history ends: before what may still change, if the controller tells of that."""
        controller_tells = not self._unseen and "live jobs" not in done.troubles
        return now - LATE if self._goes_on and self._caught_up and controller_tells else now

    def _waiting_ends(self) -> int | None:
        """How much the controller has to tell accounting yet; None where it cannot be asked."""
        try:
            return self._scheduler.diag().database_queue
        except SchedulerError:
            return None

    def _late_ends(self, done: CollectorRound) -> None:
        """Ask accounting about the jobs that are waited for; mark those that nobody will tell of."""
        awaited, at = self._awaited, int(self._clock.now())
        if awaited is None or "live jobs" in done.troubles or "history" in done.troubles or done.behind:
            return
        if self._no_accounting_at is not None:
            # Not in the round in which it is missed: an answer may lack it for once.
            lost = awaited.give_up(done.at, after=0)
        else:
            if due := awaited.due(at):
                told = [_ended(batch) for batch in self._scheduler.accounted(awaited.ids(due))]
                self._keep(done, told, also=self._settle)
                awaited.asked(due, at)
            lost = awaited.give_up(at, GIVEN_UP if self._queue == 0 else LONGEST_GAP)
        if lost or awaited.is_changed:
            marks = unknown_ends(self._store, self._scheduler.cluster, lost, at)
            kept = keep(self._store, [marks], also=lambda writer, _: awaited.save(writer))
            done.unknown_ends += kept.changed_jobs

    def _settle(self, writer: StoreWriter, told: Sequence[pl.DataFrame]) -> None:
        if self._awaited is not None:
            self._awaited.told(told)
            self._awaited.save(writer)

    # --- what is kept --------------------------------------------------------------------------------

    @property
    def _cursor(self) -> str:
        return f"collect {self._scheduler.cluster}" + (f" of {self._whose}" if self._whose else "")

    @property
    def _first(self) -> str:
        return f"{self._cursor} from"

    @property
    def _seen(self) -> str:
        """When the controller was last asked."""
        return f"{self._cursor} seen"

    @property
    def _gap(self) -> str:
        return f"{self._cursor} gap"

    def _keep(
        self,
        done: CollectorRound,
        batches: Iterable[Batch],
        cursors: dict[str, str] | None = None,
        also: Also | None = None,
    ) -> None:
        read = list(batches)
        kept = keep(self._store, read, timezone=self._timezone, cursors=cursors, also=also)
        done.add(kept)
        left_out = [row for batch in read for row in batch.bad]
        bad = [row for row in left_out if row.reason != INCOMPLETE]
        done.incomplete += len(left_out) - len(bad)
        if bad and not done.bad:
            done.notes.append(f"a record could not be read and is left out: {bad[0]}")
        done.bad += len(bad)
        self._ended |= kept.ended

    def _review(self) -> None:
        """Keep up which fields give an outcome away by their absence, and how healthy the nodes are."""
        if self._ended:
            cluster, at = self._scheduler.cluster, int(self._clock.now())
            if self._whose is None:  # of one person's jobs it says nothing of the cluster's fields
                review(self._store, [cluster])
            revision = self._store.revision(cluster=cluster)
            health = node_health(self._store, cluster, at)
            with self._store.writing() as writer:
                cache_health(writer, cluster, health, at, revision)
                writer.forget_assessments(cluster, at - self._assessments_kept)
            self._ended, self._review_at = False, self._clock.monotonic()


_LOST_WITHOUT_ACCOUNTING = (
    "Jobs are collected from the controller alone: how they ended as long as it shows them (MinJobAge), and "
    "neither earlier jobs nor what jobs used (CPU time, memory). What ends while nobody looks is `unknown`"
)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, ForewarnError) else f"{type(error).__name__}: {error}"


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
