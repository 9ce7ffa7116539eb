"""A site's home in use: its configuration, its store and its engines, opened at their first use."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from forewarn.config import Config
from forewarn.errors import UsageError

if TYPE_CHECKING:  # the store's imports are heavy, and not every command needs it
    from forewarn.learn.registry.registry import Registry
    from forewarn.operate.engine import Engine
    from forewarn.store.base import Store


class Workspace:
    """The configuration, store and engines of a site. Any number of threads may use it at once.

    A store that is open for writing serves readers too, so that a process opens the file once.
    """

    def __init__(self, config: Config, *, long_lived: bool = False) -> None:
        """Create a workspace; in a `long_lived` process, an engine keeps each cluster in memory."""
        self.config, self.long_lived = config, long_lived
        self._lock = threading.Lock()
        self._engines: dict[str, Engine] = {}
        self._stores: dict[bool, Store] = {}  # by whether it may write
        self._closed = False

    def reading(self) -> Store:
        """Return the store, opened for reading at the first call; the workspace closes it."""
        return self._store(write=False)

    def writing(self) -> Store:
        """Return the store, opened for writing at the first call, and created if there is none."""
        return self._store(write=True)

    def registry(self) -> Registry:
        """Return the registry of this home's models."""
        from forewarn.learn.registry.registry import Registry

        return Registry(self.config.home, self.config.tracking)

    def cluster(self, name: str | None) -> str:
        """Return the name of a cluster in the store: the one named, the configured one, or the only one."""
        return choose_cluster(self.reading().clusters(), name or self.config.cluster, "the store")

    def engine(self, cluster: str) -> Engine:
        """Return the engine of a cluster, shared by all threads, and update it if it is due."""
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
        """Close the store. The workspace cannot be used afterwards."""
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
                raise UsageError(f"{self.config.home}: this site is closed; open it again")
            store = self._stores.get(True) or self._stores.get(write)
            if store is None:
                store = open_store(self.config, read_only=not write)
                self._stores[write] = store
            return store


def choose_cluster(clusters: Mapping[str, Any], name: str | None, where: str) -> str:
    """Return the name of a cluster: the one named, or the only one; raise `UsageError` if that is unclear."""
    if name is None and len(clusters) == 1:
        return next(iter(clusters))
    if not clusters:
        raise UsageError(f"--cluster: {where} has no cluster; read some history with `forewarn ingest`")
    names = ", ".join(sorted(clusters))
    if name is None:
        raise UsageError(f"--cluster: {where} has several clusters; choose from {names}")
    if name not in clusters:
        raise UsageError(f"--cluster: no cluster {name!r} in {where}; choose from {names}")
    return name
