"""Evaluate registered models on jobs that none of them was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import NotEnoughError, UsageError
from forewarn.formatting import timestamp
from forewarn.job.moments import Moment, unix_seconds
from forewarn.learn.data.split import FEWEST
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.bootstrap import difference, groups
from forewarn.learn.evaluation.evaluate import evaluate as evaluate_on
from forewarn.learn.fitting.pooling import Risk
from forewarn.learn.fitting.thresholds import threshold_for_f1
from forewarn.learn.registry.bundle import Bundle
from forewarn.learn.registry.registry import Registry
from forewarn.learn.registry.serving import ModelName
from forewarn.learn.registry.versions import Version
from forewarn.operate.history import open_history, population_of
from forewarn.operate.workspace import Workspace
from forewarn.progress import ShowProgress, no_progress

_END = 2**62  # after every job


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedModel:
    """One version and all its figures."""

    version: Version
    evaluation: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """Versions of a model, evaluated on the same jobs."""

    name: ModelName
    since: int  # the first submit time, after the training data of all of them
    jobs: int
    versions: tuple[EvaluatedModel, ...]
    lead: Mapping[str, Any] | None  # how much higher the second one's F1 is, where there are two


def evaluate(
    workspace: Workspace,
    model: str | ModelName,
    *which: int | str,
    since: Moment | None = None,
    until: Moment | None = None,
    seed: int = 0,
    watch: ShowProgress = no_progress,
) -> EvaluationResult:
    """Evaluate versions of a model on jobs submitted after the training data of all of them.

    Parameters
    ----------
    which
        Numbers or aliases of versions; by default the champion and the challenger.
    since, until
        Only jobs submitted in between; without a time zone, in the cluster's.
    """
    name = model if isinstance(model, ModelName) else ModelName.parse(model)
    registry = workspace.registry()
    versions = _versions(registry, name, which)
    bundles = [Bundle.load(registry.bundle(version)) for version in versions]
    population = _shared_population(name, bundles)
    learnt_until = max(bundle.facts.learnt_until for bundle in bundles)
    with open_history(workspace, cluster=name.cluster) as history:
        begin = learnt_until if since is None else unix_seconds(since, history.timezone)
        end = _END if until is None else unix_seconds(until, history.timezone)
        if begin < learnt_until:
            raise UsageError(
                f"--starttime: the model was trained on jobs submitted before {_utc(learnt_until)}; "
                "choose a later time"
            )
        table = history.table(name.phase, population_of(population), watch)
    rows = _rows(name, table, begin, end)
    before = np.flatnonzero(table.labelled & (table.submit < begin))
    if not len(before):  # the store may have only later jobs
        before = rows
    risks = [_risk(bundle, table, rows) for bundle in bundles]
    evaluated = tuple(
        EvaluatedModel(version=version, evaluation=_evaluation(bundle, risk, table, rows, before, seed))
        for version, bundle, risk in zip(versions, bundles, risks, strict=True)
    )
    lead = None
    if len(bundles) == 2:
        old, new = (
            risk.probability >= bundle.chosen.value for bundle, risk in zip(bundles, risks, strict=True)
        )
        lead = difference(groups(table.about[rows]), table.fails[rows], new, old, seed=seed)
    return EvaluationResult(name=name, since=begin, jobs=len(rows), versions=evaluated, lead=lead)


def _versions(registry: Registry, name: ModelName, which: Sequence[int | str]) -> list[Version]:
    """Find the versions named, each once; by default the champion, and the challenger where there is one."""
    if which:
        versions = [registry.version(name, one) for one in which]
        return list({version.version: version for version in versions}.values())
    registered = registry.versions(name)
    versions = [v for alias in ("champion", "challenger") for v in registered if alias in v.aliases]
    return versions or [registry.version(name)]  # whose error lists the versions there are


def _shared_population(name: ModelName, bundles: Sequence[Bundle]) -> str:
    populations = {bundle.facts.population for bundle in bundles}
    if len(populations) > 1:
        raise UsageError(
            f"{name}: these versions have different populations ({', '.join(sorted(populations))}) and "
            "cannot be evaluated on the same jobs; evaluate one at a time"
        )
    return populations.pop()


def _rows(name: ModelName, table: JobTable, begin: int, end: int) -> NDArray[np.int64]:
    rows = np.flatnonzero(table.labelled & (table.submit >= begin) & (table.submit < end))
    if len(rows) < FEWEST:
        raise NotEnoughError(
            f"{name}: only {len(rows)} jobs with a known outcome were submitted since {_utc(begin)}, after "
            f"the training data; an evaluation needs {FEWEST}. Ingest newer history"
        )
    return rows


def _risk(bundle: Bundle, table: JobTable, rows: NDArray[np.int64]) -> Risk:
    return bundle.risk(bundle.assembly.matrix(table, rows), bundle.excess(table, rows))


def _evaluation(
    bundle: Bundle,
    risk: Risk,
    table: JobTable,
    rows: NDArray[np.int64],
    before: NDArray[np.int64],
    seed: int,
) -> Mapping[str, Any]:
    causes = bundle.causes
    return evaluate_on(
        table,
        rows,
        risk.probability,
        bundle.chosen.value,
        train_rows=before,
        for_f1=threshold_for_f1(bundle.thresholds),
        outcomes=causes.outcomes(risk.by_cause) if causes else None,
        hours_lost=causes.hours_lost(risk.by_cause, table.about[rows]) if causes else None,
        seed=seed,
    )


def _utc(at: int) -> str:
    return timestamp(at, "UTC", name_zone=True)
