"""Compare ways to deal with class imbalance, few failures among many jobs, on one log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forewarn.job.phase import Phase
from forewarn.learn.data.split import split
from forewarn.learn.evaluation.compare import compare as compare_on
from forewarn.learn.extra import check_train_extra
from forewarn.learn.families import family as family_of
from forewarn.operate.history import open_history, population_of
from forewarn.operate.workspace import Workspace
from forewarn.progress import Note, ShowProgress, log_note, no_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult:
    """What each way learnt from, and its figures on the same later jobs."""

    log: str  # its cluster
    phase: str
    feature_set: str
    population: str
    failures: str  # what its policy counts as failure, in words
    family: str
    seed: int
    jobs: int  # in the test block, on which all ways are evaluated
    failed: int  # of these
    ways: tuple[Mapping[str, Any], ...]  # every figure, one entry a way


def compare(
    workspace: Workspace,
    source: str | None = None,
    *,
    cluster: str | None = None,
    phase: str = Phase.SUBMIT,
    feature_set: str = "generic",
    population: str | None = None,
    family: str = "xgboost",
    status: str | None = None,
    seed: int = 0,
    watch: ShowProgress = no_progress,
    note: Note = log_note,
) -> ComparisonResult:
    """Fit the same model with each way of treating the imbalance, and evaluate all on the test block.

    `source`, `cluster` and `status` select the log as in `operate.history.open_history`.
    """
    check_train_extra()
    chosen = population_of(population or workspace.config.policy)
    with open_history(workspace, source, cluster, status=status, watch=watch, note=note) as history:
        table = history.table(phase, chosen, watch)
    parts = split(table)
    with watch("comparing") as progress:
        figures = compare_on(
            table,
            parts,
            family_of(family),
            feature_set=feature_set,
            seed=seed,
            threads=len(os.sched_getaffinity(0)),
            progress=progress,
        )
    return ComparisonResult(
        log=history.cluster,
        phase=phase,
        feature_set=feature_set,
        population=chosen.name,
        failures=chosen.in_words,
        family=family,
        seed=seed,
        jobs=len(parts.test),
        failed=int(table.fails[parts.test].sum()),
        ways=tuple(figures),
    )
