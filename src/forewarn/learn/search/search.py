"""The search for good models: which family, which parameters, which columns.

Trials are fitted on the train block and judged on the block after it in time, never on a random fold. They
run under Ray Tune, on this machine or on a Ray cluster, one thread each and as many at once as there are
cores. What has finished is kept in a folder, and a search that was interrupted goes on from there.
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
CLEARLY = 2.0  # standard errors by which a found recipe must be better than its family's default


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How to search. `folder` is where finished trials are kept; its owner removes it."""

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
            raise UsageError(f"no way of searching {self.method!r}; there are {', '.join(METHODS)}")
        if self.metric not in METRICS:
            raise UsageError(f"no metric {self.metric!r} to search by; there are {', '.join(METRICS)}")
        if self.trials < 1:
            raise UsageError(f"a search needs at least one trial, not {self.trials}")
        if self.threads < 1:
            raise UsageError(f"a search needs at least one thread, not {self.threads}")
        if not self.families:
            raise UsageError(f"a search needs a family; there are {', '.join(FAMILIES)}")


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """How far a search has come."""

    done: int  # trials, those of an earlier run too
    total: int
    running: int
    best: float | None  # the best value of the metric so far
    elapsed: float  # seconds of this run


@dataclass(frozen=True, slots=True)
class SearchResult:
    """All trials in order of their numbers."""

    trials: tuple[Trial, ...]
    metric: str
    method: str
    wall_seconds: float  # of this run, Ray's start apart
    start_seconds: float  # of Ray
    resumed: int  # trials taken over from a run before
    group_weights: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  # of each user-week

    def best(self, family: str | None = None) -> Trial | None:
        """The best completed trial of a family, or of all; of equals the first. None: there is none."""
        found = [t for t in self.trials if t.status == COMPLETED and family in (None, t.family)]
        return min(found, key=lambda trial: trial.cost(self.metric), default=None)

    def default(self, family: str) -> Trial | None:
        """The trial of a family's own defaults on all columns, the first that each family gets."""
        own = next((trial for trial in self.trials if trial.family == family), None)
        return own if own and own.status == COMPLETED else None

    def lead(self, family: str) -> tuple[float, float] | None:
        """By how much a family's best trial is better than its default, and the standard error of that.

        By user-weeks: in one log a trial was better by 23 standard errors when jobs were counted, by 1.8 when
        user-weeks were, and far worse on later jobs. None where there is nothing to compare.
        """
        default, best = self.default(family), self.best(family)
        if default is None or best is None or best is default or not len(self.group_weights):
            return None
        usual, found = (np.array(trial.group_losses) for trial in (default, best))
        return paired_lead(usual, found, self.group_weights)

    def chosen(self, family: str) -> Trial | None:
        """What a family is to be: its best trial if that is clearly better than its default, else that."""
        lead = self.lead(family)
        if lead is None:
            return self.default(family) or self.best(family)
        return self.best(family) if lead[0] > CLEARLY * lead[1] else self.default(family)

    def to_json(self) -> dict[str, Any]:
        """For the report."""
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
    """Try `settings.trials` models. After KeyboardInterrupt or a crash, the same call goes on from there.

    `groups`, the user-week of each validation row as a number, is what `SearchResult.chosen` needs.
    """
    for name, sample in (("train", train), ("validation", validation)):
        if len(np.unique(sample.fails)) < 2:
            raise NotEnoughError(
                f"the {name} part of a search has jobs of one class only: nothing to tell apart"
            )
    families = {name: family(name) for name in settings.families}
    for found in families.values():
        found.check_library()
    identity = {
        "families": list(settings.families),
        "method": settings.method,
        "metric": settings.metric,
        "seed": settings.seed,
        "deterministic": settings.deterministic,
        "data": _fingerprint(train, validation, groups, rankings, families),
    }
    with Journal.of(settings.folder / "trials.jsonl", identity) as journal:
        kept = sum(number < settings.trials for number in journal.trials)
        start_seconds = wall_seconds = 0.0
        if kept < settings.trials:
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
    return SearchResult(trials, settings.metric, settings.method, wall_seconds, start_seconds, kept, weights)


def _fingerprint(
    train: Sample,
    validation: Sample,
    groups: NDArray[np.int64] | None,
    rankings: Rankings,
    families: Mapping[str, ModelFamily],
) -> str:
    """The same for the same rows, columns, rankings and spaces: the trials of others are not ours."""
    made = hashlib.blake2b(digest_size=16)
    spaces = {name: (dict(one.space), dict(one.defaults)) for name, one in families.items()}
    made.update(repr((train.matrix.names, sorted(train.matrix.categorical), rankings, spaces)).encode())
    for sample in (train, validation):
        for part in (sample.matrix.values, sample.fails, sample.weights):
            made.update(np.ascontiguousarray(part).view(np.uint8).data)
    if groups is not None:
        made.update(np.ascontiguousarray(groups).view(np.uint8).data)
    return made.hexdigest()
