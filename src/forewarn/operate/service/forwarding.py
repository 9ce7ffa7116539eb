"""The thread that passes events of the bus on to the notices: assessments, ends of jobs, health of nodes."""

from __future__ import annotations

import logging
from threading import Event as ThreadEvent
from threading import Thread
from time import monotonic

from forewarn.assess.assessment import Assessment
from forewarn.errors import ForewarnError
from forewarn.job.json_form import job_from_json
from forewarn.operate.events.bus import EventBus
from forewarn.operate.events.event import Event, EventType
from forewarn.operate.nodes import judge_nodes
from forewarn.operate.notices.notifier import Notifier
from forewarn.operate.workspace import Workspace

log = logging.getLogger(__name__)
HEALTH_EVERY = 600.0  # seconds between looks at the nodes' health
WAIT = 1.0


class Forwarding:
    """A reader of the bus for the notifier."""

    def __init__(self, bus: EventBus, notifier: Notifier, workspace: Workspace) -> None:
        self._bus, self._notifier, self._workspace = bus, notifier, workspace
        self._stopped = ThreadEvent()
        self._next_health = 0.0
        self._thread = Thread(target=self._run, name="forwarding", daemon=True)

    def start(self) -> None:
        """Start the thread, if notices are sent at all."""
        if self._notifier.is_on:
            self._thread.start()

    def stop(self) -> None:
        """End the thread after the events that it holds."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        with self._bus.subscribe() as reader:
            while not self._stopped.is_set() and not reader.is_closed:
                try:
                    self._pass_on(reader.poll())
                    self._pass_on_health()
                except Exception as error:  # notices are no reason to stop anything
                    log.warning("notices: %s", error)
                reader.wait(WAIT)

    def _pass_on(self, events: list[Event]) -> None:
        assessments = [
            Assessment.from_json(event.data) for event in events if event.type == EventType.ASSESSMENT
        ]
        ended = [job_from_json(event.data) for event in events if event.type == EventType.JOB_ENDED]
        if assessments:
            self._notifier.on_assessments(assessments)
        if ended:
            self._notifier.on_ended(ended)

    def _pass_on_health(self) -> None:
        if monotonic() < self._next_health:
            return
        self._next_health = monotonic() + HEALTH_EVERY
        for cluster in self._workspace.reading().clusters():
            try:
                self._notifier.on_health(judge_nodes(self._workspace, cluster=cluster).nodes)
            except ForewarnError as error:  # no nodes yet, or an old history
                log.debug("health of %s: %s", cluster, error)
