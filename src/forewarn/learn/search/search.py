"""The search for good models: family, parameters and columns.

Trials are fitted on the train block and judged on the block after it in time, never on a random fold. They
run under Ray Tune, on this machine or on a Ray cluster, one thread each and as many at once as there are
cores. Finished trials are stored in a folder, from which an interrupted search resumes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import LearningError, MissingExtraError, NotEnoughError, UsageError
from forewarn.learn.data.matrix import Sample
from forewarn.learn.data.selection import Rankings
from forewarn.learn.evaluation.bootstrap import paired_lead
from forewarn.learn.families import FAMILIES, family
from forewarn.learn.families.base import ModelFamily
from forewarn.learn.search.trials import COMPLETED, FAILED, Journal, Trial

METHODS = ("tpe", "random")
METRICS = ("log_loss", "pr_auc")
CLEARLY = 2.0  # standard errors by which a trial must be better than its family's default


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """The settings of a search. Finished trials are stored in `folder`; the caller removes it."""

    folder: Path
    families: tuple[str, ...] = FAMILIES
    trials: int = 20
    method: str = "tpe"
    metric: str = "log_loss"
    seed: int = 0
    deterministic: bool = False
    threads: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))  # cores of this machine
    ray_address: str | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UsageError(f"no search method {self.method!r}; choose from {', '.join(METHODS)}")
        if self.metric not in METRICS:
            raise UsageError(f"no metric {self.metric!r} to search by; choose from {', '.join(METRICS)}")
        if self.trials < 1:
            raise UsageError(f"a search needs at least one trial, not {self.trials}")
        if self.threads < 1:
            raise UsageError(f"a search needs at least one thread, not {self.threads}")
        if not self.families:
            raise UsageError(f"a search needs a family; choose from {', '.join(FAMILIES)}")


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """The progress of a search."""

    done: int  # trials, including those of an earlier run
    total: int
    running: int
    best: float | None  # the best value of the metric so far
    elapsed: float  # seconds of this run


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The trials of a search, in order of their numbers."""

    trials: tuple[Trial, ...]
    metric: str
    method: str
    wall_seconds: float  # of this run, without the start of Ray
    start_seconds: float  # of the start of Ray
    resumed: int  # trials taken over from an earlier run
    group_weights: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  # of each user-week

    def best(self, family: str | None = None) -> Trial | None:
        """Return the best completed trial of a family, or of all; the first on a tie, None without any."""
        found = [t for t in self.trials if t.status == COMPLETED and family in (None, t.family)]
        return min(found, key=lambda trial: trial.cost(self.metric), default=None)

    def default(self, family: str) -> Trial | None:
        """Return the completed trial of a family's defaults on all columns, which is the family's first."""
        own = next((trial for trial in self.trials if trial.family == family), None)
        return own if own and own.status == COMPLETED else None

    def lead(self, family: str) -> tuple[float, float] | None:
        """Compute how much better a family's best trial is than its default, with the standard error.

        The groups are user-weeks: in one log a trial was better by 23 standard errors over jobs, by 1.8 over
        user-weeks, and far worse on later jobs. None if there is nothing to compare.
        """
        default, best = self.default(family), self.best(family)
        if default is None or best is None or best is default or not len(self.group_weights):
            return None
        default_losses, best_losses = (np.array(trial.group_losses) for trial in (default, best))
        return paired_lead(default_losses, best_losses, self.group_weights)

    def chosen(self, family: str) -> Trial | None:
        """Choose a family's trial: the best if it is clearly better than the default, else the default."""
        lead = self.lead(family)
        if lead is None:
            return self.default(family) or self.best(family)
        return self.best(family) if lead[0] > CLEARLY * lead[1] else self.default(family)

    def to_json(self) -> dict[str, Any]:
        """Return the form that the report stores."""
        best = self.best()
        families = dict.fromkeys(trial.family for trial in self.trials)
        leads = {family: self.lead(family) for family in families}
        return {
            "metric": self.metric,
            "method": self.method,
            "best": None if best is None else best.number,
            "wall_seconds": self.wall_seconds,
            "start_seconds": self.start_seconds,
            "resumed": self.resumed,
            "chosen": {
                family: {
                    "trial": None if (trial := self.chosen(family)) is None else trial.number,
                    "lead_of_best": lead and lead[0],
                    "standard_error": lead and lead[1],
                }
                for family, lead in leads.items()
            },
            "trials": [
                {name: value for name, value in trial.to_json().items() if name != "group_losses"}
                for trial in self.trials
            ],
        }


def search(
    train: Sample,
    validation: Sample,
    rankings: Rankings,
    settings: SearchSettings,
    progress: Callable[[SearchProgress], None] = lambda _: None,
    groups: NDArray[np.int64] | None = None,
) -> SearchResult:
    """Run `settings.trials` trials. After KeyboardInterrupt or a crash, the same call resumes the search.

    `groups` holds the user-week of each validation row as a number; `SearchResult.chosen` needs it.
    """
    for name, sample in (("train", train), ("validation", validation)):
        if len(np.unique(sample.fails)) < 2:
            raise NotEnoughError(
                f"the {name} rows of a search have one outcome only: a search needs both outcomes"
            )
    families = {name: family(name) for name in settings.families}
    for one in families.values():
        one.check_library()
    identity = {
        "families": list(settings.families),
        "method": settings.method,
        "metric": settings.metric,
        "seed": settings.seed,
        "deterministic": settings.deterministic,
        "data": _fingerprint(train, validation, groups, rankings, families),
    }
    with Journal.open(settings.folder / "trials.jsonl", identity) as journal:
        resumed = sum(number < settings.trials for number in journal.trials)
        start_seconds = wall_seconds = 0.0
        if resumed < settings.trials:
            try:
                from forewarn.learn.search.ray_search import run
            except ModuleNotFoundError as error:
                raise MissingExtraError(
                    f"a search needs {error.name}, which is not installed: pip install 'forewarn[train]'"
                ) from None
            start_seconds, wall_seconds = run(
                families, train, validation, groups, rankings, settings, journal, progress
            )
        trials = tuple(journal.trials[number] for number in range(settings.trials))
    if all(trial.status == FAILED for trial in trials):
        raise LearningError(
            f"all {len(trials)} trials of the search failed; the first: {trials[0].family}: {trials[0].error}"
        )
    weights = np.empty(0)
    if groups is not None:
        weights = np.bincount(groups, validation.weights).astype(np.float64)
    return SearchResult(
        trials, settings.metric, settings.method, wall_seconds, start_seconds, resumed, weights
    )


def _fingerprint(
    train: Sample,
    validation: Sample,
    groups: NDArray[np.int64] | None,
    rankings: Rankings,
    families: Mapping[str, ModelFamily],
) -> str:
    """Hash rows, columns, rankings and spaces: trials of a search with other ones are not resumed."""
    digest = hashlib.blake2b(digest_size=16)
    spaces = {name: (dict(one.space), dict(one.defaults)) for name, one in families.items()}
    digest.update(repr((train.matrix.names, sorted(train.matrix.categorical), rankings, spaces)).encode())
    for sample in (train, validation):
        for part in (sample.matrix.values, sample.fails, sample.weights):
            digest.update(np.ascontiguousarray(part).view(np.uint8).data)
    if groups is not None:
        digest.update(np.ascontiguousarray(groups).view(np.uint8).data)
    return digest.hexdigest()
