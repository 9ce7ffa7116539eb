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
    from forewarn.operate.job_list import JobList
    from forewarn.operate.trends import Trends
    from forewarn.sources.slurm.clock import Clock
    from forewarn.store.base import Store


class Workspace:
    """The configuration, store and engines of a site. Any number of threads may use it at once.

    A store that is open for writing serves readers too, so that a process opens the file once.
    """

    def __init__(self, config: Config, *, long_lived: bool = False) -> None:
        """Create a workspace; in a `long_lived` process, an engine keeps each cluster in memory."""
        self.config, self.long_lived = config, long_lived
        self.slurm_turn = threading.Lock()  # held by the thread that asks Slurm about a job
        self.slurm_trouble: str | None = None  # why Slurm does not answer, where a collector found out
        self._lock = threading.Lock()
        self._clock: Clock | None = None
        self._engines: dict[str, Engine] = {}
        self._job_list: JobList | None = None
        self._trends: Trends | None = None
        self._stores: dict[bool, Store] = {}  # by whether it may write
        self._closed = False

    @property
    def clock(self) -> Clock:
        """The clock that the site's cluster lives by; a simulated one's may be faster than the wall clock."""
        if self._clock is None:
            from forewarn.sources.slurm.connect import clock_of

            self._clock = clock_of(self.config)
        return self._clock

    def now(self) -> int:
        """Return the current Unix time of the site's cluster."""
        return int(self.clock.now())

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

    def engine(self, cluster: str, *, follow: bool = True) -> Engine:
        """Return the engine of a cluster, shared by all threads; by default, update it if it is due."""
        from forewarn.learn.registry.serving import Serving
        from forewarn.operate.engine import Engine

        store = self.reading()
        with self._lock:
            if cluster not in self._engines:
                serving = Serving(self.config.home / "models")
                self._engines[cluster] = Engine(store, cluster, serving, clock=self.clock.now)
            engine = self._engines[cluster]
        if follow:
            engine.follow_soon()
        return engine

    def job_list(self) -> JobList:
        """Return the list of jobs, shared by all threads."""
        from forewarn.operate.job_list import JobList

        store = self.reading()
        with self._lock:
            self._job_list = self._job_list or JobList(store, clock=self.clock.now)
            return self._job_list

    def trends(self) -> Trends:
        """Return the trends, shared by all threads."""
        from forewarn.learn.registry.serving import Serving
        from forewarn.operate.trends import Trends

        store, config = self.reading(), self.config
        with self._lock:
            if self._trends is None:
                serving = Serving(config.home / "models")
                self._trends = Trends(store, serving, config.policy, clock=self.clock.now)
            return self._trends

    def drop_cached(self) -> None:
        """Drop lists and trends in memory; whoever asks next reads them from the store."""
        with self._lock:
            self._job_list = self._trends = None

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
