"""The choice of the model that answers for a job: generic, else restricted, else online, else none.

A model abstains where its training data has too little evidence on such jobs (`learn/fitting/abstention.py`).
The online regression needs no training: it answers where every model abstains, once it has seen enough jobs
of the cluster and the user.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from forewarn.assess.assessment import CauseOfFailure, Failure, Route
from forewarn.assess.champions import FEATURE_SETS, Champion, Champions
from forewarn.assess.codes import PassCode
from forewarn.assess.risk_parts import OwnFailures, own_failures, with_own_failures
from forewarn.evidence import Statement, Values
from forewarn.learn.data.matrix import Matrix, or_zero
from forewarn.learn.data.table import FeatureColumns, JobTable
from forewarn.learn.fitting.calibration import Calibration
from forewarn.learn.fitting.evidence_levels import AbstentionCode
from forewarn.learn.fitting.own_record import pool_with_record, uniform_record
from forewarn.learn.fitting.pooling import Excess
from forewarn.learn.heads.causes import Causes
from forewarn.learn.registry.bundle import Bundle
from forewarn.quick_init import quick_init

ONLINE = "online"
FEWEST_ENDED, FEWEST_OWN = 200, 3  # ended jobs of the cluster, and of the user, before it answers
# Ended jobs of the cluster before it answers for a job unlike all earlier ones of its user: a short history
# contains only a few such cases. In a lab cluster every new script had a risk of 23% after 412 jobs, and of
# 60% after 1,365. Where a model of the same history abstains for lack of such cases, the regression does so
# too, however many jobs there are.
FEWEST_FOR_NEW = 2000


@quick_init
@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The answer of a model for one job, and its input; without a risk where every model abstains."""

    route: Route
    failure: Failure | None = None  # the stated risk
    champion: Champion | None = None
    matrix: Matrix | None = None  # the model's input, for this and other jobs
    row: int = 0  # of the job in the matrix
    own_failures: OwnFailures | None = None  # how the user's runs of the same job failed
    by_record: float = 0.0  # the risk by the model and the user's own record
    given_failure: Sequence[float] = ()  # the probability of each cause if the job fails

    @property
    def without_forecast(self) -> Failure | None:
        """The risk by the model and the user's own record, without forecasts."""
        failure, champion, own, p = self.failure, self.champion, self.own_failures, self.by_record
        if failure is None or champion is None or own is None:
            return failure
        causes = champion.bundle.causes
        parts = by_cause(causes, [p * share for share in self.given_failure]) if causes else ()
        return with_own_failures(
            replace(failure, probability=p, warns=p >= failure.threshold, causes=parts), own
        )


def route_jobs(
    table: JobTable,
    champions: Champions,
    *,
    excess: Callable[[Bundle], Excess] = lambda _: {},
    ended: int,
    recent_rate: float | None = None,
    untrained: Callable[[], Calibration] = Calibration,
) -> list[ModelAnswer]:
    """Route each job of a table to a model and return the answers.

    Parameters
    ----------
    excess
        Returns the probabilities of exceeding the requested time and memory, by a model's own forecasts.
    ended, recent_rate
        The number of ended jobs of the cluster, and its recent failure rate.
    untrained
        Returns the calibration that turns the online regression's log odds into probabilities.
    """
    count = len(table.values)
    answers: list[ModelAnswer | None] = [None] * count
    passed: list[list[Statement]] = [[] for _ in range(count)]
    for feature_set in FEATURE_SETS:
        unanswered = [row for row in range(count) if answers[row] is None]
        champion = champions.get(table.phase, feature_set) if unanswered else None
        if champion is None:
            continue
        if (reason := champion.unfit(table)) is not None:
            for row in unanswered:
                passed[row].append(_with_model(feature_set, reason))
            continue
        new_answers = _ask(champion, table, unanswered, passed, excess(champion.bundle))
        for row, answer in zip(unanswered, new_answers, strict=True):
            answers[row] = answer
    has_model = any(champions.get(table.phase, feature_set) for feature_set in FEATURE_SETS)
    for row in range(count):
        if answers[row] is None:
            before = passed[row] if has_model else [Statement(PassCode.NO_MODEL)]
            answers[row] = _online(table, row, before, ended, recent_rate, untrained)
    return [answer for answer in answers if answer is not None]


def _ask(
    champion: Champion, table: JobTable, rows: Sequence[int], passed: list[list[Statement]], excess: Excess
) -> list[ModelAnswer | None]:
    """Return one model's answers for some jobs; None where it abstains, with the reason added to `passed`."""
    bundle, selected = champion.bundle, np.array(rows)
    part = table if len(rows) == len(table.values) else table.rows(selected)
    matrix = bundle.assembly.matrix(part)
    risk = bundle.risk(matrix, {outcome: over[selected] for outcome, over in excess.items()})
    by_model = risk.model_probability
    pooled = bundle.pooling.with_record(by_model, matrix) if bundle.pooling else by_model
    failures = own_failures(part)
    abstentions = bundle.abstention.why(FeatureColumns(part))
    partitions = part.about["partition"].to_list() if champion.thresholds else [None] * len(rows)
    learnt = bundle.causes is None or bundle.causes.distinguishes_jobs
    columns = (risk.probability, by_model, pooled, risk.by_cause, risk.given_failure)
    stated = zip(*(column.tolist() for column in columns), abstentions, failures, partitions, strict=True)
    first_asked = _route(table, (), champion)  # the route of most jobs
    answers: list[ModelAnswer | None] = []
    for i, (p, p_model, p_record, causes, shares, reason, own, partition) in enumerate(stated):
        before = passed[rows[i]]
        if reason is not None:
            before.append(_with_model(champion.name.feature_set, reason))
            answers.append(None)
            continue
        threshold = champion.threshold(partition)
        failure = Failure(
            probability=p,
            threshold=threshold,
            warns=p >= threshold,
            base_rate=bundle.base_rate,
            rests_on=bundle.jobs,
            causes=by_cause(bundle.causes, causes) if bundle.causes else (),
            causes_learnt=learnt,
            model_probability=p_model,
        )
        answers.append(
            ModelAnswer(
                _route(table, before, champion) if before else first_asked,
                with_own_failures(failure, own),
                champion,
                matrix,
                i,
                own,
                p_record,
                shares,
            )
        )
    return answers


def by_cause(causes: Causes, probabilities: Sequence[float]) -> tuple[CauseOfFailure, ...]:
    """Return the probability of each cause, most likely first."""
    pairs = sorted(zip(probabilities, causes.causes, strict=True), key=lambda pair: -pair[0])
    return tuple(CauseOfFailure(outcome=cause.outcome, kind=cause.kind, probability=p) for p, cause in pairs)


def untrained_threshold(recent_rate: float) -> float:
    """Return the threshold of the online regression, for which no jobs were set aside to choose one.

    It warns from twice the recent failure rate, within bounds.

    >>> untrained_threshold(0.0), untrained_threshold(0.08), untrained_threshold(0.4)
    (0.1, 0.16, 0.5)
    """
    return min(max(2 * recent_rate, 0.1), 0.5)


def online_reach(ended: int) -> int:
    """Return for how many kinds of jobs a cluster has enough ended jobs: none, known ones, new ones too.

    >>> online_reach(199), online_reach(200), online_reach(2000)
    (0, 1, 2)
    """
    return (ended >= FEWEST_ENDED) + (ended >= FEWEST_FOR_NEW)


def _online(
    table: JobTable,
    row: int,
    passed: list[Statement],
    ended: int,
    recent_rate: float | None,
    calibration: Callable[[], Calibration],
) -> ModelAnswer:
    own = float(or_zero(table.column("user_ended")[row]))
    is_new = _is_new(table, row)
    if is_new and any(isinstance(reason.code, AbstentionCode) for reason in passed):
        missing = _with_model(ONLINE, Statement(PassCode.NOTHING_LIKE_IT))
        return ModelAnswer(_route(table, [*passed, missing], None))
    needed = FEWEST_FOR_NEW if is_new else FEWEST_ENDED
    if ended < needed or own < FEWEST_OWN or recent_rate is None:
        counts: Values = {"jobs": ended, "jobs_of_user": int(own), "is_new": is_new}
        needs: Values = {"jobs_needed": needed, "jobs_of_user_needed": FEWEST_OWN}
        missing = _with_model(ONLINE, Statement(PassCode.TOO_FEW_JOBS, {**counts, **needs}))
        return ModelAnswer(_route(table, [*passed, missing], None))
    job = slice(row, row + 1)
    estimate = calibration()(table.column(ONLINE)[job])
    record = uniform_record(lambda name: table.column(name)[job])
    p = float(pool_with_record(estimate, record, recent_rate)[0])
    threshold = untrained_threshold(recent_rate)
    failure = Failure(
        probability=p,
        threshold=threshold,
        warns=p >= threshold,
        base_rate=recent_rate,
        rests_on=ended,
        model_probability=float(estimate[0]),
    )
    route = Route(model=ONLINE, version=None, phase=table.phase, feature_set=None, passed=tuple(passed))
    return ModelAnswer(route, failure)


def _is_new(table: JobTable, row: int) -> bool:
    """Check whether no job of its user with this request or name has ended."""
    similar_ended = (table.column(f"user_{what}_ended")[row] for what in ("request", "name"))
    return not any(ended > 0 for ended in similar_ended)  # NaN is not


def _with_model(model: str, reason: Statement) -> Statement:
    """Add the name of the model to its reason for abstaining."""
    return Statement(reason.code, {"model": model, **reason.values})


def _route(table: JobTable, passed: Sequence[Statement], champion: Champion | None) -> Route:
    return Route(
        model=str(champion.name) if champion else None,
        version=champion.version if champion else None,
        phase=table.phase,
        feature_set=champion.name.feature_set if champion else None,
        passed=tuple(passed),
        rule=champion.bundle.rule if champion else None,
        caveat=champion.caveat if champion else None,
    )
