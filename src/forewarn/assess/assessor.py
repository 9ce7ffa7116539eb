"""The one call: a job in, an `Assessment` out.

The order is the scheduler's: run time and resources, odd configuration, failure by cause, healthy nodes; then
the explanation, the profile, and advice. Each part is a module's own; here they are only put together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from forewarn.assess.advice import Situation, advise
from forewarn.assess.assessment import Advice, Assessment, Finding, NodeFitness, Oddness
from forewarn.assess.champions import FEATURE_SETS, Champions
from forewarn.assess.explanation import reasons
from forewarn.assess.machine import Machine
from forewarn.assess.needs import ForeseenNeeds
from forewarn.assess.node_health import fitness, sick_risk
from forewarn.assess.oddness import oddness
from forewarn.assess.oddness.usual import usual_of
from forewarn.assess.routing import Spoken, speak
from forewarn.assess.similar import similar_jobs
from forewarn.assess.usage import limit_of, memory_of, resources, run_time
from forewarn.assess.verdict import judged
from forewarn.features.present import Phase, Present
from forewarn.job.record import Job
from forewarn.learn.bundle import Bundle
from forewarn.learn.table import Table, table_of_now
from forewarn.learn.usage.foreseen import Foreseen
from forewarn.store.base import Store

USED_DAYS = 180  # within which a partition that a user ran jobs in counts as open to them


class Assessor:
    """Assesses jobs of one cluster as of one moment."""

    def __init__(self, store: Store, present: Present, champions: Champions) -> None:
        self._store, self._present, self._champions = store, present, champions
        self.cluster, self.at = present.cluster, present.at
        self.known_until = present.mark.at if present.mark else 0
        self.machine = Machine(store, self.cluster, self.at)

    def assess(
        self,
        job: Job,
        *,
        findings: Sequence[Finding] = (),
        memory_floor: int | None = None,
        whose: str = "your",
    ) -> Assessment:
        """All that is said of one job.

        Parameters
        ----------
        findings
            What was found in its script.
        memory_floor
            Bytes that its script sizes itself to: no advice goes below.
        whose
            Whose jobs the reasons speak of: ``your``, or ``alice's``.
        """
        phase = self._phase(job)
        table = self.table(phase, [job])
        said, foreseen = self._speak(table)[0], self._foreseen(table)
        made = self._brief(table, 0, job, said, foreseen)
        made = replace(made, findings=tuple(findings), nodes=self._nodes(job))
        made = replace(made, oddness=self._oddness(job, table))
        if said.champion and said.matrix:
            values = {name: float(table.column(name)[0]) for name in table.names}
            made = replace(made, reasons=reasons(said.champion.bundle, said.matrix, values, whose=whose))
        alike = similar_jobs(self._store, job, as_of=self.at, whose=whose)
        made = replace(made, similar=alike.jobs, similar_in_short=alike.tally)
        possible = not any(oddity.impossible for oddity in made.oddness.oddities) if made.oddness else True
        if made.failure and possible:
            made = replace(made, advice=self._advice(made, job, table, foreseen, memory_floor))
        return judged(made)

    def _advice(
        self, made: Assessment, job: Job, table: Table, foreseen: Foreseen | None, memory_floor: int | None
    ) -> tuple[Advice, ...]:
        """What to change: only where a model speaks of the job, and it could run at all."""
        machine = self.machine
        situation = Situation(
            job=job,
            needs=ForeseenNeeds(foreseen),
            failure=made.failure,
            nodes=machine.nodes,
            partitions=machine.partitions,
            fitness=made.nodes,
            memory_floor=memory_floor,
            waits=_waits(table, job),
            node_risk=sick_risk(made.nodes, machine.health) if made.nodes else 0.0,
            may_use=lambda: self._partitions_of(job),
        )
        return advise(situation)

    def assess_all(self, jobs: Sequence[Job]) -> list[Assessment]:
        """What is said of each of many jobs, in brief: how long, how much, will it fail and of what."""
        made: dict[int, Assessment] = {}
        phases = [self._phase(job) for job in jobs]
        for phase in dict.fromkeys(phases):
            places = [place for place, at in enumerate(phases) if at == phase]
            some = [jobs[place] for place in places]
            table = self.table(phase, some)
            said, foreseen = self._speak(table), self._foreseen(table)
            for row, (place, job) in enumerate(zip(places, some, strict=True)):
                made[place] = judged(self._brief(table, row, job, said[row], foreseen))
        return [made[place] for place in range(len(jobs))]

    def table(self, phase: Phase, jobs: Sequence[Job]) -> Table:
        """What is knowable of jobs now, as a model sees it."""
        rows = np.stack([self._present.features(job, phase) for job in jobs])
        return table_of_now(self.cluster, phase, jobs, rows, self.at, self._present.facts)

    def _phase(self, job: Job) -> Phase:
        """As at its start, where the job is in flight and a model knows starts; else as at its submit."""
        if self._champions.serve_at("start") and self._present.is_in_flight(job):
            return "start"
        return "submit"

    def _speak(self, table: Table) -> list[Spoken]:
        return speak(
            table,
            self._champions,
            ended=self._store.count(cluster=self.cluster),
            recent_rate=self._present.recent_failure_rate,
        )

    def _bundle(self, table: Table) -> Bundle | None:
        found = (self._champions.get(table.phase, feature_set) for feature_set in FEATURE_SETS)
        return next((champion.bundle for champion in found if champion), None)

    def _foreseen(self, table: Table) -> Foreseen | None:
        bundle = self._bundle(table)
        return bundle.usage.foresee(table) if bundle and bundle.usage else None

    def _nodes(self, job: Job) -> NodeFitness | None:
        machine = self.machine
        return fitness(job, machine.nodes, machine.partitions, machine.health) if machine.nodes else None

    def _partitions_of(self, job: Job) -> frozenset[str]:
        """Where the user has run jobs before: what else is open to them nobody here knows."""
        frames = self._store.scan(
            cluster=self.cluster,
            since=self.at - USED_DAYS * 86400,
            columns=["user", "partition", "start"],
            where=(pl.col("user") == job.user) & pl.col("start").is_not_null(),
        )
        return frozenset(name for frame in frames for name in frame["partition"].unique() if name)

    def _oddness(self, job: Job, table: Table) -> Oddness:
        usual = usual_of(self._store, self.cluster, job.user, self.at) if job.user else None
        bundle, machine = self._bundle(table), self.machine
        forest = bundle.oddness if bundle else None
        return oddness(job, machine.nodes, machine.partitions, usual, forest=forest, table=table)

    def _brief(self, table: Table, row: int, job: Job, said: Spoken, foreseen: Foreseen | None) -> Assessment:
        own = foreseen.row(row) if foreseen else None
        return Assessment(
            cluster=self.cluster,
            job_id=job.job_id or None,
            submit=job.submit,
            user=job.user,
            name=job.name,
            partition=job.partition,
            made_at=self._present.asked_at,
            phase=table.phase,
            state=job.state,
            route=said.route,
            run_time=run_time(own, 0, limit_of(table, row)) if own else None,
            resources=resources(own, 0, memory_of(table, row)) if own else None,
            failure=said.failure,
            profile=_profile(said, table, row),
            notes=_notes(said, table, job),
        )


def _profile(said: Spoken, table: Table, row: int) -> str | None:
    profiles = said.champion.bundle.profiles if said.champion else None
    if profiles is None or len(profiles.words) < 2:
        return None
    belongs = profiles.posterior(table.about[row], table.phase)[0]
    return profiles.words[int(belongs.argmax())]


def _notes(said: Spoken, table: Table, job: Job) -> tuple[str, ...]:
    if said.failure and job.start is not None and table.phase == "submit":
        return ("it runs, and there is no model for start: this is the one for submit",)
    return ()


def _waits(table: Table, job: Job) -> Mapping[str, float]:
    """How long jobs of its partition, else of the cluster, have waited of late."""
    for name in ("partition_wait", "queue_wait"):
        waited = float(table.column(name)[0])
        if not np.isnan(waited):
            return {(job.partition or "").split(",")[0]: 2.0**waited - 1.0}
    return {}
