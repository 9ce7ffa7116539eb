"""Find the typical profiles of a cluster's jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from forewarn.errors import NotEnoughError
from forewarn.learn.extra import check_train_extra
from forewarn.learn.heads.profiles import Profiles
from forewarn.operate.history import open_history, population_of
from forewarn.operate.workspace import Workspace
from forewarn.progress import Note, ShowProgress, log_note, no_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilesResult:
    """The profiles of a cluster's jobs."""

    cluster: str
    population: str
    failures: str  # what its policy counts as failure, in words
    seed: int
    description: Mapping[str, Any]  # jobs, number, profiles, bounds, left_out, fitted_on


def find_profiles(
    workspace: Workspace,
    source: str | None = None,
    *,
    cluster: str | None = None,
    population: str | None = None,
    number: int | None = None,
    status: str | None = None,
    seed: int = 0,
    watch: ShowProgress = no_progress,
    note: Note = log_note,
) -> ProfilesResult:
    """Find the profiles of a log's jobs and describe them; `number` None: at the bend of the error curve.

    `source`, `cluster` and `status` select the log as in `operate.history.open_history`.
    """
    check_train_extra()
    chosen = population_of(population or workspace.config.policy)
    with open_history(workspace, source, cluster, status=status, watch=watch, note=note) as history:
        table = history.table("submit", chosen, lambda _: watch("jobs"))
    rows = np.flatnonzero(table.labelled)
    if not len(rows):
        raise NotEnoughError(
            f"{history.cluster}: none of its {len(table.submit):,} jobs has ended and is in the population "
            f"`{chosen.name}`; ingest more history, or choose another --population"
        )
    with watch("profiles"):
        profiles = Profiles.fit(table, rows, seed, number)
    return ProfilesResult(
        cluster=history.cluster,
        population=chosen.name,
        failures=chosen.in_words,
        seed=seed,
        description=profiles.describe(table, rows),
    )
