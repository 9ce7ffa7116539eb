"""`Service`: what a long-running process holds, and what its interfaces ask.

It owns the store of the home, an engine for each cluster, the thread that keeps them up to date, the bus of
events, the notices, and the daily upkeep. Interfaces (REST, later the dashboard) parse, ask it, and render.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from time import time
from typing import Any, Self

from forewarn import __version__
from forewarn.assess.assessment import Assessment
from forewarn.config import Config
from forewarn.errors import ForewarnError
from forewarn.job.record import Job
from forewarn.operate.access.access import Access
from forewarn.operate.assess_jobs import assess_jobs
from forewarn.operate.events.bus import EventBus
from forewarn.operate.events.publishing import PublishChanges
from forewarn.operate.events.stored_events import StoredEvents
from forewarn.operate.notices.notifier import Notifier
from forewarn.operate.service.daily import DailyUpkeep
from forewarn.operate.service.erasures import ErasureWatch
from forewarn.operate.service.forwarding import Forwarding
from forewarn.operate.service.readiness import Readiness, readiness_of
from forewarn.operate.service.updates import Updates
from forewarn.operate.site import Site
from forewarn.operate.thresholds import mirror_thresholds
from forewarn.operate.workspace import Workspace
from forewarn.progress import Note, log_note
from forewarn.store.opening import open_people_store

log = logging.getLogger(__name__)


class Service:
    """A service of one home. `start` it, ask it from any thread, `stop` it."""

    def __init__(self, config: Config, *, note: Note = log_note) -> None:
        """Open the home; `note` receives what the owner of the process should know."""
        self.config = config
        self.started_at = int(time())
        self.version = __version__
        self._resources = ExitStack()
        self.workspace = Workspace(config, long_lived=True)
        self._resources.callback(self.workspace.close)
        self.site = Site(config, self.workspace)
        self.people = self._resources.enter_context(open_people_store(config))
        self.access = Access(config, self.people)
        self._resources.callback(self.access.close)
        self.bus = EventBus(StoredEvents(self.workspace.writing))
        self.publisher = PublishChanges(self.bus)
        self.updates = Updates(self.workspace, self.publisher, note)
        self.notifier = Notifier(config, self.people, self.workspace, now=lambda: self.workspace.clock.now())
        self._forwarding = Forwarding(self.bus, self.notifier, self.workspace)
        self._erasures = ErasureWatch(self.workspace, self.bus, self.notifier, self.access)
        self._daily = DailyUpkeep(self.workspace, self.people)
        self.is_stopping = False

    def start(self) -> None:
        """Open the store, load models and state of every cluster, then keep them up to date."""
        self.updates.check_configuration()
        self.workspace.writing()
        self.updates.look_at_clusters()
        for cluster in self.clusters:
            try:
                self.workspace.engine(cluster)
            except ForewarnError as error:  # serve the other clusters, and say so in `readiness`
                log.warning("%s cannot be served yet: %s", cluster, error)
        mirror_thresholds(self.workspace)
        self._erasures.start()
        self.notifier.start()
        self._forwarding.start()
        self.updates.start()
        self._daily.start()

    def announce_stop(self) -> None:
        """Tell streams to end, so that a stop does not wait for them."""
        self.is_stopping = True
        self.bus.close()

    def stop(self) -> None:
        """End all threads after what they hold, and close all files."""
        self.announce_stop()
        parts = (self.updates, self._daily, self._forwarding, self.notifier, self._erasures)
        with ExitStack() as stack:  # where one cannot be stopped, the others are
            stack.callback(self._resources.close)
            for part in reversed(parts):
                stack.callback(part.stop)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def notice(self, cluster: str | None, job_id: str) -> bool:
        """Look at a job soon: a hook says that it is new, starts or ended; False: this does not collect."""
        log.debug("notice of job %s of %s", job_id, cluster)
        return self.updates.hurry()

    def assess(self, jobs: Sequence[Job], *, full: bool = False) -> list[Assessment]:
        """Assess jobs now: the prediction alone, or in full with reasons, similar jobs and advice."""
        return assess_jobs(self.workspace, jobs, full=full, prediction_only=not full)

    def readiness(self) -> Readiness:
        """Tell whether requests can be answered well now, and what is missing."""
        return readiness_of(self.workspace, self.updates.status, has_died=self.updates.has_died)

    @property
    def clusters(self) -> Collection[str]:
        """The clusters that the store knew when this process last looked; no caller waits for the store."""
        return self.updates.clusters

    @property
    def job_defaults(self) -> Mapping[str, Any]:
        """Fields that a job may leave out: the cluster, where it is configured or the only one."""
        clusters = self.clusters
        only = next(iter(clusters)) if len(clusters) == 1 else self.config.cluster
        return {"job_id": "", **({"cluster": only} if only else {})}
