"""`Notifier`: takes what the collector finds, and sends notices from a thread of its own.

The collector only puts into a bounded queue: it never waits for a mail server and never sees an error. The
thread gathers for a short while, ranks, writes to the outbox, and sends.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from queue import Empty, Full, Queue
from threading import Event, Thread
from time import monotonic, time
from typing import Any

from forewarn.assess.assessment import Assessment
from forewarn.assess.node_health.records import NodeHealth
from forewarn.assess.post_mortem.explain import explain
from forewarn.assess.post_mortem.report import PostMortem
from forewarn.config import Config
from forewarn.errors import ForewarnError
from forewarn.job.columns import to_records
from forewarn.job.outcomes import POLICIES
from forewarn.job.record import Job
from forewarn.operate.notices import wording
from forewarn.operate.notices.array_tasks import pending_tasks
from forewarn.operate.notices.planning import Planner
from forewarn.operate.notices.recovery import first_on, recent_changes
from forewarn.operate.notices.rules import RuleSetting, SiteChanges
from forewarn.operate.notices.sending import NoticeSender
from forewarn.operate.workspace import Workspace
from forewarn.store.people import PeopleStore

log = logging.getLogger(__name__)
MOST_WAITING = 1000  # rounds in the queue: hours of a collector, if the thread stands still
TICK = 5.0  # seconds between looks at what is due
REVIEW_EVERY = 600.0  # seconds between looks at the rules' scores
IsErased = Callable[[str | None, int | None], bool]  # by the user and the submit of a job
STOP_WITHIN = 10.0  # seconds for which a stop waits for a mail server


class Notifier:
    """The notices of a service: `start` it, pass what is new, `stop` it.

    Without a way of sending in the configuration it does nothing. One process of a home sends at a time.
    """

    def __init__(
        self,
        config: Config,
        people: PeopleStore,
        workspace: Workspace,
        *,
        explain_job: Callable[[Job], PostMortem | None] | None = None,
        now: Callable[[], float] = time,
    ) -> None:
        self.config, self._people, self._workspace, self._now = config, people, workspace, now
        self._explain = explain_job or self._explain_by_record
        self.sent: Counter[str] = Counter()  # notices, by rule
        self.dropped = 0  # rounds that did not fit into the queue
        self._queue: Queue[SiteChanges] = Queue(MOST_WAITING)
        self._stopped = Event()
        self._thread: Thread | None = None
        self._claim: AbstractContextManager[object] | None = None
        self._is_erased: IsErased | None = None  # a new one: the outbox must be read again
        self._is_left_out: IsErased = lambda _user, _submit: False
        self.planner: Planner | None = None
        self.sender: NoticeSender | None = None

    @property
    def is_on(self) -> bool:
        """Whether a way of sending is configured."""
        return self.config.notices.can_send

    # --- called by the collector's thread ------------------------------------------------------------------

    def on_assessments(self, assessments: Iterable[Assessment]) -> None:
        """Take new assessments of live jobs."""
        self._put(lambda: SiteChanges(assessments=list(assessments)))

    def on_ended(self, jobs: Iterable[Job]) -> None:
        """Take jobs that have ended, with their outcomes."""
        self._put(lambda: SiteChanges(ended=list(jobs)))

    def on_health(self, nodes: Iterable[NodeHealth]) -> None:
        """Take the health of all nodes of a cluster."""
        self._put(lambda: SiteChanges(health=list(nodes)))

    def _put(self, changes: Callable[[], SiteChanges]) -> None:
        if not self.is_on or self._stopped.is_set():
            return
        try:
            taken = changes()
            if taken:
                self._queue.put_nowait(taken)
        except Full:
            self.dropped += 1
            if self.dropped == 1:
                log.warning("notices: the queue is full; changes are left out until it is shorter")
        except Exception:
            log.exception("notices: a change could not be taken")

    def erase(self, is_erased: IsErased) -> None:
        """Drop what the thread holds about erased users, before it looks at anything else."""
        self._is_erased = is_erased

    # --- the thread --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread, unless no way of sending is configured."""
        if self.is_on and self._thread is None:
            if self.config.serve.url is None:
                log.warning("notices: %s", wording.NO_LINK)
            self._thread = Thread(target=self._run, name="notices", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Write what is gathered to the outbox, and end the thread; what is not sent yet waits there."""
        self._stopped.set()
        if self._thread is not None:
            with suppress(Full):
                self._queue.put_nowait(SiteChanges())  # wakes the thread
            self._thread.join(STOP_WITHIN)
            if self._thread.is_alive():
                log.warning("notices: the mail server still holds a notice; it will not be sent again")

    def status(self) -> dict[str, Any]:
        """Return how sending does, for health checks and metrics."""
        channels = {} if self.sender is None else dict(self.sender.channels)
        return {
            "on": self.is_on,
            "sent": self.sent.total(),
            "queued": self._queue.qsize(),
            "dropped": self.dropped,
            "problems": {name: one.problem for name, one in channels.items() if one.problem},
        }

    def _run(self) -> None:
        try:
            while not self._stopped.is_set() and not self._try_to_begin():
                self._stopped.wait(TICK)
            last_review = -REVIEW_EVERY
            while not self._stopped.is_set():
                gathered = self._gather()
                self.process(gathered, int(self._now()))
                if monotonic() - last_review >= REVIEW_EVERY:
                    self._guarded(self._review)
                    last_review = monotonic()
            rest = self._without_erased(self._drain(SiteChanges()))
            if rest and self.planner is not None:
                self.planner.take(rest, int(self._now()))
        except Exception:  # the service lives on without notices, and says so
            log.exception("notices: the thread has ended")
        finally:
            if self._claim is not None:
                self._claim.__exit__(None, None, None)
                self._claim = None

    def begin(self) -> None:
        """Read the outbox, and catch up with what a process before this one may not have written there."""
        is_erased = self._is_erased
        policy = POLICIES[self.config.policy]
        setting = RuleSetting(self.config.notices, policy, self._explain, self._pending_tasks)
        self.planner = Planner(
            setting, self._people, timezone=self.config.timezone or "UTC", find_job=self._find_job
        )
        self.sender = NoticeSender(self.config, self.planner)
        self.sender.sent = self.sent  # goes on after an erasure
        if is_erased is not None:
            self._is_left_out = is_erased
            self._is_erased = None if self._is_erased is is_erased else self._is_erased
        at = int(self._now())
        self._guarded(lambda: self._catch_up(at))

    def process(self, changes: SiteChanges, at: int) -> None:
        """Write notices of changes, and send what is due. Errors are logged: the next round goes on."""
        if self._is_erased is not None:
            self._guarded(self.begin)  # with the outbox as it is now
        changes = self._without_erased(changes)
        planner, sender = self.planner, self.sender
        assert planner is not None
        assert sender is not None
        if changes:
            self._guarded(lambda: planner.take(changes, at))
        self._guarded(lambda: planner.write_digests(at))
        self._guarded(lambda: sender.send(at, is_stopping=self._stopped.is_set))

    def _without_erased(self, changes: SiteChanges) -> SiteChanges:
        return SiteChanges(
            assessments=[one for one in changes.assessments if not self._is_left_out(one.user, one.submit)],
            ended=[one for one in changes.ended if not self._is_left_out(one.user, one.submit)],
            health=changes.health,
        )

    def _try_to_begin(self) -> bool:
        """Begin if no other process of this home sends notices."""
        try:
            if self._claim is None:
                self._claim = self._workspace.reading().claim("notices")
            if self._claim is None:
                return False
            self.begin()
        except ForewarnError as error:  # no store yet, or it is busy
            log.debug("notices: %s", error)
            return False
        return True

    def _gather(self) -> SiteChanges:
        """Wait for changes; gather for the configured window, so that they are ranked together."""
        changes = SiteChanges()
        try:
            changes = self._queue.get(timeout=self._pause())
        except Empty:
            return changes
        end = monotonic() + self.config.notices.window
        while (left := end - monotonic()) > 0 and not self._stopped.wait(min(left, 0.2)):
            self._drain(changes)
        return self._drain(changes)

    def _pause(self) -> float:
        due = self.sender.next_due() if self.sender else None
        return TICK if due is None else min(TICK, max(0.2, due - self._now()))

    def _drain(self, changes: SiteChanges) -> SiteChanges:
        while True:
            try:
                more = self._queue.get_nowait()
            except Empty:
                return changes
            changes.assessments += more.assessments
            changes.ended += more.ended
            changes.health += more.health

    def _review(self) -> None:
        assert self.planner is not None
        at = int(self._now())
        self.planner.review(at)
        self.planner.forget(at)

    def _catch_up(self, at: int) -> None:
        assert self.planner is not None
        changes = recent_changes(self._workspace.reading(), at, first_on(self._people, at))
        if changes:
            self.planner.take(changes, at)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except ForewarnError as error:
            log.warning("notices: %s", error)
        except Exception:
            log.exception("notices: an error that is not expected")

    def _find_job(self, cluster: str, job_id: str) -> Job | None:
        frames = self._workspace.reading().scan(cluster=cluster, job_ids=[job_id])
        found = [job for frame in frames for job in to_records(frame, Job)]
        return max(found, key=lambda job: job.submit, default=None)

    def _pending_tasks(self, assessment: Assessment) -> list[str]:
        try:
            return pending_tasks(self._workspace.reading(), assessment)
        except ForewarnError as error:  # a busy store: the notice is about the one task
            log.warning("notices: the tasks of %s are not known: %s", assessment.job_id, error)
            return []

    def _explain_by_record(self, job: Job) -> PostMortem | None:
        """Explain a failure without its log: no path of a user is read with the service's rights."""
        try:
            return explain(
                job, self._workspace.reading(), policy=POLICIES[self.config.policy], reads_logs=False
            )
        except Exception as error:
            log.warning("notices: job %s cannot be explained: %s", job.job_id, type(error).__name__)
            return None
