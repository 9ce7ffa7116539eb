"""Run a collector on the configured Slurm: open the store and the scheduler, and assess live jobs.

What the collector does in each round is in `collector.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from forewarn.config import Config
from forewarn.errors import CollectedElsewhereError
from forewarn.learn.registry.serving import Serving
from forewarn.operate.collector import Collector
from forewarn.operate.collector_round import PublishRound, RoundAssessments
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.connect import clock_of, connect
from forewarn.sources.slurm.retry import RetryPolicy
from forewarn.store.base import Store
from forewarn.store.opening import open_store

if TYPE_CHECKING:
    from forewarn.operate.engine import Engine
    from forewarn.operate.live_assessment import LiveAssessment


class DeferredAssessment:
    """A live assessor that starts once a model of the cluster serves, or `at_once`.

    Until then neither the learners nor the engine are loaded.
    """

    def __init__(
        self,
        store: Store,
        serving: Serving,
        cluster: str,
        *,
        at_once: bool = False,
        engine: Engine | None = None,
        publish: PublishRound | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Prepare an assessor; with `engine`, it updates that one, which others ask too."""
        self._publish, self._clock = publish, clock or Clock()
        self._store, self._serving, self._cluster, self._at_once = store, serving, cluster, at_once
        self._live_assessor: LiveAssessment | None = None
        self._engine = engine
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

            if self._engine is None:
                self._engine = Engine(self._store, self._cluster, self._serving, clock=self._clock.now)
            self._live_assessor = LiveAssessment(self._store, self._engine, self._publish)
        if self._engine is not None and not self._engine.saves:
            self._claim_state(self._engine)
        return self._live_assessor.assess_round(at)

    def follow_models(self) -> None:
        """Use promoted models and new thresholds in an engine that others ask."""
        if self._engine is not None:
            self._engine.follow_models()

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
    config: Config,
    *,
    since: int | None = None,
    assess: bool | None = None,
    store: Store | None = None,
    engine_of: Callable[[str], Engine] | None = None,
    publish: PublishRound | None = None,
    retry: RetryPolicy | None = None,
) -> Iterator[Collector]:
    """Open a collector of the configured Slurm.

    Parameters
    ----------
    since
        Where the history begins, the first time.
    assess
        Whether to assess live jobs; None: once a model serves.
    store
        An open store to write to, which the caller closes; None: open it.
    engine_of
        Returns the engine of a cluster that this process holds already; None: the collector has its own.
    publish
        Called after each round that assessed live jobs, with the jobs that changed.
    retry
        How often a request is tried within a round.
    """
    with ExitStack() as stack:
        if store is None:
            store = stack.enter_context(open_store(config))
        scheduler = stack.enter_context(closing(connect(config, retry=retry)))
        claim = store.claim(f"collect {scheduler.cluster}")
        if claim is None:
            raise CollectedElsewhereError(
                f"{config.home}: another process already collects {scheduler.cluster} into this store; "
                "stop it first",
                scheduler.cluster,
            )
        stack.enter_context(claim)
        clock = clock_of(config)
        live_assessor = None
        if assess is not False:
            serving = Serving(config.home / "models")
            engine = engine_of(scheduler.cluster) if engine_of else None
            # An engine that others ask must be updated whether or not a model serves.
            at_once = bool(assess) or engine is not None
            live_assessor = DeferredAssessment(
                store,
                serving,
                scheduler.cluster,
                at_once=at_once,
                engine=engine,
                publish=publish,
                clock=clock,
            )
            stack.callback(live_assessor.close)
        zone = config.of_cluster(config.cluster).timezone
        yield Collector(
            store,
            scheduler,
            since=since,
            timezone=zone,
            clock=clock,
            live_assessor=live_assessor,
            assessments_kept=config.assessments_kept * 86400,
        )
