"""The collector: read a scheduler's history into the store, then, round after round, what is new.

How far it has come is a cursor in the store, set in the same write as the records before it. Killed at any
moment, it continues from there, and the store recognises records that it reads again. Accounting gets the end
of a job late. So each round first asks the controller how many messages it has yet to send to slurmdbd: while
there are any, the time whose ends may be missing is read again later (`accounting_position.py`). And a job
that the controller shows as ended, or no longer lists, is awaited until accounting has its end
(`awaited_ends.py`).

A collector that has caught up learns of ends from the controller, which it asks in any case, and reads
accounting only up to two minutes ago: by then a job's last steps are recorded, so each job is read once. One
that runs once reads up to now.

A Slurm without accounting is collected from its controller alone: the outcome of a job that ended unobserved
is unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from threading import Event

import polars as pl

from forewarn.assess.node_health.classification import node_health
from forewarn.assess.node_health.health_cache import cache_health
from forewarn.errors import (
    ForewarnError,
    NoAccountingError,
    SchedulerError,
    StoreBusyError,
    UnreachableError,
    UsageError,
)
from forewarn.formatting import count
from forewarn.operate.accounting_position import LATE, LONGEST_GAP, AccountingPosition
from forewarn.operate.awaited_ends import GIVE_UP_AFTER, AwaitedEnds
from forewarn.operate.collector_round import CollectorRound, LiveAssessor
from forewarn.operate.ingest_file import review_missing_fields
from forewarn.operate.observe import (
    ExtraWrite,
    only_ended,
    unknown_end_records,
    without_known_ends,
    write_batches,
)
from forewarn.sources.base import INCOMPLETE, Batch
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.store.base import Store, StoreWriter

AWAY = 900  # seconds since the controller last answered after which ends count as unobserved
MOST_JOBS = 50_000  # of history in one round; after such a round, rest as long as it took
LONG, FAR = 30, 3600  # seconds of reading after which a round ends that is so far from now
MACHINE_EVERY = 600  # seconds between reads of nodes and partitions, and between tries to find accounting
REVIEW_EVERY = 3600  # seconds between reviews of missing fields, each of which scans the whole store
ASSESSMENTS_KEPT = 400 * 86400  # seconds: a year, and some time to compare it with
SHORTEST_WAIT = 5  # seconds between rounds, however many notices come
LONGEST_WAIT = 300  # seconds between rounds while nothing answers


class Collector:
    """A collector of one cluster, or of one user's jobs of it.

    Parameters
    ----------
    since
        Where the history begins, the first time.
    most_jobs
        Jobs of history that one round reads.
    user
        Whose jobs the scheduler returns; None: everybody's. The cursors are this user's own.
    assessments_kept
        Seconds after which stored assessments are deleted.
    """

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        *,
        since: int | None = None,
        timezone: str | None = None,
        most_jobs: int = MOST_JOBS,
        clock: Clock | None = None,
        live_assessor: LiveAssessor | None = None,
        user: str | None = None,
        assessments_kept: int = ASSESSMENTS_KEPT,
    ) -> None:
        self._user, self._assessments_kept = user, assessments_kept
        self._store, self._scheduler, self._live_assessor = store, scheduler, live_assessor
        self._since, self._timezone, self._most_jobs = since, timezone, most_jobs
        self._stopped, self._wake = Event(), Event()
        clock = clock or Clock()
        # A clock without a sleep of its own gets one that `stop` ends.
        self._clock = replace(clock, sleep=self._rest) if clock.sleep is time.sleep else clock
        self._position = AccountingPosition(store, scheduler.cluster, user)
        self._awaited: AwaitedEnds | None = None
        self._unobserved: list[Batch] = []  # jobs listed by the controller that ended before it was asked
        self._queue: int | None = None  # messages that the controller has yet to send to slurmdbd, if known
        self._is_continuous = False  # another round follows, which reads what accounting gets late
        self._caught_up = False  # accounting has been read up to now once
        self._has_new_outcomes = False  # since the last review
        # When each was last done, by the monotonic clock.
        self._machine_read_at: float | None = None
        self._no_accounting_at: float | None = None
        self._reviewed_at: float | None = None

    # --- rounds --------------------------------------------------------------------------------------

    def once(self) -> Iterator[CollectorRound]:
        """Run rounds until everything up to now is read, then raise the first error of the last round."""
        while True:
            this_round, errors = self._round()
            yield this_round
            if errors or not this_round.behind or self._stopped.is_set():
                break
            self._clock.sleep(this_round.seconds)
        self._review()
        if errors:
            raise errors[0]

    def _rest(self, seconds: float) -> None:
        """Wait for so many seconds of the cluster's clock; of a fast one, at least one of the wall clock."""
        speed = self._clock.speed
        seconds = max(seconds / speed, min(seconds, 1.0)) if speed > 1 else seconds / speed
        shortest = min(seconds, SHORTEST_WAIT)
        if not self._stopped.wait(shortest) and self._wake.wait(seconds - shortest):
            self._wake.clear()

    def hurry(self) -> None:
        """Begin the next round soon, as somebody gave notice of a job; any thread may call it."""
        self._wake.set()

    def stop(self) -> None:
        """End `forever` and `once` after the current round; any thread may call it."""
        self._stopped.set()
        self._wake.set()

    def forever(self, interval: float) -> Iterator[CollectorRound]:
        """Run rounds until `stop`, and retry after errors.

        Before the first successful round, raise an error that does not pass by itself.
        """
        failures, has_succeeded = 0, False
        self._is_continuous = True
        while not self._stopped.is_set():
            this_round, errors = self._round()
            lasting = [e for e in errors if isinstance(e, SchedulerError) and not e.transient]
            if lasting and not has_succeeded:
                raise lasting[0]
            has_failed = "history" in this_round.troubles and "live jobs" in this_round.troubles
            failures, has_succeeded = (failures + 1, has_succeeded) if has_failed else (0, True)
            if self._is_due(self._reviewed_at, REVIEW_EVERY) and not this_round.behind:
                try:
                    self._review()
                except StoreBusyError:
                    pass  # retry after the next round
                except Exception as error:
                    this_round.troubles["review"] = _message(error)
                    self._reviewed_at = self._clock.monotonic()
            yield this_round
            if this_round.behind:
                self._clock.sleep(this_round.seconds)
            else:
                wait = min(interval * 2**failures, max(interval, LONGEST_WAIT))
                self._clock.sleep(max(0.0, wait - this_round.seconds))

    def _round(self) -> tuple[CollectorRound, list[Exception]]:
        begin, before = self._clock.monotonic(), self._scheduler.request_counts
        this_round = CollectorRound(at=int(self._clock.now()))
        errors: list[Exception] = []
        # The controller first: jobs that it shows as ended may be in accounting in the same round.
        parts: tuple[tuple[str, Callable[[CollectorRound], None]], ...] = (
            ("live jobs", self._live_jobs),
            ("history", self._history),
            ("late ends", self._late_ends),
            ("nodes", self._machine),
        )
        for name, read in parts:
            try:
                if errors and isinstance(errors[-1], UnreachableError):
                    raise errors[-1]  # nothing answers: do not wait for the next timeout
                read(this_round)
            except UsageError:
                raise
            except Exception as error:
                # A full disk or a malformed answer is retried like a daemon that is down.
                this_round.troubles[name] = _message(error)
                errors.append(error)
                if name == "live jobs" and isinstance(error, SchedulerError):
                    this_round.slurm_trouble = _message(error)
                if not isinstance(error, SchedulerError):
                    self._awaited = None  # memory may differ from the store: read it again
        self._assess(this_round)
        after = self._scheduler.request_counts
        this_round.requests = after.requests - before.requests
        this_round.received = after.received - before.received
        this_round.seconds = self._clock.monotonic() - begin
        return this_round, errors

    def _assess(self, this_round: CollectorRound) -> None:
        """Assess the live jobs for which something is new, unless more history waits to be read."""
        if self._live_assessor is None:
            return
        try:
            if this_round.behind:
                self._live_assessor.follow_models()  # which must not wait until a long history is read
                return
            result = self._live_assessor.assess_round(int(self._clock.now()))
        except Exception as error:
            # A broken model or record must not stop the collection of history.
            this_round.troubles["assessments"] = _message(error)
            return
        this_round.assessed = len(result.assessments)
        this_round.warned = sum(bool(one.failure and one.failure.warns) for one in result.assessments)
        if result.troubles:
            others = len(result.troubles) - 1
            more = f" (and {count(others, 'more job')})" if others else ""
            this_round.troubles["assessments"] = result.troubles[0] + more

    def _is_due(self, last: float | None, every: float) -> bool:
        return last is None or self._clock.monotonic() - last >= every

    # --- reading -------------------------------------------------------------------------------------

    def _live_jobs(self, this_round: CollectorRound) -> None:
        at = int(self._clock.now())
        if self._awaited is None:
            self._awaited = AwaitedEnds(self._store, self._scheduler.cluster, at, self._user)
        awaited = self._awaited
        batches = list(self._scheduler.live_jobs())
        observed = batches
        last = self._position.controller_seen_at
        self._unobserved = []
        if last is None or at - last > AWAY:
            # Nobody observed when these ended. Accounting has the time, and their outcomes count as known
            # from then. If all became known only now, a young history would have none to learn from.
            has_ended = pl.col("outcome").is_not_null()
            self._unobserved = [replace(batch, frame=batch.frame.filter(has_ended)) for batch in batches]
            observed = [replace(batch, frame=batch.frame.filter(~has_ended)) for batch in batches]

        def await_the_others(writer: StoreWriter, observations: Sequence[pl.DataFrame]) -> None:
            awaited.update_live([batch.frame for batch in batches], at)
            awaited.await_ended(observations, at)
            awaited.save(writer)
            writer.set_cursor(self._position.controller_cursor, str(at))

        without_ends = [without_known_ends(self._store, batch) for batch in observed]
        self._write(this_round, without_ends, also=await_the_others)

    def _write_unobserved(self, this_round: CollectorRound) -> None:
        """Write what only the controller knows of jobs that ended unobserved.

        This includes the end itself where accounting does not have it yet; accounting is asked about it.
        """
        awaited, at = self._awaited, int(self._clock.now())

        def await_accounting(writer: StoreWriter, observations: Sequence[pl.DataFrame]) -> None:
            if awaited is not None:
                awaited.await_ended(observations, at)
                awaited.save(writer)

        without_ends = [without_known_ends(self._store, batch) for batch in self._unobserved]
        self._write(this_round, without_ends, also=await_accounting)
        self._unobserved = []

    def _machine(self, this_round: CollectorRound) -> None:
        if self._is_due(self._machine_read_at, MACHINE_EVERY):
            self._write(this_round, self._scheduler.nodes())
            self._write(this_round, self._scheduler.partitions())
            self._machine_read_at = self._clock.monotonic()

    def _history(self, this_round: CollectorRound) -> None:
        position = self._position
        try:
            if self._no_accounting_at is None or self._is_due(self._no_accounting_at, MACHINE_EVERY):
                self._read_history(this_round)
                self._no_accounting_at = None
        except NoAccountingError as error:
            if not position.has_begun:  # one note is enough
                this_round.notes.append(f"{error}. {_LOST_WITHOUT_ACCOUNTING}")
                write_batches(self._store, (), cursors={position.first_cursor: str(this_round.at)})
            self._write(this_round, self._unobserved)
            self._unobserved = []
            self._no_accounting_at = self._clock.monotonic()
        if self._no_accounting_at is not None and "live jobs" not in this_round.troubles:
            # It shows how fresh the store is; if accounting is added one day, its history begins here.
            write_batches(self._store, (), cursors={position.cursor: str(this_round.at)})
            this_round.lag = 0

    def _read_history(self, this_round: CollectorRound) -> None:
        at = int(self._clock.now())
        # Before accounting is read: what the controller has sent by now is in it.
        self._queue = self._database_queue()
        start, cursors = self._position.start(at, self._since, self._queue)
        until = self._until(at, this_round)
        self._caught_up = False  # until this read is complete: after an error, read up to now
        reached, jobs_read, begun = start, 0, self._clock.monotonic()
        this_round.lag = at - reached
        for piece in self._scheduler.history(start, until):
            is_whole_window = piece.reached > reached
            reached = max(reached, piece.reached)
            moved = cursors | {self._position.cursor: str(reached)} if is_whole_window else None
            self._write(this_round, [only_ended(piece.batch)], moved, also=self._settle)
            this_round.notes += piece.notes
            this_round.lag = at - reached
            jobs_read += piece.batch.frame.height
            # More than what each round reads again: or a slow slurmdbd would never let it come further.
            is_long = self._clock.monotonic() - begun >= LONG and reached - start > FAR < until - reached
            if is_whole_window and reached < until and (is_long or jobs_read >= self._most_jobs):
                this_round.behind = True
                return
        # Quiet hours have no pieces. The next read begins LATE seconds before the cursor.
        self._write(this_round, (), cursors | {self._position.cursor: str(at)})
        self._caught_up = True
        this_round.lag = 0
        if self._unobserved:
            self._write_unobserved(this_round)

    def _until(self, at: int, this_round: CollectorRound) -> int:
        """Find where this read of accounting ends: before records that may change, if that does no harm."""
        controller_has_newer = not self._unobserved and "live jobs" not in this_round.troubles
        return at - LATE if self._is_continuous and self._caught_up and controller_has_newer else at

    def _database_queue(self) -> int | None:
        """Count the messages that the controller has yet to send to slurmdbd; None where it does not say."""
        try:
            return self._scheduler.diag().database_queue
        except SchedulerError:
            return None

    def _late_ends(self, this_round: CollectorRound) -> None:
        """Query accounting for awaited ends; give jobs whose end never came an unknown outcome."""
        awaited, at, troubles = self._awaited, int(self._clock.now()), this_round.troubles
        if awaited is None or "live jobs" in troubles or "history" in troubles or this_round.behind:
            return
        if self._no_accounting_at is not None:
            # Not in the round in which a job first misses: one answer may lack it.
            lost = awaited.give_up(this_round.at, after=0)
        else:
            if due := awaited.due(at):
                records = self._scheduler.accounting_records(awaited.query_ids(due))
                self._write(this_round, [only_ended(batch) for batch in records], also=self._settle)
                awaited.postpone(due, at)
            lost = awaited.give_up(at, GIVE_UP_AFTER if self._queue == 0 else LONGEST_GAP)
        if lost or awaited.is_changed:
            unknown = unknown_end_records(self._store, self._scheduler.cluster, lost, at)
            counts = write_batches(self._store, [unknown], also=lambda writer, _: awaited.save(writer))
            this_round.unknown_ends += counts.changed_jobs

    def _settle(self, writer: StoreWriter, jobs: Sequence[pl.DataFrame]) -> None:
        if self._awaited is not None:
            self._awaited.settle(jobs)
            self._awaited.save(writer)

    # --- writing -------------------------------------------------------------------------------------

    def _write(
        self,
        this_round: CollectorRound,
        batches: Iterable[Batch],
        cursors: dict[str, str] | None = None,
        also: ExtraWrite | None = None,
    ) -> None:
        batches = list(batches)
        counts = write_batches(self._store, batches, timezone=self._timezone, cursors=cursors, also=also)
        this_round.add(counts)
        skipped = [row for batch in batches for row in batch.bad]
        bad = [row for row in skipped if row.reason != INCOMPLETE]
        this_round.incomplete += len(skipped) - len(bad)
        if bad and not this_round.bad:
            this_round.notes.append(f"a record could not be read and was skipped: {bad[0]}")
        this_round.bad += len(bad)
        self._has_new_outcomes |= counts.ended

    def _review(self) -> None:
        """Update the treatments of fields whose absence reveals the outcome, and the nodes' health."""
        if self._has_new_outcomes:
            cluster, at = self._scheduler.cluster, int(self._clock.now())
            if self._user is None:  # one user's jobs do not show how the cluster records its fields
                review_missing_fields(self._store, [cluster])
            revision = self._store.revision(cluster=cluster)
            health = node_health(self._store, cluster, at)
            with self._store.writing() as writer:
                cache_health(writer, cluster, health, at, revision)
                writer.forget_assessments(cluster, at - self._assessments_kept)
            self._has_new_outcomes, self._reviewed_at = False, self._clock.monotonic()


_LOST_WITHOUT_ACCOUNTING = (
    "Jobs are collected from the controller alone: outcomes while it still lists a job (MinJobAge), but no "
    "earlier jobs and no usage (CPU time, memory). A job that ends unobserved gets the outcome `unknown`"
)


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, ForewarnError) else f"{type(error).__name__}: {error}"
