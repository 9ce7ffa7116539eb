"""What a short-lived process knows: the site's store and models, or, on a login node, a person's own.

An ordinary user has no access to the site's store. For them a bundle that somebody exported (it holds
nobody's data) and their own history by `sacct` are enough: that is kept in their own home, and read again
when it is some minutes old.
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
from forewarn.assess.machine import JUDGED_AT_ONCE, Machine
from forewarn.assess.node_health import keep_health, node_health
from forewarn.assess.queue_waits import stored_waits
from forewarn.assess.user_history import StoredUserHistories
from forewarn.config import Config
from forewarn.errors import SchedulerError, StoreError, UnfitFileSystemError, UsageError
from forewarn.features.snapshot import SavedSnapshot, bring_up_to_date, is_kept_up
from forewarn.features.state_store import check_meta, read_mark
from forewarn.files import is_ours
from forewarn.job.outcomes import POLICIES
from forewarn.learn.registry.archive import is_archive, unpack
from forewarn.learn.registry.serving import Serving
from forewarn.operate.collector import Collector
from forewarn.progress import Working
from forewarn.store.base import Store
from forewarn.store.opening import open_store, place_of

OWN_DAYS = 180  # of a person's own history
STALE = 600  # seconds after which it is read again


def stored_assessor(store: Store, champions: Champions, at: int, *, own: bool = False) -> Assessor:
    """An assessor that reads what it needs from the store when it is asked.

    `own`: the store holds one person's jobs only.
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
def knowledge(
    config: Config, *, cluster: str | None, user: str, at: int, working: Working = nullcontext
) -> Iterator[tuple[Store, Assessor]]:
    """A store and an assessor over it; `StoreError` where there is nothing to know."""
    config = config if config.model is None else replace(config, home=read_own(config, user, working))
    with ExitStack() as stack:
        bundles = stack.enter_context(_bundles(config.model))
        store = stack.enter_context(open_store(config, read_only=True))
        name = cluster_asked(store, cluster or config.cluster)
        champions = Champions(name, Serving(config.home / "models"), bundles, bundles_of=config.model_cluster)
        with working("loading the models"):
            policy = champions.policy
        if not is_kept_up(store, name, policy, at):
            try:
                place = place_of(config)
                own = config if place.may_write else stack.enter_context(place.private_copy(store))
                with working(f"reading {store.count(cluster=name):,} earlier jobs"):
                    refresh(own, name, policy.name)
                store = stack.enter_context(open_store(own, read_only=True))
            except (StoreError, OSError):
                check_meta(store, name, policy)  # what was saved last must do
        is_own = config.model is not None and store.cursor(f"collect {name}") is None
        yield store, stored_assessor(store, champions, at, own=is_own)


def refresh(config: Config, cluster: str, policy: str) -> None:
    """Make the online state of a cluster know all that the store does, and judge its nodes by it."""
    with open_store(config) as store:
        bring_up_to_date(store, cluster, POLICIES[policy])
        mark, revision = read_mark(store, cluster), store.revision(cluster=cluster)
        if mark and store.count(cluster=cluster) <= JUDGED_AT_ONCE:
            health = node_health(store, cluster, mark.at)
            with store.writing() as writer:
                keep_health(writer, cluster, health, mark.at, revision)


def cluster_asked(store: Store, asked: str | None) -> str:
    """Find the cluster that is meant: the one asked for, or the only one."""
    known = store.clusters()
    if asked is not None and asked in known:
        return asked
    if not known:
        raise StoreError("no history here yet: `forewarn ingest` or `forewarn collect` reads one")
    if asked is not None:
        raise UsageError(f"no cluster {asked!r} here: there are {', '.join(sorted(known))}")
    if len(known) > 1:
        raise UsageError(f"say which cluster with -M: there are {', '.join(sorted(known))}")
    return next(iter(known))


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


def read_own(config: Config, user: str, working: Working = nullcontext) -> Path:
    """The person's own jobs, and the machine's nodes and partitions, as Slurm's commands show them: where.

    Where Slurm cannot be asked just now, what was read before must do.
    """
    from forewarn.sources.slurm.connect import connect

    home, now = _own_home(config), int(time.time())
    with open_store(replace(config, home=home)) as store:
        read = store.cursor(f"own {user}")
        if read is not None and 0 <= now - int(read) < STALE:
            return home
        commands = replace(config, scheduler="commands")
        try:
            with closing(connect(commands, user=user)) as scheduler:
                if store.cursor(f"collect {scheduler.cluster}") is not None:
                    return home  # the site's own store, which a collector keeps
                collector = Collector(store, scheduler, since=now - OWN_DAYS * 86400, whose=user)
                with working("reading your jobs from Slurm"):
                    for _ in collector.once():
                        pass
        except SchedulerError:
            if read is None:
                raise
        else:
            with store.writing() as writer:
                writer.set_cursor(f"own {user}", str(now))
    return home


def _own_home(config: Config) -> Path:
    """A person's home folder often lies on a network, where no store can be: then on the node itself."""
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
                f"{home}: cannot hold a store, and {local} is a link or a folder that others can write to; "
                "set FOREWARN_HOME to a folder of yours on a local disk"
            ) from None
        return local
    return home
