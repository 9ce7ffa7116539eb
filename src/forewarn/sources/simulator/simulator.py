"""A simulated cluster whose failures have known causes, generated job by job."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from forewarn.errors import UsageError
from forewarn.sources.simulator.kernel import engine
from forewarn.sources.simulator.observations import Observer
from forewarn.sources.simulator.scenario import Scenario
from forewarn.sources.simulator.truth import truth_frame
from forewarn.sources.simulator.world import grown, make_world


class Simulator:
    """The jobs of a scenario, in batches of observations and truth.

    The same scenario, seed and number of jobs give the same jobs, whatever the size of the batches.
    Memory depends on how many jobs are in flight, not on how many there are.

    >>> from forewarn.sources.simulator.scenario import load_scenario
    >>> seen, truth = next(iter(Simulator(load_scenario("small"), seed=1, jobs=100)))
    >>> truth.height, set(truth["job_id"]) == set(seen["job_id"])
    (100, True)
    """

    def __init__(self, scenario: Scenario, seed: int, jobs: int, *, batch_jobs: int = 20_000) -> None:
        if jobs < 1 or batch_jobs < 1:
            raise UsageError(f"at least one job, and one a batch, not {jobs} and {batch_jobs}")
        if not 0 <= seed < 1 << 63:
            raise UsageError(f"a seed is a whole number from 0 to 2**63 - 1, not {seed}")
        self.scenario = scenario
        self.seed = seed
        self.jobs = jobs
        self._batch_jobs = batch_jobs

    def __iter__(self) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """Yield observations (columns of observed jobs) and truth of the next jobs, by submission."""
        world = make_world(self.scenario, self.seed, self.jobs)
        observer = Observer(self.scenario, self.seed)
        engine.populate(world)
        clock = world.clock[0]
        while clock["head"] < self.jobs:
            if engine.advance(world, self._batch_jobs, engine.FOREVER) == engine.NO_ROOM:
                world = grown(world)
                continue
            last = min(int(clock["ready"]), int(clock["head"]) + self._batch_jobs)
            seqs = np.arange(int(clock["head"]), last)
            places = seqs & (len(world.jobs) - 1)
            jobs, placed = world.jobs[places], world.placed[places]
            clock["head"] = last
            seen = observer.observe(jobs, placed, seqs)
            ended = seen.filter(pl.col("outcome").is_not_null())
            yield seen, truth_frame(self.scenario, jobs, ended["job_id"])
