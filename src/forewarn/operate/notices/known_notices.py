"""The newest notices in memory, by id and by recipient: what was sent today, held, or is yet to be judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from forewarn.operate.notices.notice import Notice

MOST = 20_000  # a busy day of a large site has some thousands


class KnownNotices:
    """Notices by id and by recipient."""

    def __init__(self, notices: Iterable[Notice] = ()) -> None:
        self._by_id: dict[str, Notice] = {}
        self._of: defaultdict[str, dict[str, Notice]] = defaultdict(dict)
        self._fill(notices)

    def keep(self, notice: Notice) -> None:
        """Remember a notice as it is now; of too many, forget the oldest half."""
        self._by_id[notice.id] = notice
        self._of[notice.recipient][notice.id] = notice
        if len(self._by_id) > 2 * MOST:
            newest = sorted(self._by_id.values(), key=lambda one: one.at)[-MOST:]
            self._fill(newest)

    def forget(self, before: int) -> None:
        """Forget the notices from before a time."""
        self._fill([one for one in self if one.at >= before])

    def drop(self, notice: Notice) -> None:
        """Forget one notice."""
        self._by_id.pop(notice.id, None)
        self._of[notice.recipient].pop(notice.id, None)

    def get(self, notice_id: str) -> Notice | None:
        """Return a notice."""
        return self._by_id.get(notice_id)

    def of(self, recipient: str) -> list[Notice]:
        """Return the notices to a recipient."""
        return list(self._of.get(recipient, {}).values())

    def __iter__(self) -> Iterator[Notice]:
        return iter(list(self._by_id.values()))

    def _fill(self, notices: Iterable[Notice]) -> None:
        self._by_id.clear()
        self._of.clear()
        for notice in notices:
            self.keep(notice)
