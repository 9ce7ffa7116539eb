"""How far a collector has read accounting, and which time it must read again.

The position is a cursor in the store. slurmctld reports the end of a job to slurmdbd through a queue. While
this queue is not empty, ends may be missing from what was read: the time from which they may be missing is a
gap, kept in the store too, and read again once the queue is empty, or after a while.
"""

from __future__ import annotations

from dataclasses import dataclass

from forewarn.operate.observe import write_batches
from forewarn.store.base import Store

DAY = 86400
DEFAULT_HISTORY = 30 * DAY  # seconds of history that are read if the caller does not say where it begins
LATE = 120  # seconds by which a job's last steps are recorded after it, and by which clocks differ
LONGEST_GAP = 7 * DAY  # seconds of history that are read again at most
GAP_WAIT = 3600  # seconds after which a gap is read again though the queue never emptied; doubled each time


@dataclass(frozen=True, slots=True)
class AccountingGap:
    """A time whose ends may still be missing from accounting."""

    since: int
    noticed: int
    wait: int = GAP_WAIT  # seconds until it is read again though the controller's queue is not empty

    @classmethod
    def parse(cls, text: str | None) -> AccountingGap | None:
        """Read a gap from its cursor; None where there is none."""
        return cls(*map(int, text.split())) if text else None

    def __str__(self) -> str:
        return f"{self.since} {self.noticed} {self.wait}"

    def after_reading(self, at: int) -> AccountingGap:
        """Return the gap that is left after a read while the queue was not empty: wait twice as long."""
        return AccountingGap(max(self.since, at - LONGEST_GAP), at, 2 * self.wait)


class AccountingPosition:
    """The cursors of a collector of one cluster, or of one user's jobs of it."""

    def __init__(self, store: Store, cluster: str, user: str | None) -> None:
        self._store = store
        self.cursor = f"collect {cluster}" + (f" of {user}" if user else "")  # accounting is read up to here
        self.first_cursor = f"{self.cursor} from"  # where the history begins
        self.controller_cursor = f"{self.cursor} seen"  # when the controller last answered
        self._gap_cursor = f"{self.cursor} gap"

    @property
    def has_begun(self) -> bool:
        """Whether an earlier round has set where the history begins."""
        return bool(self._store.cursor(self.first_cursor))

    @property
    def controller_seen_at(self) -> int | None:
        """When the controller last answered; None before the first time."""
        text = self._store.cursor(self.controller_cursor)
        return None if text is None else int(text)

    def start(self, at: int, since: int | None, queue: int | None) -> tuple[int, dict[str, str]]:
        """Find where the next read of accounting begins, and the cursors to write with its records.

        Parameters
        ----------
        since
            Where the history begins, if the caller says so.
        queue
            The number of messages that the controller has not sent to slurmdbd yet; None: unknown.
        """
        position, first = self._store.cursor(self.cursor), self._store.cursor(self.first_cursor)
        begin = since if since is not None else at - DEFAULT_HISTORY
        if position is None or first is None:
            start, cursors = begin, {self.first_cursor: str(begin)}
        elif since is not None and since < int(first):
            start, cursors = since, {self.first_cursor: str(since)}
        else:
            start, cursors = int(position) - LATE, {}
        gap = AccountingGap.parse(self._store.cursor(self._gap_cursor))
        if gap is None and queue != 0:
            gap = AccountingGap(max(start, at - LONGEST_GAP), at)
            write_batches(self._store, (), cursors={self._gap_cursor: str(gap)})
        elif gap is not None and (queue == 0 or at - gap.noticed > gap.wait):
            # The cursor is set back to the gap's begin, so the gap itself need not be remembered.
            rest = "" if queue == 0 else str(gap.after_reading(at))
            start, cursors = min(start, gap.since), cursors | {self._gap_cursor: rest}
        return start, cursors
