"""A model made before the test part is seen: searched, weighed, calibrated, thresholded, fitted again.

    train ───────────┐
    search           ├─ search: recipes and their weights, judged on `search`
    calibrate        ├─ fitted on train + search; calibration, pooling with forecast needs, thresholds,
                     │  abstention from `calibrate`
    test             └─ fitted again, same recipes, on all three; only this one meets `test`

The calibration is that of the second fit, whose margins on `calibrate` are of jobs it never saw. So are the
causes and forecasts that its risk is pooled with there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import UsageError
from forewarn.job.phase import POSTHOC
from forewarn.learn.data.active import active_learning
from forewarn.learn.data.assembly import Assembly
from forewarn.learn.data.imbalance import balanced
from forewarn.learn.data.matrix import Sample
from forewarn.learn.data.selection import Rankings, rankings
from forewarn.learn.data.split import SHARES, Split, check_settled, settled, split
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation import bootstrap
from forewarn.learn.families import FAMILIES, family
from forewarn.learn.fitting.abstention import Abstention
from forewarn.learn.fitting.calibration import Calibration, calibrate, flat, straight
from forewarn.learn.fitting.ensemble import Ensemble, Recipe, fit_ensemble, shares
from forewarn.learn.fitting.fallback import Recipes, beaten_by, rule_of, rule_recipes, rule_thresholds
from forewarn.learn.fitting.pooling import Pooling, Risk, RiskInputs, beside_rule, choose_pooling, ended_alike
from forewarn.learn.fitting.thresholds import Threshold, choose
from forewarn.learn.heads.causes import Causes
from forewarn.learn.heads.profiles import Profiles
from forewarn.learn.heads.usage import Usage
from forewarn.learn.search.search import SearchProgress, SearchResult, SearchSettings, search
from forewarn.progress import Watch, unwatched

ALL_FAMILIES = (*FAMILIES, "online")
ONLINE = Recipe("online", {}, ("online",), 0)
SILENT = 0.95  # share of held-out jobs without enough evidence, from which on only the rate is said
RULES = ("f1", "expected-f1")  # always chosen, beside the one that was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSettings:
    """How a model is made. Recorded with it."""

    feature_set: str = "generic"
    families: tuple[str, ...] = ALL_FAMILIES
    trials: int = 20
    method: str = "tpe"
    imbalance: str = "none"
    threshold: str = "f1"
    profile_features: bool = False
    shares: tuple[float, float, float, float] = SHARES
    seed: int = 0
    deterministic: bool = False
    threads: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))  # cores that are ours
    ray_address: str | None = None


@dataclass(frozen=True, slots=True)
class FitResult:
    """The model, and all that was decided on the way."""

    parts: Split
    learnt: NDArray[np.int64]  # the rows of the last fit
    profiles: Profiles
    assembly: Assembly
    rankings: Rankings
    search: SearchResult | None
    recipes: Recipes
    ensemble: Ensemble
    calibration: Calibration  # of the ensemble's margins
    needs: RiskInputs  # causes and forecasts
    pooling: Pooling | None  # how much forecasts count; None: the ensemble alone states the risk
    thresholds: Mapping[str, Threshold]  # of the stated risk; the first is in force
    abstention: Abstention
    held_out: NDArray[np.int64]  # rows of `calibrate`, and the second fit's log odds of them, not calibrated
    held_out_log_odds: NDArray[np.float64]
    left_out: NDArray[np.int64]  # rows that active learning did without
    active: Mapping[str, Any] | None

    @property
    def rule(self) -> str | None:
        """The simple rule that stands in the model's place, if one does."""
        return rule_of(recipe for _, recipe in self.recipes)

    def abstains(self, table: JobTable, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Of which jobs it would say that there is not enough evidence."""
        return self.abstention.abstains(_columns(table, rows))

    @property
    def threshold(self) -> Threshold:
        """The one in force."""
        return next(iter(self.thresholds.values()))

    @property
    def last_calibration(self) -> Calibration:
        """The one that makes stated probabilities of `log_odds`."""
        return self.pooling.calibration if self.pooling else self.calibration

    def log_odds(
        self, table: JobTable, rows: NDArray[np.int64], ensemble: Ensemble | None = None
    ) -> NDArray[np.float64]:
        """Log odds of failure before the last calibration, by another ensemble where one is given."""
        matrix = self.assembly.matrix(table, rows)
        margins = (ensemble or self.ensemble).margins(matrix)
        if self.pooling is None:
            return margins
        causes = self.needs.causes
        given, excess = causes.given_failure(matrix), self.needs.excess(table, rows)
        own = self.pooling.with_record(self.calibration(margins), matrix)
        return self.pooling.log_odds(own, given, causes.causes, excess)

    def risk(self, table: JobTable, rows: NDArray[np.int64]) -> Risk:
        """What is stated of some jobs: the risk that is served, and judged."""
        matrix = self.assembly.matrix(table, rows)
        own = self.calibration(self.ensemble.margins(matrix))
        excess = self.needs.excess(table, rows) if self.pooling else {}
        return self.needs.risk(own, matrix, excess, self.pooling)

    def cause_shares(self, table: JobTable, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The share of each cause in the stated risk of some jobs (job × cause)."""
        stated = self.risk(table, rows)
        return np.asarray(stated.by_cause / stated.probability[:, None])

    def probabilities(self, table: JobTable, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Stated probability of failure of some jobs."""
        return self.risk(table, rows).probability


def fit(table: JobTable, settings: FitSettings, *, folder: Path, watch: Watch = unwatched) -> FitResult:
    """Make a model of all blocks but the last. The search keeps its trials in `folder`."""
    if settings.families == ("online",) and settings.imbalance != "none":
        raise UsageError(
            f"--imbalance {settings.imbalance}: the family `online` has learnt while the features were made; "
            "there is no train part to balance. Leave it out, or choose another family"
        )
    as_started, table = table, table.as_learnt()
    parts = split(table, settings.shares)
    train = _usable(table, "train", parts.train, parts.cuts[0])
    held = _usable(table, "search", parts.search, parts.cuts[1])
    second = _usable(table, "train", np.concatenate([parts.train, parts.search]), parts.cuts[1])
    apart = _usable(table, "calibrate", parts.calibrate, parts.cuts[2])
    with watch("profiles"):
        profiles = Profiles.fit(table, train, seed=settings.seed)
    assembly = Assembly.fit(
        table, train, settings.feature_set, profiles if settings.profile_features else None
    )
    if settings.families == ("online",) and "online" not in assembly.features:
        raise UsageError(
            f"the family `online` needs features of history, and `{settings.feature_set}` has none here"
        )
    sample, validation = assembly.sample(table, train), assembly.sample(table, held)
    with watch("ranking features"):
        ranked = rankings(sample, seed=settings.seed, threads=settings.threads)
    left_out, active = _actively(train, sample, validation, settings, watch)
    kept = sample.rows(~np.isin(train, left_out))
    # Where both classes count alike in training, so they do in what stops and chooses trials: log loss at the
    # true rate would punish such a model for what it was told to do.
    weighed = validation if _balancing(settings) == "none" else balanced(validation, "weights", seed=0)
    groups = bootstrap.groups(table.about[held])
    found = _searched(_balanced(kept, settings), weighed, groups, ranked, settings, folder, watch)
    recipes = _weighed(found, "online" in assembly.features, settings)

    before_test = np.concatenate([parts.train, parts.search, parts.calibrate])
    learnt = np.setdiff1d(settled(table, before_test, parts.cuts[2]), left_out)
    with watch("causes"):
        early_causes = _causes(table, assembly, second, settings)
        causes = _causes(table, assembly, learnt, settings)
    with watch("run time and resources"):
        early, usage = _usage(as_started, parts.cuts, assembly.features, settings)
    early_needs, needs = RiskInputs(early_causes, early), RiskInputs(causes, usage)
    with watch("calibrating"):
        judged = _judged(table, assembly, recipes, second, left_out, apart, settings, early_needs)
        alarms = judged.p >= judged.thresholds["f1"].value
        rule = beaten_by(table, apart, alarms, learnt, assembly.features, seed=settings.seed)
        if rule is not None:
            recipes = rule_recipes(rule)
            judged = _judged(table, assembly, recipes, second, left_out, apart, settings, early_needs)
    with watch("fitting on all that was known"):
        ensemble = refit(table, assembly, recipes, learnt, settings)
    thresholds = judged.thresholds
    if rule is not None:
        thresholds = rule_thresholds(thresholds, ensemble, judged.calibration)
    return FitResult(
        parts, learnt, profiles, assembly, ranked, found, recipes, ensemble, judged.calibration, needs,
        judged.pooling, thresholds, judged.abstention, apart, judged.log_odds, left_out, active,
    )  # fmt: skip


def as_rule(table: JobTable, fitted: FitResult, rule: str, settings: FitSettings) -> FitResult:
    """The same blocks with a simple rule in the model's place."""
    parts = fitted.parts
    second = settled(table, np.concatenate([parts.train, parts.search]), parts.cuts[1])
    recipes, left_out = rule_recipes(rule), fitted.left_out
    judged = _judged(
        table, fitted.assembly, recipes, second, left_out, fitted.held_out, settings, fitted.needs
    )
    ensemble = refit(table, fitted.assembly, recipes, fitted.learnt, settings)
    return replace(
        fitted,
        recipes=recipes,
        ensemble=ensemble,
        calibration=judged.calibration,
        pooling=judged.pooling,
        thresholds=rule_thresholds(judged.thresholds, ensemble, judged.calibration),
        abstention=judged.abstention,
        held_out_log_odds=judged.log_odds,
    )


def _causes(table: JobTable, assembly: Assembly, rows: NDArray[np.int64], settings: FitSettings) -> Causes:
    """The causes of failure, learnt from the same jobs as the model of failure."""
    return Causes.fit(
        assembly.matrix(table, rows),
        table.about[rows],
        table.fails[rows],
        table.weights[rows],
        seed=settings.seed,
        threads=settings.threads,
    )


def _usage(
    table: JobTable, cuts: tuple[int, int, int], features: tuple[str, ...], settings: FitSettings
) -> tuple[Usage | None, Usage | None]:
    """Forecasts of what jobs need, without the block `calibrate` and with it."""
    if table.phase == POSTHOC:  # where what a job used is known, nothing is forecast
        return None, None
    made = Usage.fit_twice(table, cuts, features, seed=settings.seed, threads=settings.threads)
    return made or (None, None)


@dataclass(frozen=True, slots=True)
class _Judged:
    """What the block `calibrate` decides of recipes that were fitted on the blocks before it."""

    log_odds: NDArray[np.float64]  # before the last calibration
    p: NDArray[np.float64]
    calibration: Calibration
    pooling: Pooling | None
    thresholds: Mapping[str, Threshold]
    abstention: Abstention


def _judged(
    table: JobTable,
    assembly: Assembly,
    recipes: Recipes,
    second: NDArray[np.int64],
    left_out: NDArray[np.int64],
    apart: NDArray[np.int64],
    settings: FitSettings,
    needs: RiskInputs,
) -> _Judged:
    """Decide by the jobs `apart`."""
    sample = _to_fit(table, assembly, recipes, np.setdiff1d(second, left_out), settings)
    ensemble = fit_ensemble(recipes, sample, seed=settings.seed, threads=settings.threads)
    # Balancing moves the log odds of all that is fitted; the online regression is not.
    moved = sum(weight for weight, recipe in recipes if recipe != ONLINE)
    truth = _log_odds(table.fails[second], table.weights[second])
    offset = moved * (truth - _log_odds(sample.fails, sample.weights))
    is_rule = rule_of(recipe for _, recipe in recipes) is not None
    matrix = assembly.matrix(table, apart)
    log_odds = ensemble.margins(matrix)
    fails, weights = table.fails[apart], table.weights[apart]
    groups = bootstrap.groups(table.about[apart])
    # In calibration equal jobs sent at once count less still, n of them as about 1 + ln n: their common fate
    # tells of one decision.
    calibration = (
        straight(log_odds, fails, weights**2)
        if is_rule
        else calibrate(log_odds, fails, weights**2, groups, offset)
    )
    p = calibration(log_odds)
    abstention = Abstention.fit(table, apart, p, history=assembly.knows_history)
    pooling = None
    if not is_rule and abstention.abstains(_columns(table, apart)).mean() >= SILENT:
        calibration = flat(log_odds, fails, weights)
        p = calibration(log_odds)
    else:
        excess = needs.excess(table, apart)
        given, causes = needs.causes.given_failure(matrix), needs.causes.causes
        if is_rule:
            pooling = beside_rule(excess, causes)
        else:
            usual = float(np.average(table.fails[second], weights=table.weights[second]))
            records = ended_alike(matrix)
            pooling = choose_pooling(p, given, causes, excess, fails, weights, groups, records, usual)
        if pooling is not None:
            log_odds = pooling.log_odds(pooling.with_record(p, matrix), given, causes, excess)
            p = pooling.calibration(log_odds)
    node_hours = table.about["node_hours"].to_numpy()[apart]
    asked = dict.fromkeys((settings.threshold, *RULES))
    thresholds = {rule: choose(rule, p, fails, node_hours, weights) for rule in asked}
    return _Judged(log_odds, p, calibration, pooling, thresholds, abstention)


def _columns(table: JobTable, rows: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
    return {name: table.column(name)[rows] for name in table.names}


def _log_odds(fails: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    rate = np.average(fails, weights=weights)
    return float(np.log(rate / (1 - rate)))


def refit(
    table: JobTable,
    assembly: Assembly,
    recipes: Recipes,
    rows: NDArray[np.int64],
    settings: FitSettings,
) -> Ensemble:
    """The same recipes on other rows."""
    sample = _to_fit(table, assembly, recipes, rows, settings)
    return fit_ensemble(recipes, sample, seed=settings.seed, threads=settings.threads)


def _to_fit(
    table: JobTable, assembly: Assembly, recipes: Recipes, rows: NDArray[np.int64], settings: FitSettings
) -> Sample:
    """Rows to fit recipes on; a rule, which only counts, counts them as they came."""
    sample = assembly.sample(table, rows)
    return _balanced(sample, settings) if rule_of(recipe for _, recipe in recipes) is None else sample


def _usable(table: JobTable, name: str, rows: NDArray[np.int64], cut: int) -> NDArray[np.int64]:
    known = settled(table, rows, cut)
    check_settled(table, name, rows, known)
    return known


def _actively(
    train: NDArray[np.int64], sample: Sample, validation: Sample, settings: FitSettings, watch: Watch
) -> tuple[NDArray[np.int64], Mapping[str, Any] | None]:
    """Rows of `train` that active learning did without, in every later fit too; newer rows all take part."""
    if settings.imbalance != "active":
        return np.empty(0, np.int64), None
    learner = family("xgboost" if "xgboost" in settings.families else settings.families[0])
    with watch("active learning"):
        result = active_learning(
            learner, learner.defaults, sample, validation, seed=settings.seed, threads=settings.threads
        )
    return np.delete(train, result.rows), result.to_json()


def _balancing(settings: FitSettings) -> str:
    return "none" if settings.imbalance == "active" else settings.imbalance


def _balanced(sample: Sample, settings: FitSettings) -> Sample:
    return balanced(sample, _balancing(settings), seed=settings.seed)


def _searched(
    train: Sample,
    validation: Sample,
    groups: bootstrap.Groups,
    ranked: Rankings,
    settings: FitSettings,
    folder: Path,
    watch: Watch,
) -> SearchResult | None:
    families = tuple(name for name in settings.families if name != "online")
    if not families:
        return None
    how = SearchSettings(
        families=families,
        trials=max(settings.trials, len(families)),  # each family gets its turn
        method=settings.method,
        seed=settings.seed,
        deterministic=settings.deterministic,
        ray_address=settings.ray_address,
        folder=folder,
        threads=settings.threads,
    )
    with watch("searching") as far:

        def told(progress: SearchProgress) -> None:
            best = "" if progress.best is None else f"best log loss {progress.best:.4f}"
            far(progress.done, progress.total, best)

        return search(train, validation, ranked, how, told, groups)


def _weighed(found: SearchResult | None, online: bool, settings: FitSettings) -> Recipes:
    """A recipe of each family, and how much it counts."""
    chosen = [found.chosen(name) for name in settings.families] if found else []
    recipes = [Recipe(t.family, t.params, t.features, t.rounds) for t in chosen if t]
    online = online and "online" in settings.families
    counts = shares(len(recipes), online=online)
    return tuple(zip(counts, [*recipes, *([ONLINE] if online else [])], strict=True))
