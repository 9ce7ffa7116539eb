"""How good registered models are on jobs that none of them has learnt from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import NotEnoughError, UsageError
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
from forewarn.operate.history import opened_history, population_of
from forewarn.operate.workspace import Workspace
from forewarn.progress import Watch, unwatched

_END = 2**62  # after every job


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedModel:
    """One version, and every figure of it."""

    version: Version
    evaluation: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """Versions of a model, judged on the same jobs."""

    name: ModelName
    since: int  # submit of the first job, after what any of them learnt from
    jobs: int
    versions: tuple[EvaluatedModel, ...]
    lead: Mapping[str, Any] | None  # F1 of the second above the first, where there are two


def evaluate(
    workspace: Workspace,
    model: str | ModelName,
    *which: int | str,
    since: Moment | None = None,
    until: Moment | None = None,
    seed: int = 0,
    watch: Watch = unwatched,
) -> EvaluationResult:
    """Judge versions of a model on jobs submitted after what any of them learnt from.

    Parameters
    ----------
    which
        Numbers or aliases of versions; by default the champion and the challenger.
    since, until
        Only jobs submitted in between; without a zone, in the cluster's clock.
    """
    name = model if isinstance(model, ModelName) else ModelName.parse(model)
    registry = workspace.registry()
    found = _versions(registry, name, which)
    bundles = [Bundle.load(registry.bundle(version)) for version in found]
    population = _shared_population(name, bundles)
    learnt_until = max(bundle.facts.learnt_until for bundle in bundles)
    with opened_history(workspace, cluster=name.cluster) as history:
        begin = learnt_until if since is None else unix_seconds(since, history.timezone)
        end = _END if until is None else unix_seconds(until, history.timezone)
        if begin < learnt_until:
            raise UsageError(
                f"--starttime: jobs submitted before {_shown(learnt_until)} were learnt from: no proof"
            )
        table = history.table(name.phase, population_of(population), watch)
    rows = _rows(name, table, begin, end)
    before = np.flatnonzero(table.labelled & (table.submit < begin))
    if not len(before):  # the store may hold only what came after
        before = rows
    risks = [_risk(bundle, table, rows) for bundle in bundles]
    judged = tuple(
        EvaluatedModel(version=version, evaluation=_evaluated(bundle, risk, table, rows, before, seed))
        for version, bundle, risk in zip(found, bundles, risks, strict=True)
    )
    lead = None
    if len(bundles) == 2:
        old, new = (
            risk.probability >= bundle.chosen.value for bundle, risk in zip(bundles, risks, strict=True)
        )
        lead = difference(groups(table.about[rows]), table.fails[rows], new, old, seed=seed)
    return EvaluationResult(name=name, since=begin, jobs=len(rows), versions=judged, lead=lead)


def _versions(registry: Registry, name: ModelName, which: Sequence[int | str]) -> list[Version]:
    """Find those asked for, each once; else the champion, and the challenger where there is one."""
    if which:
        found = [registry.version(name, one) for one in which]
        return list({version.version: version for version in found}.values())
    there = registry.versions(name)
    found = [v for alias in ("champion", "challenger") for v in there if alias in v.aliases]
    return found or [registry.version(name)]  # which says what there is instead


def _shared_population(name: ModelName, bundles: Sequence[Bundle]) -> str:
    populations = {bundle.facts.population for bundle in bundles}
    if len(populations) > 1:
        raise UsageError(
            f"{name}: these versions count failure differently ({', '.join(sorted(populations))}), so no "
            "jobs judge them both. Evaluate one at a time"
        )
    return populations.pop()


def _rows(name: ModelName, table: JobTable, begin: int, end: int) -> NDArray[np.int64]:
    rows = np.flatnonzero(table.labelled & (table.submit >= begin) & (table.submit < end))
    if len(rows) < FEWEST:
        raise NotEnoughError(
            f"{name}: {len(rows)} jobs with a known outcome were submitted since {_shown(begin)}, after what "
            f"was learnt from: {FEWEST} are the least to judge by. Ingest newer history"
        )
    return rows


def _risk(bundle: Bundle, table: JobTable, rows: NDArray[np.int64]) -> Risk:
    return bundle.risk(bundle.assembly.matrix(table, rows), bundle.excess(table, rows))


def _evaluated(
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


def _shown(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
