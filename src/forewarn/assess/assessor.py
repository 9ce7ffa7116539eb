"""The one call: a job in, an `Assessment` out.

The order is the scheduler's: run time and resources, odd configuration, failure by cause, healthy nodes; then
the explanation, the profile, and advice. Each part is a module's own; here they are only put together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from forewarn.assess.advice import Changed, Situation, advise, changed, savings
from forewarn.assess.assessment import Assessment, Change, Failure, Finding, NodeFitness, Oddness, Resources
from forewarn.assess.champions import FEATURE_SETS, Champions
from forewarn.assess.codes import NoteCode
from forewarn.assess.explanation import reasons, with_needs, with_record
from forewarn.assess.hours import hours_at_risk, spent_by_cause
from forewarn.assess.machine import Machine
from forewarn.assess.needs import ForeseenNeeds
from forewarn.assess.node_health import Health, fitness, sick_risk
from forewarn.assess.oddness import Request, oddness
from forewarn.assess.oddness.usual import usual_of
from forewarn.assess.routing import Spoken, speak
from forewarn.assess.similar import similar_jobs
from forewarn.assess.stated import own_endings, with_node_risk, with_other_excess
from forewarn.assess.usage import limit_of, memory_of, resources, run_time
from forewarn.assess.verdict import judged
from forewarn.assess.waits import median_waits
from forewarn.evidence import Statement
from forewarn.features.present import Phase, Present
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job
from forewarn.learn.bundle import Bundle
from forewarn.learn.own_record import by_own_record
from forewarn.learn.pooling import PROBABLE, Excess
from forewarn.learn.table import Table, table_of_now, with_earlier
from forewarn.learn.usage.foreseen import Foreseen
from forewarn.store.base import Store

USED_DAYS = 180  # within which what a user's jobs used tells of the next, and where they ran is open to them


_ALL = 0.99  # of earlier runs, in a memory that fades


# The job that some changes make of the one assessed.
Vary = Callable[[Sequence[Change]], Changed]


@dataclass(frozen=True, slots=True)
class _Stated:
    """What is stated of some jobs, one row each."""

    table: Table
    spoken: Sequence[Spoken]
    foreseen: Foreseen | None
    failures: Sequence[Failure | None]

    def needs(self, row: int) -> ForeseenNeeds:
        """None where the model passed the job on: its forecasts rest on no more such jobs than its risk."""
        if self.spoken[row].champion is None:
            return ForeseenNeeds(None)
        return ForeseenNeeds(self.foreseen.row(row) if self.foreseen else None)

    def excess(self, row: int) -> dict[Outcome, float]:
        """How likely a job needs more than it requests, where a forecast tells."""
        needs, limit, memory = self.needs(row), limit_of(self.table, row), memory_of(self.table, row)
        over = {
            Outcome.TIMEOUT: None if limit is None else needs.over_limit(limit),
            Outcome.OUT_OF_MEMORY: None if memory is None else needs.over_memory(memory),
        }
        return {outcome: chance for outcome, chance in over.items() if chance is not None}


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
        exclude: frozenset[str] = frozenset(),
        vary: Vary | None = None,
    ) -> Assessment:
        """All that is said of one job.

        Parameters
        ----------
        findings
            What was found in its script.
        memory_floor
            Bytes that its script sizes itself to: no advice goes below.
        exclude
            Nodes that it keeps off.
        vary
            The job with changes made; without it, its record with those fields set.
        """
        phase = self._phase(job)
        fit = self._nodes(job, exclude)
        said = self._state(phase, [Changed(job, exclude)], [self._node_risk(job, fit)])
        made = self._brief(said, 0, job)
        made = replace(made, findings=tuple(findings), nodes=fit)
        made = replace(made, oddness=self._oddness(job, said.table))
        spoken, table = said.spoken[0], said.table
        if spoken.champion and spoken.matrix and spoken.own:
            values = {name: float(table.column(name)[0]) for name in table.names}
            why = reasons(spoken.champion.bundle, spoken.matrix, values)
            why = with_record(why, spoken.own, values)
            made = replace(made, reasons=with_needs(why, spoken.own, made))
        alike = similar_jobs(self._store, job, as_of=self.at)
        made = replace(made, similar=alike.jobs, similar_in_short=alike.tally)
        possible = not any(oddity.impossible for oddity in made.oddness.oddities) if made.oddness else True
        if made.failure and possible:
            vary = vary or (lambda changes: changed(job, changes, exclude))
            made = self._with_advice(made, made.failure, job, phase, said, memory_floor, vary)
        return judged(made)

    def _with_advice(
        self,
        made: Assessment,
        failure: Failure,
        job: Job,
        phase: Phase,
        said: _Stated,
        memory_floor: int | None,
        vary: Vary,
    ) -> Assessment:
        """What to change: only where a model speaks of the job, and it could run at all.

        A simple rule in a model's place knows nothing of requests: unless it is probable that the
        request is too small, the forecast needs alone say what a change is good for, and no risk is promised.
        """
        champion = said.spoken[0].champion
        is_rule = champion is not None and champion.bundle.rule is not None
        by_rule = is_rule and all(over < PROBABLE for over in said.excess(0).values())

        def after(plans: Sequence[Sequence[Change]]) -> Sequence[Failure | None]:
            variants = [vary(changes) for changes in plans]
            if not variants:
                return ()
            risks = [self._node_risk(one.job, self._nodes(one.job, one.exclude)) for one in variants]
            stated = self._state(phase, variants, risks)
            if not by_rule:
                return stated.failures
            return [
                with_other_excess(failure, said.excess(0), stated.excess(row)) for row in range(len(variants))
            ]

        machine = self.machine
        situation = Situation(
            job=job,
            needs=said.needs(0),
            failure=failure,
            after=after,
            nodes=machine.nodes,
            partitions=machine.partitions,
            fitness=made.nodes,
            memory_floor=memory_floor,
            waits=_waits(said.table, job),
            node_risk=self._node_risk(job, made.nodes),
            may_use=lambda: self._partitions_of(job),
        )
        advice = advise(situation)
        longest = max((float(other.run_time) for other in made.similar if other.run_time), default=None)
        return replace(
            made,
            advice=tuple(replace(one, risk_after=None) for one in advice) if by_rule else advice,
            savings=savings(
                situation,
                longest=longest,
                waits=lambda limit, smaller: median_waits(self._store, job, self.at, limit, smaller),
            ),
        )

    def assess_all(self, jobs: Sequence[Job]) -> list[Assessment]:
        """What is said of each of many jobs, in brief: how long, how much, will it fail and of what."""
        made: dict[int, Assessment] = {}
        phases = [self._phase(job) for job in jobs]
        for phase in dict.fromkeys(phases):
            places = [place for place, at in enumerate(phases) if at == phase]
            some = [jobs[place] for place in places]
            said = self._state(phase, [Changed(job) for job in some], self._kept_node_risks(some))
            for row, (place, job) in enumerate(zip(places, some, strict=True)):
                made[place] = judged(self._brief(said, row, job))
        return [made[place] for place in range(len(jobs))]

    def table(self, phase: Phase, jobs: Sequence[Job]) -> Table:
        """What is knowable of jobs now, as a model sees it."""
        rows = np.stack([self._present.features(job, phase) for job in jobs])
        return table_of_now(self.cluster, phase, jobs, rows, self.at, self._present.facts)

    def _state(self, phase: Phase, variants: Sequence[Changed], node_risks: Sequence[float]) -> _Stated:
        """The one path on which a risk is stated, of jobs as they are and as they could be."""
        jobs = [variant.job for variant in variants]
        table = self.table(phase, jobs)
        foreseen = self._foreseen(table)
        spoken = self._speak(table, foreseen)
        failures = [
            one.failure and with_node_risk(one.failure, risk)
            for one, risk in zip(spoken, node_risks, strict=True)
        ]
        return _Stated(table, spoken, foreseen, failures)

    def _node_risk(self, job: Job, fit: NodeFitness | None) -> float:
        """Of a sick node that it may be given; one that runs has its nodes, and the model has seen them."""
        return sick_risk(fit, self.machine.health) if fit and job.start is None else 0.0

    def _kept_node_risks(self, jobs: Sequence[Job]) -> list[float]:
        """The same of many jobs, by nodes that were judged before: jobs that ask alike are looked at once."""
        if not any(node.health is Health.SICK for node in self.machine.kept_health or ()):
            return [0.0] * len(jobs)
        found: dict[object, float] = {}
        for job in jobs:
            key = (Request.of(job), job.partition, job.start is None)
            if key not in found:
                found[key] = self._node_risk(job, self._nodes(job))
        return [found[Request.of(job), job.partition, job.start is None] for job in jobs]

    def _phase(self, job: Job) -> Phase:
        """As at its start, where the job is in flight and a model knows starts; else as at its submit."""
        if self._champions.serve_at("start") and self._present.is_in_flight(job):
            return "start"
        return "submit"

    def _speak(self, table: Table, foreseen: Foreseen | None) -> list[Spoken]:
        first = self._bundle(table)

        def excess(bundle: Bundle) -> Excess:
            if bundle is first and foreseen is not None:
                return bundle.excess_of(foreseen, table)
            return bundle.excess(table, np.arange(len(table.values)))

        return speak(
            table,
            self._champions,
            excess=excess,
            ended=self._store.count(cluster=self.cluster),
            recent_rate=self._present.recent_failure_rate,
            untrained=by_own_record(self._present.record),
        )

    def _bundle(self, table: Table) -> Bundle | None:
        found = (self._champions.get(table.phase, feature_set) for feature_set in FEATURE_SETS)
        return next((one.bundle for one in found if one and one.unfit(table) is None), None)

    def _foreseen(self, table: Table) -> Foreseen | None:
        bundle = self._bundle(table)
        usage = bundle.usage if bundle else None
        if usage is None:
            return None
        # As it was judged: CPU efficiency and I/O lean on what the user's earlier jobs used.
        since = self.at - USED_DAYS * 86400
        whole = with_earlier(table, self._store, since=since) if usage.remembers else table
        return usage.foresee(whole, np.arange(len(table.values)))

    def _nodes(self, job: Job, exclude: Collection[str] = ()) -> NodeFitness | None:
        machine = self.machine
        if not machine.nodes:
            return None
        return fitness(job, machine.nodes, machine.partitions, machine.health, exclude)

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

    def _brief(self, stated_of: _Stated, row: int, job: Job) -> Assessment:
        table, said, failure = stated_of.table, stated_of.spoken[row], stated_of.failures[row]
        needs = stated_of.needs(row)
        own, limit = needs.foreseen, limit_of(table, row)
        spent = spent_by_cause(said.champion.bundle.causes if said.champion else None)
        at_risk = hours_at_risk(failure, needs, limit, job.nodes_given or job.nodes_asked, spent)
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
            run_time=run_time(own, 0, limit) if own else None,
            resources=_resources(own, table, row) if own else None,
            failure=failure,
            hours_at_risk=at_risk.hours if at_risk else None,
            hours_at_risk_by=at_risk.by if at_risk else None,
            profile=_profile(said, table, row),
            notes=_notes(said, table, job),
        )


def _resources(own: Foreseen, table: Table, row: int) -> Resources | None:
    """What it will use; no memory where the user's runs of this very job say that it needs more.

    A job that is killed before its use is sampled was seen to use next to nothing.
    """
    asked = memory_of(table, row)
    use = resources(own, 0, asked)
    killed = own_endings(table.rows(np.array([row])))[0]
    is_denied = killed.runs and killed.killed_for_memory > _ALL
    if not is_denied or use is None or use.memory is None or asked is None or use.memory.high >= asked:
        return use
    return replace(use, memory=None, memory_request=None, over_memory=None)


def _profile(said: Spoken, table: Table, row: int) -> str | None:
    profiles = said.champion.bundle.profiles if said.champion else None
    if profiles is None or len(profiles.words) < 2:
        return None
    belongs = profiles.posterior(table.about[row], table.phase)[0]
    return profiles.words[int(belongs.argmax())]


def _notes(said: Spoken, table: Table, job: Job) -> tuple[Statement, ...]:
    if said.failure and job.start is not None and table.phase == "submit":
        return (Statement(NoteCode.NO_MODEL_FOR_START),)
    return ()


def _waits(table: Table, job: Job) -> Mapping[str, float]:
    """How long jobs of its partition, else of the cluster, have waited of late."""
    for name in ("partition_wait", "queue_wait"):
        waited = float(table.column(name)[0])
        if not np.isnan(waited):
            return {(job.partition or "").split(",")[0]: 2.0**waited - 1.0}
    return {}
