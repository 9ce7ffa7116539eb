"""Which model speaks for a job: generic, else restricted, else the online regression, else nobody.

A model passes a job on where it has too little evidence of its own (`learn/fitting/abstention.py`). The online
regression needs no training: it speaks where no model does, once it has seen enough of cluster and user.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from forewarn.assess.assessment import CauseOfFailure, Failure, Route
from forewarn.assess.champions import FEATURE_SETS, Champion, Champions
from forewarn.assess.codes import PassCode
from forewarn.assess.risk_parts import OwnFailures, own_endings, with_own_endings
from forewarn.evidence import Statement, Values
from forewarn.learn.data.matrix import Matrix
from forewarn.learn.data.table import Columns, JobTable
from forewarn.learn.fitting.abstention import AbstentionCode
from forewarn.learn.fitting.calibration import Calibration
from forewarn.learn.fitting.own_record import alike, pool_with_record
from forewarn.learn.fitting.pooling import Excess
from forewarn.learn.heads.causes import Causes
from forewarn.learn.registry.bundle import Bundle

ONLINE = "online"
FEWEST_ENDED, FEWEST_OWN = 200, 3  # jobs of the cluster, and of the user, before the regression speaks
# Jobs of the cluster before it speaks of one that is like none of its user's: a young history holds a handful
# of such. On a lab each new script was 23 % after 412 jobs, and 60 % after 1,365. Where a model of the same
# history found that it knows too few of them, so does the regression, however many jobs there are.
FEWEST_FOR_NEW = 2000


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What a model says of one job, and what it saw: nothing where nobody speaks."""

    route: Route
    failure: Failure | None = None  # as it is stated
    own: Failure | None = None  # by the model and the user's own record, without forecast needs
    champion: Champion | None = None
    matrix: Matrix | None = None  # what the model saw, of this and other jobs
    row: int = 0  # of the job in it
    endings: OwnFailures | None = None  # how the user's runs of this very job ended


def speak(
    table: JobTable,
    champions: Champions,
    *,
    excess: Callable[[Bundle], Excess] = lambda _: {},
    ended: int,
    recent_rate: float | None = None,
    untrained: Callable[[], Calibration] = Calibration,
) -> list[ModelAnswer]:
    """State the risk of each job of a table; the cluster has so many `ended` jobs and a recent failure rate.

    `excess` tells how likely the jobs need more than they request, by a model's own forecasts.
    `untrained` makes probabilities of the online regression's log odds.
    """
    count = len(table.values)
    said: list[ModelAnswer | None] = [None] * count
    passed: list[list[Statement]] = [[] for _ in range(count)]
    for feature_set in FEATURE_SETS:
        open_ones = [row for row in range(count) if said[row] is None]
        champion = champions.get(table.phase, feature_set) if open_ones else None
        if champion is None:
            continue
        if (reason := champion.unfit(table)) is not None:
            for row in open_ones:
                passed[row].append(_by(feature_set, reason))
            continue
        found_for = _of(champion, table, open_ones, passed, excess(champion.bundle))
        for row, found in zip(open_ones, found_for, strict=True):
            said[row] = found
    modelled = any(champions.get(table.phase, feature_set) for feature_set in FEATURE_SETS)
    for row in range(count):
        if said[row] is None:
            before = passed[row] if modelled else [Statement(PassCode.NO_MODEL)]
            said[row] = _online(table, row, before, ended, recent_rate, untrained)
    return [found for found in said if found is not None]


def _of(
    champion: Champion, table: JobTable, rows: Sequence[int], passed: list[list[Statement]], excess: Excess
) -> list[ModelAnswer | None]:
    """What one model says of some jobs; None, and why, of those that it passes on."""
    bundle, which = champion.bundle, np.array(rows)
    part = table if len(rows) == len(table.values) else table.rows(which)
    matrix = bundle.assembly.matrix(part)
    risk = bundle.risk(matrix, {outcome: over[which] for outcome, over in excess.items()})
    pooled = bundle.pooling.with_record(risk.own, matrix) if bundle.pooling else risk.own
    endings = own_endings(part)
    why = bundle.abstention.why(Columns(part))
    made: list[ModelAnswer | None] = []
    for place, row in enumerate(rows):
        if (reason := why[place]) is not None:
            passed[row].append(_by(champion.name.feature_set, reason))
            made.append(None)
            continue
        p, own = float(risk.probability[place]), float(pooled[place])
        failure = Failure(
            probability=p,
            threshold=bundle.chosen.value,
            warns=p >= bundle.chosen.value,
            base_rate=bundle.base_rate,
            rests_on=bundle.jobs,
            causes=by_cause(bundle.causes, risk.by_cause[place]) if bundle.causes else (),
            causes_learnt=bundle.causes is None or bundle.causes.tells_apart,
            model_probability=float(risk.own[place]),
        )
        alone = by_cause(bundle.causes, own * risk.given[place]) if bundle.causes else ()
        route = _route(table, passed[row], champion)
        made.append(
            ModelAnswer(
                route,
                with_own_endings(failure, endings[place]),
                with_own_endings(
                    replace(failure, probability=own, warns=own >= failure.threshold, causes=alone),
                    endings[place],
                ),
                champion,
                matrix,
                place,
                endings[place],
            )
        )
    return made


def by_cause(causes: Causes, probabilities: NDArray[np.float64]) -> tuple[CauseOfFailure, ...]:
    """The probability of failing of each cause, the likeliest first."""
    found = [
        CauseOfFailure(outcome=cause.outcome, kind=cause.kind, probability=float(p))
        for cause, p in zip(causes.causes, probabilities, strict=True)
    ]
    return tuple(sorted(found, key=lambda cause: -cause.probability))


def untrained_threshold(recent_rate: float) -> float:
    """From which risk on the untrained estimate warns: no jobs were set aside to choose a threshold by.

    Twice the usual rate is worth a warning, within bounds.

    >>> untrained_threshold(0.0), untrained_threshold(0.08), untrained_threshold(0.4)
    (0.1, 0.16, 0.5)
    """
    return min(max(2 * recent_rate, 0.1), 0.5)


def _online(
    table: JobTable,
    row: int,
    passed: list[Statement],
    ended: int,
    recent_rate: float | None,
    calibration: Callable[[], Calibration],
) -> ModelAnswer:
    own = float(np.nan_to_num(table.column("user_ended")[row]))
    is_new = _is_new(table, row)
    if is_new and any(isinstance(reason.code, AbstentionCode) for reason in passed):
        missing = _by(ONLINE, Statement(PassCode.NOTHING_LIKE_IT))
        return ModelAnswer(_route(table, [*passed, missing], None))
    needed = FEWEST_FOR_NEW if is_new else FEWEST_ENDED
    if ended < needed or own < FEWEST_OWN or recent_rate is None:
        known: Values = {"jobs": ended, "jobs_of_user": int(own), "is_new": is_new}
        needs: Values = {"jobs_needed": needed, "jobs_of_user_needed": FEWEST_OWN}
        missing = _by(ONLINE, Statement(PassCode.TOO_FEW_JOBS, {**known, **needs}))
        return ModelAnswer(_route(table, [*passed, missing], None))
    here = slice(row, row + 1)
    estimate = calibration()(table.column(ONLINE)[here])
    p = float(pool_with_record(estimate, alike(lambda name: table.column(name)[here]), recent_rate)[0])
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
    return ModelAnswer(route, failure, failure)


def _is_new(table: JobTable, row: int) -> bool:
    """Whether no job of its user with this request or name has ended."""
    alike_ended = (table.column(f"user_{what}_ended")[row] for what in ("request", "name"))
    return not any(np.nan_to_num(ended) > 0 for ended in alike_ended)


def _by(who: str, reason: Statement) -> Statement:
    """Why a model passes a job on, with which one it is."""
    return Statement(reason.code, {"model": who, **reason.values})


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
