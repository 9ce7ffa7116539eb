"""The choice of the next trial: one search space for random search and TPE, a pure function of past trials.

    family ── one of several
    ├── its own parameters
    └── features_by: all | correlation | importance
                           └── features_kept: number of columns, the best by this measure

Each family begins with its defaults on all columns. Optuna draws the rest, with a random generator for each
trial number: the same past gives the same choice, also in a search that was interrupted and resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from forewarn.learn.data.selection import MEASURES, Rankings
from forewarn.learn.families.base import Categories, FloatRange, IntRange, ModelFamily, Range
from forewarn.learn.search.trials import COMPLETED, FAILED, MILESTONES, Choice, Trial

FAIR_SHARE = 3  # trials that each family gets before the sampler may prefer one
FEWEST_KEPT = 16  # columns
ALL = "all"
ENOUGH = 3  # trials of a family that must have reached a milestone before others are stopped there


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Suggestions of trials, by the results of earlier ones."""

    families: Mapping[str, ModelFamily]
    rankings: Rankings
    method: str
    metric: str
    seed: int

    def choice(self, number: int, past: Sequence[Trial]) -> Choice:
        """Choose what the trial with this number fits."""
        names = tuple(self.families)
        everything = self.rankings.names
        if number < len(names):
            defaults = dict(self.families[names[number]].defaults)
            return Choice(
                number=number, family=names[number], params=defaults, features=everything, features_by=ALL
            )
        study = self._study(number, past)
        if number < FAIR_SHARE * len(names):
            study.enqueue_trial({"family": names[number % len(names)]})
        trial = study.ask()
        name = trial.suggest_categorical("family", names)
        family = self.families[name]
        params = {key: _draw(trial, f"{name}.{key}", allowed) for key, allowed in family.space.items()}
        by = _draw(trial, "features_by", _BY)
        count = len(everything) if by == ALL else _draw(trial, "features_kept", self._feature_counts)
        return Choice(
            number=number,
            family=name,
            params={**family.defaults, **params},
            features=everything if by == ALL else self.rankings.best(by, count),
            features_by=by,
        )

    @property
    def _feature_counts(self) -> IntRange:
        count = len(self.rankings.names)
        return IntRange(min(FEWEST_KEPT, max(count // 2, 1)), count, log=True)

    def _study(self, number: int, past: Iterable[Trial]) -> optuna.Study:
        seed = int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0])
        sampler: optuna.samplers.BaseSampler
        if self.method == "random":
            sampler = optuna.samplers.RandomSampler(seed=seed)
        else:
            sampler = optuna.samplers.TPESampler(seed=seed)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(sampler=sampler)
        study.add_trials([self._as_optuna(trial) for trial in past if trial.status != FAILED])
        return study

    def _as_optuna(self, trial: Trial) -> optuna.trial.FrozenTrial:
        """Convert a finished trial. TPE ranks a stopped one below all others, the earlier the lower."""
        ranges: dict[str, Range] = {"family": Categories(tuple(self.families)), "features_by": _BY}
        values: dict[str, Any] = {"family": trial.family, "features_by": trial.features_by}
        if trial.features_by != ALL:
            ranges["features_kept"] = self._feature_counts
            values["features_kept"] = len(trial.features)
        for key, allowed in self.families[trial.family].space.items():
            # Defaults may lie outside of the space.
            if key in trial.params and _inside(trial.params[key], allowed):
                ranges[f"{trial.family}.{key}"] = allowed
                values[f"{trial.family}.{key}"] = trial.params[key]
        completed = trial.status == COMPLETED
        state = optuna.trial.TrialState
        return optuna.trial.create_trial(
            state=state.COMPLETE if completed else state.PRUNED,
            value=trial.cost(self.metric) if completed else None,
            params=values,
            distributions={key: _distribution(allowed) for key, allowed in ranges.items()},
            intermediate_values={} if completed else dict(trial.curve),
        )


_BY = Categories((ALL, *MEASURES))


def stop_losses(family: str, past: Iterable[Trial]) -> dict[int, float]:
    """Return the loss above which to stop a fit at each milestone: the median of its family's earlier trials.

    This is the rule of Vizier (Golovin et al. 2017), applied when a trial begins: the trial needs no exchange
    with others while it runs, and stops at the same point whatever runs at the same time.
    """
    curves = [trial.curve for trial in past if trial.family == family]
    losses_at = {
        milestone: [curve[milestone] for curve in curves if milestone in curve] for milestone in MILESTONES
    }
    return {
        milestone: float(np.median(losses))
        for milestone, losses in losses_at.items()
        if len(losses) >= ENOUGH
    }


def _draw(trial: optuna.Trial, name: str, allowed: Range) -> Any:
    match allowed:
        case FloatRange():
            return trial.suggest_float(name, allowed.low, allowed.high, log=allowed.log)
        case IntRange():
            return trial.suggest_int(name, allowed.low, allowed.high, log=allowed.log)
        case Categories():
            return trial.suggest_categorical(name, allowed.values)


def _distribution(allowed: Range) -> BaseDistribution:
    match allowed:
        case FloatRange():
            return FloatDistribution(allowed.low, allowed.high, log=allowed.log)
        case IntRange():
            return IntDistribution(allowed.low, allowed.high, log=allowed.log)
        case Categories():
            return CategoricalDistribution(allowed.values)


def _inside(value: Any, allowed: Range) -> bool:
    if isinstance(allowed, Categories):
        return value in allowed.values
    return value is not None and allowed.low <= value <= allowed.high
