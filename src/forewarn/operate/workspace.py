"""One site's home in use: its configuration, and its store, opened when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from forewarn.config import Config
from forewarn.errors import UsageError

if TYPE_CHECKING:  # the store's imports are heavy, and not everything opens it
    from forewarn.learn.registry.registry import Registry
    from forewarn.operate.engine import Engine
    from forewarn.store.base import Store


class Workspace:
    """What every function of a site works with. Any number of threads may use it at once.

    A store that is open for writing serves readers too, so that one process holds the file once.
    """

    def __init__(self, config: Config, *, lives: bool = False) -> None:
        """`lives`: the process goes on for long, so that what is known of a cluster is held in memory."""
        self.config, self.lives = config, lives
        self._lock = threading.Lock()
        self._engines: dict[str, Engine] = {}
        self._stores: dict[bool, Store] = {}  # by whether it may write
        self._closed = False

    def reading(self) -> Store:
        """Open the store for reading, or give the one that is open; it belongs to the workspace."""
        return self._store(write=False)

    def writing(self) -> Store:
        """The same for writing; it makes the store where there is none."""
        return self._store(write=True)

    def registry(self) -> Registry:
        """Give the registry of this home's models."""
        from forewarn.learn.registry.registry import Registry

        return Registry(self.config.home, self.config.tracking)

    def cluster(self, asked: str | None) -> str:
        """Find the cluster that is meant: the one asked for, the configured one, or the only one."""
        return chosen_cluster(self.reading().clusters(), asked or self.config.cluster, "the store")

    def engine(self, cluster: str) -> Engine:
        """Give the engine of a cluster: one for all who ask, brought up to what the store has by now."""
        from forewarn.learn.registry.serving import Serving
        from forewarn.operate.engine import Engine

        store = self.reading()
        with self._lock:
            if cluster not in self._engines:
                self._engines[cluster] = Engine(store, cluster, Serving(self.config.home / "models"))
            engine = self._engines[cluster]
        engine.follow_soon()
        return engine

    def close(self) -> None:
        """Close the store. Nothing can be asked afterwards."""
        with self._lock:
            self._closed = True
            self._engines.clear()
            while self._stores:
                self._stores.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _store(self, *, write: bool) -> Store:
        from forewarn.store.opening import open_store

        with self._lock:
            if self._closed:
                raise UsageError(f"{self.config.home}: this site has been closed; open it again")
            found = self._stores.get(True) or self._stores.get(write)
            if found is None:
                found = open_store(self.config, read_only=not write)
                self._stores[write] = found
            return found


def chosen_cluster(known: Mapping[str, Any], asked: str | None, where: str) -> str:
    """Choose the cluster that was asked for, or the only one of those known."""
    if asked is None and len(known) == 1:
        return next(iter(known))
    there = ", ".join(sorted(known)) or "none: read some history with `forewarn ingest`"
    if asked is None:
        raise UsageError(f"--cluster: say which one of {where}; there are {there}")
    if asked not in known:
        raise UsageError(f"--cluster: no cluster {asked!r} in {where}; there are {there}")
    return asked
