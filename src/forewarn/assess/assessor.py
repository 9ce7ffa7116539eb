"""The one call: a job in, an `Assessment` out.

The order is the scheduler's: run time and resources, odd configuration, failure by cause, healthy nodes; then
the explanation, the profile, and advice. Each part is a module's own; here they are only put together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from forewarn.assess.advice import ChangedJob, Situation, advise, savings
from forewarn.assess.advice.changed_job import changed
from forewarn.assess.assessment import (
    Advice,
    Assessment,
    Change,
    Failure,
    Finding,
    NodeFitness,
    Oddness,
    Reason,
    Resources,
    Saving,
)
from forewarn.assess.champions import FEATURE_SETS, Champion, Champions
from forewarn.assess.codes import NoteCode
from forewarn.assess.explanation import reasons, with_needs, with_record
from forewarn.assess.forecast import Forecast
from forewarn.assess.hours_at_risk import hours_at_risk, spent_by_cause
from forewarn.assess.machine import Machine
from forewarn.assess.needs import ForecastNeeds
from forewarn.assess.node_health import Health, fitness, sick_risk
from forewarn.assess.oddness import NodeRequest, oddness
from forewarn.assess.risk_parts import OwnFailures, with_node_risk, with_other_excess
from forewarn.assess.routing import ModelAnswer, speak
from forewarn.assess.similar import similar_jobs
from forewarn.assess.user_history import UserHistories, earlier_used
from forewarn.assess.verdict import judged
from forewarn.evidence import Statement
from forewarn.features.inputs import policed_job
from forewarn.features.snapshot import Snapshot
from forewarn.job.outcomes import Outcome
from forewarn.job.phase import Phase
from forewarn.job.record import Job
from forewarn.learn.data.table import JobTable, table_of_now
from forewarn.learn.fitting.own_record import by_own_record
from forewarn.learn.fitting.pooling import FORECASTS, PROBABLE, Excess
from forewarn.learn.heads.usage.distributions import UsageForecast
from forewarn.learn.heads.usage.quantities import QUANTITIES
from forewarn.learn.registry.bundle import Bundle

_ALL = 0.99  # of earlier runs, in a memory that fades

# The job that some changes make of the one assessed.
Vary = Callable[[Sequence[Change]], ChangedJob]
# Median waits, in seconds, of recent requests like a job's with each of two time limits; None: too few.
Waits = Callable[[Job, float, float], tuple[float, float] | None]


@dataclass(frozen=True, slots=True)
class _Stated:
    """What is stated of some jobs, one row each."""

    table: JobTable
    spoken: Sequence[ModelAnswer]
    forecast: Forecast
    failures: Sequence[Failure | None]

    def needs(self, row: int) -> ForecastNeeds:
        """None where the model passed the job on: its forecasts rest on no more such jobs than its risk."""
        return ForecastNeeds(self.forecast.row(row) if self.spoken[row].champion else None)

    def excess(self, row: int) -> dict[Outcome, float]:
        """How likely a job needs more than it requests, where a forecast tells."""
        return self.forecast.excess(row) if self.spoken[row].champion else {}


class Assessor:
    """Assesses jobs of one cluster as of one moment. Any number of threads may ask; it keeps nothing."""

    def __init__(
        self, snapshot: Snapshot, champions: Champions, machine: Machine, pasts: UserHistories, waits: Waits
    ) -> None:
        self._snapshot, self._champions, self._waits = snapshot, champions, waits
        self.machine, self.pasts = machine, pasts
        self.cluster, self.at = snapshot.cluster, snapshot.at
        self.known_until = snapshot.known_until

    def assess(
        self,
        job: Job,
        *,
        findings: Sequence[Finding] = (),
        memory_floor: int | None = None,
        exclude: frozenset[str] = frozenset(),
        vary: Vary | None = None,
    ) -> Assessment:
        """Assess one job as a whole.

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
        (phase,) = self._phases([job])
        nodes = self._nodes(job, exclude)
        node_risk = self._node_risk(job, nodes)
        stated = self._state(phase, [ChangedJob(job, exclude)], [node_risk])
        (brief,) = self._brief(stated, [job])
        alike = similar_jobs(self.pasts.past_of(job.user), job, self._champions.policy, as_of=self.at)
        odd = self._oddness(job, stated.table)
        advice: tuple[Advice, ...] = ()
        saved: tuple[Saving, ...] = ()
        if brief.failure and not any(oddity.impossible for oddity in odd.oddities):
            vary = vary or (lambda changes: changed(job, changes, exclude))
            is_by_rule = _is_by_rule(stated)
            situation = Situation(
                job=job,
                needs=stated.needs(0),
                failure=brief.failure,
                after=self._after(phase, stated, brief.failure, vary, is_by_rule),
                nodes=self.machine.nodes,
                partitions=self.machine.partitions,
                fitness=nodes,
                memory_floor=memory_floor,
                waits=_waits(stated.table, job),
                node_risk=node_risk,
                may_use=lambda: self.pasts.past_of(job.user).partitions(job.user),
            )
            advice = advise(situation)
            if is_by_rule:
                advice = tuple(replace(one, risk_after=None) for one in advice)
            longest = max((float(other.run_time) for other in alike.jobs if other.run_time), default=None)
            saved = savings(
                situation,
                longest=longest,
                waits=lambda limit, smaller: self._waits(job, limit, smaller),
            )
        return judged(
            brief,
            findings=tuple(findings),
            nodes=nodes,
            oddness=odd,
            similar=alike.jobs,
            similar_in_short=alike.tally,
            reasons=_reasons(stated, brief),
            advice=advice,
            savings=saved,
        )

    def assess_all(self, jobs: Sequence[Job]) -> list[Assessment]:
        """Assess each of many jobs in brief: how long, how much, will it fail and of what."""
        self.pasts.prepare({job.user for job in jobs})
        made: dict[int, Assessment] = {}
        phases = self._phases(jobs)
        for phase in dict.fromkeys(phases):
            places = [place for place, at in enumerate(phases) if at == phase]
            some = [jobs[place] for place in places]
            stated = self._state(phase, [ChangedJob(job) for job in some], self._kept_node_risks(some))
            made |= zip(places, map(judged, self._brief(stated, some)), strict=True)
        return [made[place] for place in range(len(jobs))]

    def champion(self, phase: str, feature_set: str) -> Champion | None:
        """The model that serves here at a phase with a feature set."""
        return self._champions.get(phase, feature_set)

    def table(self, phase: str, jobs: Sequence[Job]) -> JobTable:
        """What is knowable of jobs now, as a model sees it."""
        facts = self._snapshot.facts
        read = [policed_job(job, facts) for job in jobs]
        rows = self._snapshot.features_as_read(read, phase)
        return table_of_now(self.cluster, phase, read, rows, self.at, facts)

    def _after(
        self, phase: Phase, stated: _Stated, failure: Failure, vary: Vary, is_by_rule: bool
    ) -> Callable[[Sequence[Sequence[Change]]], Sequence[Failure | None]]:
        """What is stated of a job with each of some lists of changes."""

        def after(plans: Sequence[Sequence[Change]]) -> Sequence[Failure | None]:
            variants = [vary(changes) for changes in plans]
            if not variants:
                return ()
            risks = [self._node_risk(one.job, self._nodes(one.job, one.exclude)) for one in variants]
            other = self._state(phase, variants, risks, forecast=FORECASTS)
            if not is_by_rule:
                return other.failures
            return [
                with_other_excess(failure, stated.excess(0), other.excess(row))
                for row in range(len(variants))
            ]

        return after

    def _state(
        self,
        phase: Phase,
        variants: Sequence[ChangedJob],
        node_risks: Sequence[float],
        *,
        forecast: Collection[str] = tuple(QUANTITIES),
    ) -> _Stated:
        """The one path on which a risk is stated, of jobs as they are and as they could be.

        `forecast` are the quantities that are wanted; the risk rests on run time and memory alone.
        """
        table = self.table(phase, [variant.job for variant in variants])
        bundle = self._bundle(table)
        foreseen = self._foreseen(bundle, table, forecast)
        spoken = self._speak(bundle, table, foreseen)
        failures = [
            one.failure and with_node_risk(one.failure, risk)
            for one, risk in zip(spoken, node_risks, strict=True)
        ]
        return _Stated(table, spoken, Forecast(table, foreseen), failures)

    def _node_risk(self, job: Job, fit: NodeFitness | None) -> float:
        """Of a sick node that it may be given; one that runs has its nodes, and the model has seen them."""
        return sick_risk(fit, self.machine.health) if fit and job.start is None else 0.0

    def _kept_node_risks(self, jobs: Sequence[Job]) -> list[float]:
        """The same of many jobs, by nodes that were judged before: jobs that ask alike are looked at once."""
        if not any(node.health is Health.SICK for node in self.machine.kept_health or ()):
            return [0.0] * len(jobs)
        found: dict[object, float] = {}
        for job in jobs:
            key = (NodeRequest.of(job), job.partition, job.start is None)
            if key not in found:
                found[key] = self._node_risk(job, self._nodes(job))
        return [found[NodeRequest.of(job), job.partition, job.start is None] for job in jobs]

    def _phases(self, jobs: Sequence[Job]) -> list[Phase]:
        """As at its start, where a job is in flight and a model knows starts; else as at its submit."""
        if not self._champions.serve_at(Phase.START):
            return [Phase.SUBMIT] * len(jobs)
        return [Phase.START if flies else Phase.SUBMIT for flies in self._snapshot.in_flight(jobs)]

    def _speak(
        self, bundle: Bundle | None, table: JobTable, foreseen: UsageForecast | None
    ) -> list[ModelAnswer]:
        def excess(of: Bundle) -> Excess:
            if of is bundle and foreseen is not None:
                return of.excess_of(foreseen, table)
            return of.excess(table, np.arange(len(table.values)))

        return speak(
            table,
            self._champions,
            excess=excess,
            ended=self._snapshot.ended,
            recent_rate=self._snapshot.recent_failure_rate,
            untrained=lambda: by_own_record(self._snapshot.record),
        )

    def _bundle(self, table: JobTable) -> Bundle | None:
        found = (self._champions.get(table.phase, feature_set) for feature_set in FEATURE_SETS)
        return next((one.bundle for one in found if one and one.unfit(table) is None), None)

    def _foreseen(
        self, bundle: Bundle | None, table: JobTable, only: Collection[str]
    ) -> UsageForecast | None:
        usage = bundle.usage if bundle else None
        if usage is None:
            return None
        # As it was judged: CPU efficiency and I/O lean on what the user's earlier jobs used.
        kept = usage.is_enforced(Outcome.TIMEOUT)
        remembered = [name for name in usage.remembered if name in only]
        earlier = earlier_used(self.pasts, table.about, remembered, self.at, kept) if remembered else {}
        return usage.foresee(table, only=only, earlier=earlier)

    def _nodes(self, job: Job, exclude: Collection[str] = ()) -> NodeFitness | None:
        machine = self.machine
        if not machine.nodes:
            return None
        return fitness(job, machine.nodes, machine.partitions, machine.health, exclude)

    def _oddness(self, job: Job, table: JobTable) -> Oddness:
        bundle, machine = self._bundle(table), self.machine
        usual = self.pasts.past_of(job.user).usual(job.user)
        forest = bundle.oddness if bundle else None
        return oddness(job, machine.nodes, machine.partitions, usual, forest=forest, table=table)

    def _brief(self, stated: _Stated, jobs: Sequence[Job]) -> list[Assessment]:
        """What is said in brief of each job of a table, without a verdict."""
        table, forecast = stated.table, stated.forecast
        profiles = _profiles(stated)
        made = []
        for row, (job, spoken, failure) in enumerate(zip(jobs, stated.spoken, stated.failures, strict=True)):
            champion = spoken.champion
            at_risk = hours_at_risk(
                failure,
                forecast.expected_run_time(row) if champion else None,
                forecast.limit(row),
                job.nodes_given or job.nodes_asked,
                spent_by_cause(champion.bundle.causes if champion else None),
            )
            made.append(
                Assessment(
                    cluster=self.cluster,
                    job_id=job.job_id or None,
                    submit=job.submit,
                    user=job.user,
                    name=job.name,
                    partition=job.partition,
                    made_at=self._snapshot.asked_at,
                    phase=table.phase,
                    state=job.state,
                    route=spoken.route,
                    run_time=forecast.run_time(row) if champion else None,
                    resources=_resources(forecast, row, spoken.endings) if champion else None,
                    failure=failure,
                    hours_at_risk=at_risk.hours if at_risk else None,
                    hours_at_risk_by=at_risk.by if at_risk else None,
                    profile=profiles[row],
                    notes=_notes(spoken, table, job),
                )
            )
        return made


def _is_by_rule(stated: _Stated) -> bool:
    """Whether a simple rule in a model's place states the risk of a job.

    It knows nothing of requests: unless it is probable that the request is too small, the forecast needs
    alone say what a change is good for, and no risk is promised.
    """
    champion = stated.spoken[0].champion
    is_rule = champion is not None and champion.bundle.rule is not None
    return is_rule and all(over < PROBABLE for over in stated.excess(0).values())


def _reasons(stated: _Stated, brief: Assessment) -> tuple[Reason, ...]:
    spoken, table = stated.spoken[0], stated.table
    if not (spoken.champion and spoken.matrix and spoken.own):
        return ()
    values = dict(zip(table.names, table.values[0].tolist(), strict=True))
    why = reasons(spoken.champion.bundle, spoken.matrix, values, row=spoken.row)
    why = with_record(why, spoken.own, values)
    return with_needs(why, spoken.own, brief)


def _resources(forecast: Forecast, row: int, killed: OwnFailures | None) -> Resources | None:
    """What it will use; no memory where the user's runs of this very job say that it needs more.

    A job that is killed before its use is sampled was seen to use next to nothing.
    """
    use = forecast.resources(row)
    is_denied = killed and killed.runs and killed.killed_for_memory > _ALL
    if not is_denied or use is None or use.memory is None or use.memory_asked is None:
        return use
    if use.memory.high >= use.memory_asked:
        return use
    return replace(use, memory=None, memory_request=None, over_memory=None)


def _profiles(stated: _Stated) -> list[str | None]:
    """Which of the cluster's kinds of jobs each job is most like; None where nobody tells."""
    made: list[str | None] = [None] * len(stated.spoken)
    by_champion: dict[int, list[int]] = {}
    for row, spoken in enumerate(stated.spoken):
        if spoken.champion and spoken.champion.bundle.profiles:
            by_champion.setdefault(id(spoken.champion), []).append(row)
    for rows in by_champion.values():
        champion = stated.spoken[rows[0]].champion
        profiles = champion.bundle.profiles if champion else None
        if profiles is not None and len(profiles.words) > 1:
            about = stated.table.about
            belongs = profiles.posterior(
                about if len(rows) == about.height else about[rows], stated.table.phase
            )
            for row, kind in zip(rows, belongs.argmax(axis=1), strict=True):
                made[row] = profiles.words[kind]
    return made


def _notes(said: ModelAnswer, table: JobTable, job: Job) -> tuple[Statement, ...]:
    if said.failure and job.start is not None and table.phase == Phase.SUBMIT:
        return (Statement(NoteCode.NO_MODEL_FOR_START),)
    return ()


def _waits(table: JobTable, job: Job) -> Mapping[str, float]:
    """How long jobs of its partition, else of the cluster, have waited of late."""
    for name in ("partition_wait", "queue_wait"):
        waited = float(table.column(name)[0])
        if not np.isnan(waited):
            return {(job.partition or "").split(",")[0]: 2.0**waited - 1.0}
    return {}
