"""Benchmark one log: how well failure can be predicted in each phase, compared with simple rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.errors import UsageError
from forewarn.job.phase import MEASURED, PHASES
from forewarn.learn.evaluation.benchmark import benchmark
from forewarn.operate.history import open_history, population_of
from forewarn.operate.train import search_settings
from forewarn.operate.workspace import Workspace
from forewarn.progress import Note, ShowProgress, log_note, no_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkResult:
    """The figures of one log."""

    log: str  # its cluster
    population: str
    feature_set: str
    retrain: str
    seed: int
    phases: Mapping[str, Mapping[str, Any]]  # every figure, by phase


def bench(
    workspace: Workspace,
    source: str | None = None,
    *,
    cluster: str | None = None,
    phases: Sequence[str] = PHASES,
    retrain: str = "none",
    feature_set: str | None = None,
    population: str | None = None,
    status: str | None = None,
    watch: ShowProgress = no_progress,
    note: Note = log_note,
    **settings: Any,
) -> BenchmarkResult:
    """Measure on one log how well failure can be predicted. No model is registered.

    Parameters
    ----------
    source, cluster, status
        The log, as `operate.history.open_history` reads it.
    phases
        Any of submit, start and posthoc. As in the papers, posthoc has run time and CPU time as features.
    retrain
        ``weekly``: a new model every week of the test part, from all outcomes known by then.
    feature_set
        None: swf for an SWF file, else generic.
    population
        None: the papers', by which everything but completed is a failure.
    settings
        Those of `learn.fitting.fit_settings.FitSettings`: families, trials, threshold, seed, …
    """
    feature_set = feature_set or ("swf" if source and source.startswith("swf:") else "generic")
    fit_settings = search_settings(feature_set=feature_set, **settings)
    if unknown := [phase for phase in phases if phase not in MEASURED]:
        raise UsageError(f"no phase {unknown[0]!r}; choose from {', '.join(MEASURED)}")
    chosen = population_of(population or "papers")
    searches = workspace.config.home / "models" / "searches"
    with open_history(workspace, source, cluster, status=status, watch=watch, note=note) as history:
        try:
            figures = benchmark(
                lambda phase: history.table(phase, chosen, watch),
                [phase for phase in MEASURED if phase in phases],
                fit_settings,
                retrain=retrain,
                searches=searches,
                watch=watch,
            )
        except KeyboardInterrupt:
            if searches.exists():
                note("run the same command again to continue this search")
            raise
    return BenchmarkResult(
        log=history.cluster,
        population=chosen.name,
        feature_set=feature_set,
        retrain=retrain,
        seed=fit_settings.seed,
        phases=figures,
    )
