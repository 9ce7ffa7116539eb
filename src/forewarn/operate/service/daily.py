"""What a service does once a day: delete what the settings say is kept no longer."""

from __future__ import annotations

import logging
from dataclasses import replace
from threading import Event, Thread

from forewarn.operate.access.home_actions import home_owner
from forewarn.operate.upkeep.prune import prune
from forewarn.operate.workspace import Workspace
from forewarn.store.people import PeopleStore

log = logging.getLogger(__name__)
FIRST_AFTER = 300.0  # seconds after the start, when the service is warm
EVERY = 86400.0
STOP_WITHIN = 5.0  # seconds for which a stop waits for a deletion


class DailyUpkeep:
    """A thread that deletes old records, sessions and audit lines once a day."""

    def __init__(self, workspace: Workspace, people: PeopleStore) -> None:
        self._workspace, self._people = workspace, people
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a long deletion, which is done in small writes, is not waited for."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(STOP_WITHIN)

    def _run(self) -> None:
        wait = FIRST_AFTER
        while not self._stopped.wait(wait):
            wait = EVERY
            try:
                self.once()
            except Exception as error:  # it is tried again tomorrow
                log.warning("upkeep: %s", error)

    def once(self) -> None:
        """Delete what is kept no longer."""
        prune(self._workspace, people=self._people, by=replace(home_owner(), method="service"))
