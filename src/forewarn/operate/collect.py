"""Run a collector on the configured Slurm: open the store and the scheduler, and assess live jobs.

What the collector does in each round is in `collector.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from forewarn.config import Config
from forewarn.errors import StoreBusyError
from forewarn.learn.registry.serving import Serving
from forewarn.operate.collector import Collector
from forewarn.operate.collector_round import LiveAssessor, RoundAssessments
from forewarn.sources.slurm.connect import connect
from forewarn.store.base import Store
from forewarn.store.opening import open_store

if TYPE_CHECKING:
    from forewarn.operate.engine import Engine


class DeferredAssessment:
    """A live assessor that starts once a model of the cluster serves, or `at_once`.

    Until then neither the learners nor the engine are loaded.
    """

    def __init__(self, store: Store, serving: Serving, cluster: str, *, at_once: bool = False) -> None:
        self._store, self._serving, self._cluster, self._at_once = store, serving, cluster, at_once
        self._live_assessor: LiveAssessor | None = None
        self._engine: Engine | None = None
        self._claims = ExitStack()

    def assess_round(self, at: int) -> RoundAssessments:
        """Assess live jobs after a round, as `operate.collector_round.LiveAssessor` describes."""
        if self._live_assessor is None:
            served = {name.cluster for name in self._serving.names()}
            if not self._at_once and self._cluster not in served:
                return RoundAssessments()
            # Imported late, as these need the learners.
            from forewarn.operate.engine import Engine
            from forewarn.operate.live_assessment import LiveAssessment

            self._engine = Engine(self._store, self._cluster, self._serving)
            self._live_assessor = LiveAssessment(self._store, self._engine)
        if self._engine is not None and not self._engine.saves:
            self._claim_state(self._engine)
        return self._live_assessor.assess_round(at)

    def close(self) -> None:
        """Let another process save the online state."""
        self._claims.close()

    def _claim_state(self, engine: Engine) -> None:
        """Become the process that saves the online state, unless another process is."""
        claim = self._store.claim(f"state {self._cluster}")
        if claim is not None:
            self._claims.enter_context(claim)
            engine.saves = True


@contextmanager
def collecting(
    config: Config, *, since: int | None = None, assess: bool | None = None
) -> Iterator[Collector]:
    """Open a collector of the configured Slurm.

    Parameters
    ----------
    since
        Where the history begins, the first time.
    assess
        Whether to assess live jobs; None: once a model serves.
    """
    with ExitStack() as stack:
        store = stack.enter_context(open_store(config))
        scheduler = stack.enter_context(closing(connect(config)))
        claim = store.claim(f"collect {scheduler.cluster}")
        if claim is None:
            raise StoreBusyError(
                f"{config.home}: another process already collects {scheduler.cluster} into this store; "
                "stop it first"
            )
        stack.enter_context(claim)
        live_assessor = None
        if assess is not False:
            serving = Serving(config.home / "models")
            live_assessor = DeferredAssessment(store, serving, scheduler.cluster, at_once=bool(assess))
            stack.callback(live_assessor.close)
        zone = config.of_cluster(config.cluster).timezone
        yield Collector(
            store,
            scheduler,
            since=since,
            timezone=zone,
            live_assessor=live_assessor,
            assessments_kept=config.assessments_kept * 86400,
        )
