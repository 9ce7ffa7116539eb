"""`Assessor`, which computes the `Assessment` of a job.

It follows the order of a scheduler's questions: run time and resources, odd configuration, failure by cause,
healthy nodes; then reasons, profile and advice. Other modules compute each part; this one combines them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from forewarn.assess.advice.changed_job import ChangedJob, changed
from forewarn.assess.advice.savings import savings
from forewarn.assess.advice.search import advise
from forewarn.assess.advice.situation import Situation
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
from forewarn.assess.node_health.fitness import fitness, sick_risk
from forewarn.assess.node_health.records import Health
from forewarn.assess.oddness import NodeRequest, oddness
from forewarn.assess.risk_parts import OwnFailures, with_node_risk, with_other_excess
from forewarn.assess.routing import ModelAnswer, route_jobs
from forewarn.assess.similar import similar_jobs
from forewarn.assess.user_history import UserHistories, earlier_usage
from forewarn.assess.verdict import verdict_of, with_verdict
from forewarn.evidence import Statement
from forewarn.features.inputs import treated_jobs
from forewarn.features.snapshot import Snapshot
from forewarn.job.outcomes import Outcome
from forewarn.job.phase import Phase
from forewarn.job.record import Job
from forewarn.learn.data.table import JobTable, live_table
from forewarn.learn.fitting.own_record import calibration_from_record
from forewarn.learn.fitting.pooling import FORECASTS, PROBABLE, Excess
from forewarn.learn.heads.usage.distributions import UsageForecast
from forewarn.learn.heads.usage.quantities import QUANTITIES
from forewarn.learn.registry.bundle import Bundle

_ALL = 0.99  # share that counts as all earlier runs: the counts decay, so 1 is never reached

# Returns the assessed job with some changes applied.
Vary = Callable[[Sequence[Change]], ChangedJob]
# Returns the median waits in seconds of recent, similar requests, for each of two time limits; None: too few.
JobWaits = Callable[[Job, float, float], tuple[float, float] | None]


@dataclass(frozen=True, slots=True)
class _Stated:
    """Model answers, forecasts and stated risks of some jobs, one row per job."""

    table: JobTable
    answers: Sequence[ModelAnswer]
    forecast: Forecast
    failures: Sequence[Failure | None]

    def needs(self, row: int) -> ForecastNeeds:
        """Return the forecast needs of a job; none where the model abstained: its forecasts are no better."""
        return ForecastNeeds(self.forecast.row(row) if self.answers[row].champion else None)

    def excess(self, row: int) -> dict[Outcome, float]:
        """Return the probabilities of exceeding the requested time and memory, where there is a forecast."""
        return self.forecast.excess(row) if self.answers[row].champion else {}


class Assessor:
    """The assessor of one cluster's jobs at one moment. It is safe to use from many threads."""

    def __init__(
        self,
        snapshot: Snapshot,
        champions: Champions,
        machine: Machine,
        histories: UserHistories,
        waits: JobWaits,
    ) -> None:
        self._snapshot, self._champions, self._waits = snapshot, champions, waits
        self.machine, self.histories = machine, histories
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
            Problems found in its script.
        memory_floor
            Bytes per node that its script configures for itself, such as `-Xmx`: no advice goes below.
        exclude
            Nodes that it excludes.
        vary
            Returns the job with changes applied; by default its record with those fields replaced.
        """
        (phase,) = self._phases([job])
        nodes = self._nodes(job, exclude)
        node_risk = self._node_risk(job, nodes)
        stated = self._state(phase, [ChangedJob(job, exclude)], [node_risk])
        (brief,) = self._brief(stated, [job])
        similar = similar_jobs(self.histories.history_of(job.user), job, self._champions.policy, at=self.at)
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
                may_use=lambda: self.histories.history_of(job.user).partitions(job.user),
            )
            advice = advise(situation)
            if is_by_rule:
                advice = tuple(replace(one, risk_after=None) for one in advice)
            saved = savings(
                situation,
                longest=similar.longest,
                waits=lambda limit, smaller: self._waits(job, limit, smaller),
            )
        return with_verdict(
            brief,
            findings=tuple(findings),
            nodes=nodes,
            oddness=odd,
            similar=similar.jobs,
            similar_in_short=similar.tally,
            reasons=_reasons(stated, brief),
            advice=advice,
            savings=saved,
        )

    def assess_all(self, jobs: Sequence[Job], *, prediction_only: bool = False) -> list[Assessment]:
        """Assess many jobs in brief: run time, resources, and failure by cause.

        `prediction_only` leaves out what no risk depends on: CPU efficiency, I/O rate, and the profile.
        """
        forecast = FORECASTS if prediction_only else tuple(QUANTITIES)
        self.histories.prepare({job.user for job in jobs})
        assessments: dict[int, Assessment] = {}
        phases = self._phases(jobs)
        for phase in dict.fromkeys(phases):
            rows = [row for row, other in enumerate(phases) if other == phase]
            selected = [jobs[row] for row in rows]
            node_risks = self._cached_node_risks(selected)
            stated = self._state(phase, [ChangedJob(job) for job in selected], node_risks, forecast=forecast)
            brief = self._brief(stated, selected, with_profile=not prediction_only)
            assessments |= zip(rows, brief, strict=True)
        return [assessments[row] for row in range(len(jobs))]

    def champion(self, phase: str, feature_set: str) -> Champion | None:
        """Return the champion of a phase and feature set."""
        return self._champions.get(phase, feature_set)

    def table(self, phase: str, jobs: Sequence[Job]) -> JobTable:
        """Compute the features of jobs at the current moment, as a model reads them."""
        facts = self._snapshot.facts
        read = treated_jobs(jobs, facts)
        rows = self._snapshot.features_as_read(read, phase)
        return live_table(self.cluster, phase, read, rows, self.at, facts)

    def _after(
        self, phase: Phase, stated: _Stated, failure: Failure, vary: Vary, is_by_rule: bool
    ) -> Callable[[Sequence[Sequence[Change]]], Sequence[Failure | None]]:
        """Return a function that states the risk of the job under each of some lists of changes."""

        def after(plans: Sequence[Sequence[Change]]) -> Sequence[Failure | None]:
            variants = [vary(changes) for changes in plans]
            if not variants:
                return ()
            risks = [
                self._node_risk(variant.job, self._nodes(variant.job, variant.exclude))
                for variant in variants
            ]
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
        """State the risk of jobs, as they are or with changes: the only code path that does so.

        `forecast` names the quantities to forecast; the risk depends on run time and memory only.
        """
        table = self.table(phase, [variant.job for variant in variants])
        bundle = self._bundle(table)
        usage = self._forecast(bundle, table, forecast)
        answers = self._route(bundle, table, usage)
        failures = [
            answer.failure and with_node_risk(answer.failure, risk)
            for answer, risk in zip(answers, node_risks, strict=True)
        ]
        return _Stated(table, answers, Forecast(table, usage), failures)

    def _node_risk(self, job: Job, fit: NodeFitness | None) -> float:
        """Return the risk that a pending job gets a sick node; a running job already has its nodes."""
        return sick_risk(fit, self.machine.health) if fit and job.start is None else 0.0

    def _cached_node_risks(self, jobs: Sequence[Job]) -> list[float]:
        """Return the node risks of many jobs by the node health at hand, computing equal requests once."""
        if not any(node.health is Health.SICK for node in self.machine.health_at_hand or ()):
            return [0.0] * len(jobs)
        found: dict[object, float] = {}
        for job in jobs:
            key = (NodeRequest.of(job), job.partition, job.start is None)
            if key not in found:
                found[key] = self._node_risk(job, self._nodes(job))
        return [found[NodeRequest.of(job), job.partition, job.start is None] for job in jobs]

    def _phases(self, jobs: Sequence[Job]) -> list[Phase]:
        """Return the phase of each job: start if it is in flight and a model serves starts, else submit."""
        if not self._champions.serve_at(Phase.START):
            return [Phase.SUBMIT] * len(jobs)
        return [Phase.START if in_flight else Phase.SUBMIT for in_flight in self._snapshot.in_flight(jobs)]

    def _route(
        self, bundle: Bundle | None, table: JobTable, forecast: UsageForecast | None
    ) -> list[ModelAnswer]:
        def excess(of: Bundle) -> Excess:
            if of is bundle and forecast is not None:
                return of.excess_of(forecast, table)
            return of.excess(table, np.arange(len(table.values)))

        return route_jobs(
            table,
            self._champions,
            excess=excess,
            ended=self._snapshot.ended,
            recent_rate=self._snapshot.recent_failure_rate,
            untrained=lambda: calibration_from_record(self._snapshot.record),
        )

    def _bundle(self, table: JobTable) -> Bundle | None:
        found = (self._champions.get(table.phase, feature_set) for feature_set in FEATURE_SETS)
        return next((one.bundle for one in found if one and one.unfit(table) is None), None)

    def _forecast(
        self, bundle: Bundle | None, table: JobTable, only: Collection[str]
    ) -> UsageForecast | None:
        usage = bundle.usage if bundle else None
        if usage is None:
            return None
        # As in its evaluation: CPU efficiency and I/O depend on what the user's earlier jobs used.
        limits_kept = usage.is_enforced(Outcome.TIMEOUT)
        remembered = [name for name in usage.history_quantities if name in only]
        earlier = (
            earlier_usage(self.histories, table.about, remembered, self.at, limits_kept) if remembered else {}
        )
        return usage.forecast(table, only=only, earlier=earlier)

    def _nodes(self, job: Job, exclude: Collection[str] = ()) -> NodeFitness | None:
        machine = self.machine
        if not machine.nodes:
            return None
        return fitness(job, machine.nodes, machine.partitions, machine.health, exclude)

    def _oddness(self, job: Job, table: JobTable) -> Oddness:
        bundle, machine = self._bundle(table), self.machine
        usual = self.histories.history_of(job.user).usual(job.user)
        forest = bundle.oddness if bundle else None
        return oddness(job, machine.nodes, machine.partitions, usual, forest=forest, table=table)

    def _brief(self, stated: _Stated, jobs: Sequence[Job], *, with_profile: bool = True) -> list[Assessment]:
        """Assess each job of a table in brief."""
        table, forecast = stated.table, stated.forecast
        profiles = _profiles(stated) if with_profile else [None] * len(jobs)
        champions = {id(answer.champion): answer.champion for answer in stated.answers}
        spent = {key: spent_by_cause(one.bundle.causes if one else None) for key, one in champions.items()}
        assessments = []
        for row, (job, answer, failure) in enumerate(zip(jobs, stated.answers, stated.failures, strict=True)):
            champion = answer.champion
            at_risk = hours_at_risk(
                failure,
                forecast.expected_run_time(row) if champion else None,
                forecast.limit(row),
                job.nodes_given or job.nodes_asked,
                spent[id(champion)],
            )
            hours = at_risk.hours if at_risk else None
            verdict, summary = verdict_of(failure, hours)
            assessments.append(
                Assessment(
                    cluster=self.cluster,
                    job_id=job.job_id or None,
                    submit=job.submit,
                    user=job.user,
                    name=job.name,
                    partition=job.partition,
                    made_at=self._snapshot.requested_at,
                    phase=table.phase,
                    state=job.state,
                    verdict=verdict,
                    summary=summary,
                    route=answer.route,
                    run_time=forecast.run_time(row) if champion else None,
                    resources=_resources(forecast, row, answer.own_failures) if champion else None,
                    failure=failure,
                    hours_at_risk=hours,
                    hours_at_risk_by=at_risk.by if at_risk else None,
                    profile=profiles[row],
                    notes=_notes(answer, table, job),
                )
            )
        return assessments


def _is_by_rule(stated: _Stated) -> bool:
    """Check whether a simple rule, in place of a model, states the risk of a job.

    A rule does not depend on the request: unless the request is probably too small, only the forecast needs
    show the effect of a change, and no risk after the change is stated.
    """
    champion = stated.answers[0].champion
    is_rule = champion is not None and champion.bundle.rule is not None
    return is_rule and all(over < PROBABLE for over in stated.excess(0).values())


def _reasons(stated: _Stated, brief: Assessment) -> tuple[Reason, ...]:
    answer, table = stated.answers[0], stated.table
    if not (answer.champion and answer.matrix and answer.without_forecast):
        return ()
    values = dict(zip(table.names, table.values[0].tolist(), strict=True))
    explained = reasons(answer.champion.bundle, answer.matrix, values, row=answer.row)
    explained = with_record(explained, answer.without_forecast, values)
    return with_needs(explained, answer.without_forecast, brief)


def _resources(forecast: Forecast, row: int, own: OwnFailures | None) -> Resources | None:
    """Return the forecast use, without memory where the user's runs of the same job contradict the forecast.

    A job that is killed before its memory is sampled has a recorded use of almost nothing.
    """
    use = forecast.resources(row)
    is_contradicted = own and own.runs and own.killed_for_memory > _ALL
    if not is_contradicted or use is None or use.memory is None or use.memory_asked is None:
        return use
    if use.memory.high >= use.memory_asked:
        return use
    return replace(use, memory=None, memory_request=None, over_memory=None)


def _profiles(stated: _Stated) -> list[str | None]:
    """Return the nearest profile of each job; None where its model has no profiles."""
    nearest: list[str | None] = [None] * len(stated.answers)
    by_champion: dict[int, list[int]] = {}
    for row, answer in enumerate(stated.answers):
        if answer.champion and answer.champion.bundle.profiles:
            by_champion.setdefault(id(answer.champion), []).append(row)
    for rows in by_champion.values():
        champion = stated.answers[rows[0]].champion
        profiles = champion.bundle.profiles if champion else None
        if profiles is not None and len(profiles.words) > 1:
            about = stated.table.about
            posterior = profiles.posterior(
                about if len(rows) == about.height else about[rows], stated.table.phase
            )
            for row, profile in zip(rows, posterior.argmax(axis=1), strict=True):
                nearest[row] = profiles.words[profile]
    return nearest


def _notes(answer: ModelAnswer, table: JobTable, job: Job) -> tuple[Statement, ...]:
    if answer.failure and job.start is not None and table.phase == Phase.SUBMIT:
        return (Statement(NoteCode.NO_MODEL_FOR_START),)
    return ()


def _waits(table: JobTable, job: Job) -> Mapping[str, float]:
    """Return the recent median wait of the job's partition, else of the cluster."""
    for name in ("partition_wait", "queue_wait"):
        waited = float(table.column(name)[0])
        if not np.isnan(waited):
            return {(job.partition or "").split(",")[0]: 2.0**waited - 1.0}
    return {}
