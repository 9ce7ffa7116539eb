"""A collector as it is run: with the store, the scheduler and who assesses live jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from forewarn.config import Config
from forewarn.errors import StoreBusyError
from forewarn.learn.registry.serving import Serving
from forewarn.operate.collector import Collector, LiveAssessor, RoundAssessments
from forewarn.sources.slurm.connect import connect
from forewarn.store.base import Store
from forewarn.store.opening import open_store

if TYPE_CHECKING:
    from forewarn.operate.engine import Engine


class DeferredAssessment:
    """Assesses live jobs: at once, or from the round on in which a model of their cluster serves."""

    def __init__(self, store: Store, serving: Serving, cluster: str, *, at_once: bool = False) -> None:
        self._store, self._serving, self._cluster, self._at_once = store, serving, cluster, at_once
        self._watch: LiveAssessor | None = None
        self._engine: Engine | None = None
        self._claims = ExitStack()

    def after(self, at: int) -> RoundAssessments:
        """See `operate.collector.Watch`."""
        if self._watch is None:
            served = {name.cluster for name in self._serving.names()}
            if not self._at_once and self._cluster not in served:
                return RoundAssessments()
            # Only now: these need the learners.
            from forewarn.operate.engine import Engine
            from forewarn.operate.live_assessment import LiveAssessment

            self._engine = Engine(self._store, self._cluster, self._serving)
            self._watch = LiveAssessment(self._store, self._engine)
        if self._engine is not None and not self._engine.saves:
            self._claim_state(self._engine)
        return self._watch.after(at)

    def close(self) -> None:
        """Let another process save the online state."""
        self._claims.close()

    def _claim_state(self, engine: Engine) -> None:
        """Save the online state, unless another process does; once that one has ended, this one does."""
        claim = self._store.claim(f"state {self._cluster}")
        if claim is not None:
            self._claims.enter_context(claim)
            engine.saves = True


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
        claim = store.claim(f"collect {scheduler.cluster}")
        if claim is None:
            raise StoreBusyError(
                f"{config.home}: another process collects {scheduler.cluster} into this store: "
                "end that one first"
            )
        stack.enter_context(claim)
        if assess is not False:
            serving = Serving(config.home / "models")
            watch = DeferredAssessment(store, serving, scheduler.cluster, at_once=bool(assess))
            stack.callback(watch.close)
        zone = config.of_cluster(config.cluster).timezone
        kept = config.assessments_kept * 86400
        yield Collector(store, scheduler, since=since, timezone=zone, watch=watch, assessments_kept=kept)
