"""What a search tries next: one space for random search and TPE, a pure function of what has finished.

    family ── one of several
    ├── its own parameters, and no other's
    └── features_by: all | correlation | importance
                           └── features_kept: how many of the best

Each family begins with its defaults on all columns. Optuna draws the rest, with a generator of its own for
each number: the same past gives the same choice, whether or not the search was interrupted in between.
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
ENOUGH = 3  # trials of a family that came to a milestone, before others are stopped there


@dataclass(frozen=True, slots=True)
class Suggestions:
    """What to try, by what came of earlier trials."""

    families: Mapping[str, ModelFamily]
    rankings: Rankings
    method: str
    metric: str
    seed: int

    def choice(self, number: int, past: Sequence[Trial]) -> Choice:
        """The trial with this number."""
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
        asked = study.ask()
        name = asked.suggest_categorical("family", names)
        made = self.families[name]
        params = {key: _ask(asked, f"{name}.{key}", within) for key, within in made.space.items()}
        by = _ask(asked, "features_by", _BY)
        kept = len(everything) if by == ALL else _ask(asked, "features_kept", self._kept)
        return Choice(
            number=number,
            family=name,
            params={**made.defaults, **params},
            features=everything if by == ALL else self.rankings.kept(by, kept),
            features_by=by,
        )

    @property
    def _kept(self) -> IntRange:
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
        """A finished trial. One that was stopped is worse than any that was not, the earlier the worse."""
        within: dict[str, Range] = {"family": Categories(tuple(self.families)), "features_by": _BY}
        values: dict[str, Any] = {"family": trial.family, "features_by": trial.features_by}
        if trial.features_by != ALL:
            within["features_kept"] = self._kept
            values["features_kept"] = len(trial.features)
        for key, choices in self.families[trial.family].space.items():
            # Defaults need not lie within the space.
            if key in trial.params and _inside(trial.params[key], choices):
                within[f"{trial.family}.{key}"] = choices
                values[f"{trial.family}.{key}"] = trial.params[key]
        completed = trial.status == COMPLETED
        state = optuna.trial.TrialState
        return optuna.trial.create_trial(
            state=state.COMPLETE if completed else state.PRUNED,
            value=trial.cost(self.metric) if completed else None,
            params=values,
            distributions={key: _distribution(choices) for key, choices in within.items()},
            intermediate_values={} if completed else dict(trial.curve),
        )


_BY = Categories((ALL, *MEASURES))


def bars(family: str, past: Iterable[Trial]) -> dict[int, float]:
    """The loss above which a fit is stopped at each milestone: the median of its family's earlier trials.

    The rule of Vizier (Golovin et al. 2017), known when a trial begins: so it needs no word with others
    while it runs, and is stopped at the same point whatever runs beside it.
    """
    curves = [trial.curve for trial in past if trial.family == family]
    reached = {at: [curve[at] for curve in curves if at in curve] for at in MILESTONES}
    return {at: float(np.median(losses)) for at, losses in reached.items() if len(losses) >= ENOUGH}


def _ask(asked: optuna.Trial, name: str, within: Range) -> Any:
    match within:
        case FloatRange():
            return asked.suggest_float(name, within.low, within.high, log=within.log)
        case IntRange():
            return asked.suggest_int(name, within.low, within.high, log=within.log)
        case Categories():
            return asked.suggest_categorical(name, within.values)


def _distribution(within: Range) -> BaseDistribution:
    match within:
        case FloatRange():
            return FloatDistribution(within.low, within.high, log=within.log)
        case IntRange():
            return IntDistribution(within.low, within.high, log=within.log)
        case Categories():
            return CategoricalDistribution(within.values)


def _inside(value: Any, within: Range) -> bool:
    if isinstance(within, Categories):
        return value in within.values
    return value is not None and within.low <= value <= within.high
