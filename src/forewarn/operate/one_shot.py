"""Assessors for a short-lived process, from the site's store, or on a login node from a user's own jobs.

An ordinary user has no access to the site's store. An exported bundle (it contains nobody's data) and the
user's own history from `sacct` are enough: the history is kept in the user's home, and read again when it is
older than some minutes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from forewarn.assess.assessor import Assessor
from forewarn.assess.champions import Champions
from forewarn.assess.machine import CLASSIFIED_AT_ONCE, Machine
from forewarn.assess.node_health.classification import node_health
from forewarn.assess.node_health.health_cache import cache_health
from forewarn.assess.queue_waits import stored_waits
from forewarn.assess.user_history import StoredUserHistories
from forewarn.config import Config
from forewarn.errors import SchedulerError, StoreError, UnfitFileSystemError, UsageError
from forewarn.features.snapshot import SavedSnapshot, bring_up_to_date, is_maintained
from forewarn.features.state_store import check_meta, read_position
from forewarn.files import is_ours
from forewarn.job.outcomes import POLICIES
from forewarn.learn.registry.archive import is_archive, unpack
from forewarn.learn.registry.serving import Serving
from forewarn.operate.collector import Collector
from forewarn.progress import ShowActivity
from forewarn.store.base import Store
from forewarn.store.opening import location_of, open_store

OWN_DAYS = 180  # days of a user's own history
STALE = 600  # seconds after which a user's own history is read again


def stored_assessor(store: Store, champions: Champions, at: int, *, own: bool = False) -> Assessor:
    """Return an assessor that reads what it needs from the store on demand.

    `own` means that the store has the jobs of one user only.
    """
    cluster = champions.cluster
    snapshot = SavedSnapshot(store, cluster, at, champions.policy, own=own)
    return Assessor(
        snapshot,
        champions,
        Machine(store, cluster, snapshot.at),
        StoredUserHistories(store, cluster, snapshot.at, snapshot.facts),
        lambda job, limit, smaller: stored_waits(store, job, snapshot.at, limit, smaller),
    )


@contextmanager
def open_stored_assessor(
    config: Config, *, cluster: str | None, user: str, at: int, working: ShowActivity = nullcontext
) -> Iterator[tuple[Store, Assessor]]:
    """Open a store and an assessor that uses it; raise `StoreError` where there is no history."""
    if config.model is not None:
        config = replace(config, home=read_own_history(config, user, working))
    with ExitStack() as stack:
        bundles = stack.enter_context(_bundles(config.model))
        store = stack.enter_context(open_store(config, read_only=True))
        name = resolve_cluster(store, cluster or config.cluster)
        champions = Champions(name, Serving(config.home / "models"), bundles, bundles_of=config.model_cluster)
        with working("loading the models"):
            policy = champions.policy
        if not is_maintained(store, name, policy, at):
            try:
                place = location_of(config)
                writable = config if place.may_write else stack.enter_context(place.private_copy(store))
                with working(f"reading {store.count(cluster=name):,} earlier jobs"):
                    refresh(writable, name, policy.name)
                store = stack.enter_context(open_store(writable, read_only=True))
            except (StoreError, OSError):
                check_meta(store, name, policy)  # use the state that was saved last
        is_own = config.model is not None and store.cursor(f"collect {name}") is None
        yield store, stored_assessor(store, champions, at, own=is_own)


def refresh(config: Config, cluster: str, policy: str) -> None:
    """Bring a cluster's online state up to date with the store, and judge its nodes."""
    with open_store(config) as store:
        bring_up_to_date(store, cluster, POLICIES[policy])
        position, revision = read_position(store, cluster), store.revision(cluster=cluster)
        if position and store.count(cluster=cluster) <= CLASSIFIED_AT_ONCE:
            health = node_health(store, cluster, position.at)
            with store.writing() as writer:
                cache_health(writer, cluster, health, position.at, revision)


def resolve_cluster(store: Store, name: str | None) -> str:
    """Return the name of a cluster in the store: the one named, or the only one."""
    clusters = store.clusters()
    if name is not None and name in clusters:
        return name
    if not clusters:
        raise StoreError("no history yet; read one with `forewarn ingest` or `forewarn collect`")
    if name is not None:
        raise UsageError(f"no cluster {name!r} in the store; choose from {', '.join(sorted(clusters))}")
    if len(clusters) > 1:
        raise UsageError(f"name a cluster with -M; choose from {', '.join(sorted(clusters))}")
    return next(iter(clusters))


@contextmanager
def _bundles(model: Path | None) -> Iterator[tuple[Path, ...]]:
    if model is None:
        yield ()
    elif is_archive(model):
        with TemporaryDirectory(prefix="forewarn-") as scratch:
            unpack(model, Path(scratch))
            yield (Path(scratch),)
    else:
        yield (model,)


def read_own_history(config: Config, user: str, working: ShowActivity = nullcontext) -> Path:
    """Read a user's own jobs, and nodes and partitions, with Slurm's commands; return the home they are in.

    If Slurm does not answer, use what was read before.
    """
    from forewarn.sources.slurm.connect import connect

    home, at = _own_home(config), int(time.time())
    with open_store(replace(config, home=home)) as store:
        read = store.cursor(f"own {user}")
        if read is not None and 0 <= at - int(read) < STALE:
            return home
        commands = replace(config, scheduler="commands")
        try:
            with closing(connect(commands, user=user)) as scheduler:
                if store.cursor(f"collect {scheduler.cluster}") is not None:
                    return home  # it is the site's store, which a collector updates
                collector = Collector(store, scheduler, since=at - OWN_DAYS * 86400, user=user)
                with working("reading your jobs from Slurm"):
                    for _ in collector.once():
                        pass
        except SchedulerError:
            if read is None:
                raise
        else:
            with store.writing() as writer:
                writer.set_cursor(f"own {user}", str(at))
    return home


def _own_home(config: Config) -> Path:
    """Choose the home of a user's own store: a local folder if the configured one is on a network."""
    home = config.home
    home.mkdir(parents=True, exist_ok=True)
    try:
        open_store(config).close()
    except UnfitFileSystemError:
        local = Path(os.environ.get("XDG_RUNTIME_DIR") or gettempdir()) / f"forewarn-{os.getuid()}"
        with suppress(FileExistsError):
            local.mkdir(mode=0o700)
        if not is_ours(local):
            raise UnfitFileSystemError(
                f"{home}: cannot hold a store, and {local} is a link or others can write to it; "
                "set FOREWARN_HOME to a folder of your own on a local disk"
            ) from None
        return local
    return home
