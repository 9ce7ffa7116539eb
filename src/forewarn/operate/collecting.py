"""A collector as it is run: with the store, the scheduler and who assesses live jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from forewarn.config import Config
from forewarn.learn.serving import Serving
from forewarn.operate.collect import Collector, Said, Watch
from forewarn.sources.connect import connect
from forewarn.store.base import Store
from forewarn.store.opening import open_store


class LateAssessment:
    """Assesses live jobs: at once, or from the round on in which a model of their cluster serves."""

    def __init__(self, store: Store, serving: Serving, cluster: str, *, at_once: bool = False) -> None:
        self._store, self._serving, self._cluster, self._at_once = store, serving, cluster, at_once
        self._watch: Watch | None = None

    def after(self, at: int) -> Said:
        """See `operate.collect.Watch`."""
        if self._watch is None:
            served = {name.cluster for name in self._serving.names()}
            if not self._at_once and self._cluster not in served:
                return Said()
            # Only now: these need the learners.
            from forewarn.operate.engine import Engine
            from forewarn.operate.live_assessment import LiveAssessment

            engine = Engine(self._store, self._cluster, self._serving, saves=True)
            self._watch = LiveAssessment(self._store, engine)
        return self._watch.after(at)


@contextmanager
def collecting(
    config: Config, *, since: int | None = None, assess: bool | None = None
) -> Iterator[Collector]:
    """A collector of the Slurm that is configured.

    Parameters
    ----------
    since
        Where history begins, the first time.
    assess
        Whether live jobs are assessed; None: from when on a model serves.
    """
    with ExitStack() as stack:
        store = stack.enter_context(open_store(config))
        scheduler = stack.enter_context(closing(connect(config)))
        watch = None
        if assess is not False:
            serving = Serving(config.home / "models")
            watch = LateAssessment(store, serving, scheduler.cluster, at_once=bool(assess))
        zone = config.of_cluster(config.cluster).timezone
        kept = config.assessments_kept * 86400
        yield Collector(store, scheduler, since=since, timezone=zone, watch=watch, assessments_kept=kept)
