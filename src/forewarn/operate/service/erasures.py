"""The thread that notices when a user is erased, and drops what a service has in memory about the person."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event as ThreadEvent
from threading import Thread

from forewarn.errors import ForewarnError
from forewarn.operate.access.access import Access
from forewarn.operate.events.bus import EventBus
from forewarn.operate.notices.notifier import Notifier
from forewarn.operate.retry import drop_counted
from forewarn.operate.workspace import Workspace

log = logging.getLogger(__name__)
LOOK_EVERY = 1.0  # seconds


class ErasureWatch:
    """A thread that looks at the store's number of erasures.

    An erasure raises it twice: when it begins, from when on no record comes back, and when it has ended, so
    that what was read in between is dropped as well.
    """

    def __init__(self, workspace: Workspace, bus: EventBus, notifier: Notifier, access: Access) -> None:
        self._workspace, self._bus, self._notifier, self._access = workspace, bus, notifier, access
        self._seen = 0
        self._stopped = ThreadEvent()
        self._thread = Thread(target=self._run, name="erasures", daemon=True)

    def start(self) -> None:
        """Learn who was erased before, and start the thread."""
        self._guarded(self.once)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def once(self) -> None:
        """Drop what is in memory about users who were erased since the last look."""
        store = self._workspace.reading()
        erasures = store.erasures()
        if erasures == self._seen:
            return
        barred = store.load_barred_users()
        self._bus.erase(lambda event: barred.includes(event.user, event.data.get("submit", event.time)))
        self._notifier.erase(barred.includes)
        self._access.drop_ended()
        self._workspace.drop_cached()
        drop_counted(self._workspace)
        self._seen = erasures

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_EVERY):
            self._guarded(self.once)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (ForewarnError, OSError) as error:  # the store is busy, or its key is missing
            log.warning("erasures: %s", error)
