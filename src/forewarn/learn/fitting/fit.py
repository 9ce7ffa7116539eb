"""Fit a model without using the test block: search, weigh, calibrate, choose thresholds, fit again.

    train ───────────┐
    search           ├─ search: recipes and their weights, chosen by their log loss on `search`
    calibrate        ├─ second fit, on train + search; calibration, pooling with forecasts, thresholds and
                     │  abstention are chosen on `calibrate`
    test             └─ last fit of the same recipes, on all three; only this one is evaluated on `test`

The calibration is that of the second fit, whose margins on `calibrate` are of jobs that it never saw. The
same holds for the causes and forecasts that its risk is pooled with there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import UsageError
from forewarn.job.phase import POSTHOC
from forewarn.learn.data.active import active_learning
from forewarn.learn.data.assembly import Assembly
from forewarn.learn.data.imbalance import balance
from forewarn.learn.data.matrix import Sample
from forewarn.learn.data.selection import Rankings, rankings
from forewarn.learn.data.split import check_settled, settled_rows, split
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation import bootstrap
from forewarn.learn.families import family
from forewarn.learn.fitting.ensemble import Recipe, member_weights
from forewarn.learn.fitting.fallback import Recipes, clearly_better_rule, rule_recipes, rule_thresholds
from forewarn.learn.fitting.fit_result import FitResult
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.learn.fitting.held_out import ONLINE, balance_by_settings, balancing, decide_on_held_out, refit
from forewarn.learn.fitting.pooling import RiskInputs
from forewarn.learn.heads.causes import Causes
from forewarn.learn.heads.profiles import Profiles
from forewarn.learn.heads.usage import Usage
from forewarn.learn.search.search import SearchProgress, SearchResult, SearchSettings, search
from forewarn.progress import ShowProgress, no_progress


def fit(
    table: JobTable, settings: FitSettings, *, folder: Path, watch: ShowProgress = no_progress
) -> FitResult:
    """Fit a model on all blocks but the last. The search stores its trials in `folder`."""
    if settings.families == ("online",) and settings.imbalance != "none":
        raise UsageError(
            f"--imbalance {settings.imbalance}: the family `online` learns while features are computed, so "
            "there is no train block to balance. Omit --imbalance, or choose another family"
        )
    as_started, table = table, table.for_training()
    parts = split(table, settings.shares)
    train = _checked_rows(table, "train", parts.train, parts.cuts[0])
    validation_rows = _checked_rows(table, "search", parts.search, parts.cuts[1])
    second_rows = _checked_rows(table, "train", np.concatenate([parts.train, parts.search]), parts.cuts[1])
    held_out = _checked_rows(table, "calibrate", parts.calibrate, parts.cuts[2])
    with watch("profiles"):
        profiles = Profiles.fit(table, train, seed=settings.seed)
    assembly = Assembly.fit(
        table, train, settings.feature_set, profiles if settings.profile_features else None
    )
    if settings.families == ("online",) and "online" not in assembly.features:
        raise UsageError(
            f"the family `online` needs features of history, and the feature set `{settings.feature_set}` "
            "has none. Choose another family or feature set"
        )
    sample, validation = assembly.sample(table, train), assembly.sample(table, validation_rows)
    with watch("ranking features"):
        ranked = rankings(sample, seed=settings.seed, threads=settings.threads)
    left_out, active = _choose_actively(train, sample, validation, settings, watch)
    chosen = sample.rows(~np.isin(train, left_out))
    # Where both classes have the same weight in training, they also have it in what stops and chooses trials:
    # log loss at the true rate would penalise such a model for following its settings.
    weighted = validation if balancing(settings) == "none" else balance(validation, "weights", seed=0)
    groups = bootstrap.groups(table.about[validation_rows])
    found = _search(balance_by_settings(chosen, settings), weighted, groups, ranked, settings, folder, watch)
    recipes = _weigh(found, "online" in assembly.features, settings)

    before_test = np.concatenate([parts.train, parts.search, parts.calibrate])
    learnt_rows = np.setdiff1d(settled_rows(table, before_test, parts.cuts[2]), left_out)
    with watch("causes"):
        early_causes = _fit_causes(table, assembly, second_rows, settings)
        causes = _fit_causes(table, assembly, learnt_rows, settings)
    with watch("run time and resources"):
        early_usage, usage = _fit_usage(as_started, parts.cuts, assembly.features, settings)
    early_inputs, risk_inputs = RiskInputs(early_causes, early_usage), RiskInputs(causes, usage)
    with watch("calibrating"):
        decisions = decide_on_held_out(
            table, assembly, recipes, second_rows, held_out, settings, early_inputs, left_out=left_out
        )
        alarms = decisions.p >= decisions.thresholds["f1"].value
        rule = clearly_better_rule(
            table, held_out, alarms, learnt_rows, assembly.features, seed=settings.seed
        )
        if rule is not None:
            recipes = rule_recipes(rule)
            decisions = decide_on_held_out(
                table, assembly, recipes, second_rows, held_out, settings, early_inputs, left_out=left_out
            )
    with watch("fitting on all blocks before the test"):
        ensemble = refit(table, assembly, recipes, learnt_rows, settings)
    thresholds = decisions.thresholds
    if rule is not None:
        thresholds = rule_thresholds(thresholds, ensemble, decisions.calibration)
    return FitResult(
        parts, learnt_rows, profiles, assembly, ranked, found, recipes, ensemble, decisions.calibration,
        risk_inputs, decisions.pooling, thresholds, decisions.abstention, held_out, decisions.log_odds,
        left_out, active,
    )  # fmt: skip


def replace_by_rule(table: JobTable, fitted: FitResult, rule: str, settings: FitSettings) -> FitResult:
    """Replace a model by a simple rule that is fitted and calibrated on the same blocks."""
    parts = fitted.parts
    second_rows = settled_rows(table, np.concatenate([parts.train, parts.search]), parts.cuts[1])
    recipes, left_out = rule_recipes(rule), fitted.left_out
    decisions = decide_on_held_out(
        table,
        fitted.assembly,
        recipes,
        second_rows,
        fitted.held_out,
        settings,
        fitted.risk_inputs,
        left_out=left_out,
    )
    ensemble = refit(table, fitted.assembly, recipes, fitted.learnt_rows, settings)
    return replace(
        fitted,
        recipes=recipes,
        ensemble=ensemble,
        calibration=decisions.calibration,
        pooling=decisions.pooling,
        thresholds=rule_thresholds(decisions.thresholds, ensemble, decisions.calibration),
        abstention=decisions.abstention,
        held_out_log_odds=decisions.log_odds,
    )


def _fit_causes(
    table: JobTable, assembly: Assembly, rows: NDArray[np.int64], settings: FitSettings
) -> Causes:
    """Fit the causes of failure on the same jobs as the model of failure."""
    return Causes.fit(
        assembly.matrix(table, rows),
        table.about[rows],
        table.fails[rows],
        table.weights[rows],
        seed=settings.seed,
        threads=settings.threads,
    )


def _fit_usage(
    table: JobTable, cuts: tuple[int, int, int], features: tuple[str, ...], settings: FitSettings
) -> tuple[Usage | None, Usage | None]:
    """Fit forecasts of run time and resources, without the block `calibrate` and with it."""
    if table.phase == POSTHOC:  # usage is known after the end: there is nothing to forecast
        return None, None
    pair = Usage.fit_twice(table, cuts, features, seed=settings.seed, threads=settings.threads)
    return pair or (None, None)


def _checked_rows(table: JobTable, name: str, rows: NDArray[np.int64], cut: int) -> NDArray[np.int64]:
    """Return the rows of a block that may be learnt from at the cut; raise if they are too few."""
    known = settled_rows(table, rows, cut)
    check_settled(table, name, rows, known)
    return known


def _choose_actively(
    train: NDArray[np.int64], sample: Sample, validation: Sample, settings: FitSettings, watch: ShowProgress
) -> tuple[NDArray[np.int64], Mapping[str, Any] | None]:
    """Find the rows of `train` that active learning does not use, to leave them out of every later fit.

    All newer rows take part.
    """
    if settings.imbalance != "active":
        return np.empty(0, np.int64), None
    learner = family("xgboost" if "xgboost" in settings.families else settings.families[0])
    with watch("active learning"):
        result = active_learning(
            learner, learner.defaults, sample, validation, seed=settings.seed, threads=settings.threads
        )
    return np.delete(train, result.rows), result.to_json()


def _search(
    train: Sample,
    validation: Sample,
    groups: bootstrap.Groups,
    ranked: Rankings,
    settings: FitSettings,
    folder: Path,
    watch: ShowProgress,
) -> SearchResult | None:
    """Search the best recipe of each family; the online regression has nothing to search."""
    families = tuple(name for name in settings.families if name != "online")
    if not families:
        return None
    search_settings = SearchSettings(
        families=families,
        trials=max(settings.trials, len(families)),  # at least one for each family
        method=settings.method,
        seed=settings.seed,
        deterministic=settings.deterministic,
        ray_address=settings.ray_address,
        folder=folder,
        threads=settings.threads,
    )
    with watch("searching") as show:

        def show_progress(progress: SearchProgress) -> None:
            best = "" if progress.best is None else f"best log loss {progress.best:.4f}"
            show(progress.done, progress.total, best)

        return search(train, validation, ranked, search_settings, show_progress, groups)


def _weigh(found: SearchResult | None, online: bool, settings: FitSettings) -> Recipes:
    """Return the best recipe of each family, with its weight."""
    best = [found.chosen(name) for name in settings.families] if found else []
    recipes = [Recipe(trial.family, trial.params, trial.features, trial.rounds) for trial in best if trial]
    online = online and "online" in settings.families
    weights = member_weights(len(recipes), online=online)
    return tuple(zip(weights, [*recipes, *([ONLINE] if online else [])], strict=True))
