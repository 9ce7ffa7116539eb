"""A bundle, the stored form of a model: a folder of native booster files and JSON, nothing pickled.

manifest.json        the origin of the model, and the hash of every other file
model.json           columns, encoders, members with their weights, calibration, thresholds, abstention
members/0-xgboost/   native files of each member
causes/              native files of the models of causes, if there are any
usage/               native files of the forecasts of run time and resources, if the history records any
profiles.json        the mixture of job profiles, if there is one
oddness.json         the isolation forest, if there is one
report.json, .html   the quality of the model on later jobs
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import BundleError
from forewarn.files import whole_folder
from forewarn.learn.data.assembly import Assembly
from forewarn.learn.data.matrix import Matrix
from forewarn.learn.data.table import JobTable
from forewarn.learn.families import family
from forewarn.learn.fitting.abstention import Abstention
from forewarn.learn.fitting.calibration import Calibration
from forewarn.learn.fitting.ensemble import Ensemble, EnsembleMember, Recipe
from forewarn.learn.fitting.fallback import find_rule
from forewarn.learn.fitting.pooling import Excess, Pooling, Risk, RiskInputs
from forewarn.learn.fitting.thresholds import Threshold
from forewarn.learn.heads.causes import Causes
from forewarn.learn.heads.oddness import IsolationForest
from forewarn.learn.heads.profiles import Profiles
from forewarn.learn.heads.usage import Usage, UsageForecast
from forewarn.learn.registry.manifest import (
    MODEL,
    Facts,
    FileFacts,
    Manifest,
    file_facts,
    files_in,
    json_text,
)

PROFILES, CAUSES, USAGE, MEMBERS = "profiles.json", "causes", "usage", "members"
ODDNESS = "oddness.json"
# Writes the report into the folder before the manifest is written; gets the hashes of the model's files.
WriteReport = Callable[[Path, Mapping[str, FileFacts]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A trained model with everything that a prediction needs, and the facts of its training."""

    facts: Facts
    assembly: Assembly
    ensemble: Ensemble
    calibration: Calibration  # of the members' margins
    thresholds: Mapping[str, Threshold]  # of the stated risk, by rule; the first is in force
    abstention: Abstention
    base_rate: float  # of failure, among the jobs learnt from
    jobs: int  # learnt from
    pooling: Pooling | None = None  # how much forecasts of needs count in the stated risk
    causes: Causes | None = None
    profiles: Profiles | None = None
    usage: Usage | None = None
    oddness: IsolationForest | None = None

    @property
    def rule(self) -> str | None:
        """The name of the simple rule in the bundle, if no model was better."""
        return find_rule(member.recipe for member in self.ensemble.members)

    @property
    def chosen(self) -> Threshold:
        """The threshold in force."""
        return next(iter(self.thresholds.values()))

    def margins(self, matrix: Matrix) -> NDArray[np.float64]:
        """Compute the members' log odds of failure."""
        return self.ensemble.margins(matrix)

    def probability(self, matrix: Matrix) -> NDArray[np.float64]:
        """Compute the calibrated probability of the members alone; `risk` is the one that is stated."""
        return self.calibration(self.margins(matrix))

    def excess(self, table: JobTable, rows: NDArray[np.int64]) -> Excess:
        """Compute the probabilities that jobs exceed their requests; empty if the risk does not use them."""
        if self.pooling is None or self.causes is None:
            return {}
        return RiskInputs(self.causes, self.usage).excess(table, rows)

    def excess_of(self, forecast: UsageForecast, table: JobTable) -> Excess:
        """Compute the same for all jobs of a table, from a forecast of their usage."""
        if self.pooling is None or self.causes is None:
            return {}
        return RiskInputs(self.causes, self.usage).excess_of(forecast, table)

    def risk(self, matrix: Matrix, excess: Excess) -> Risk:
        """State the risk of jobs: the one number that is shown, warned by, and judged."""
        model_probability = self.probability(matrix)
        if self.causes is None:
            nothing = np.zeros((len(model_probability), 0))
            return Risk(model_probability, nothing, model_probability, nothing)
        return RiskInputs(self.causes, self.usage).risk(model_probability, matrix, excess, self.pooling)

    def contributions(self, matrix: Matrix) -> NDArray[np.float64]:
        """Compute the contribution of each column to the log odds, the bias last, which add up to them."""
        return self.ensemble.contributions(matrix)

    def check_answers(self) -> None:
        """Predict a job without any known field. Raises `BundleError` if the bundle cannot predict."""
        names = (*self.assembly.features, *self.assembly.encoders.categories)
        names += self.profiles.feature_names if self.profiles and self.assembly.profiles else ()
        nothing = np.full((1, len(names)), np.nan, np.float32)
        try:
            risk = self.risk(Matrix(nothing, names, frozenset(self.assembly.encoders.categories)), {})
            is_sound = bool(np.isfinite(risk.probability).all()) and 0 <= self.chosen.value <= 1
        except Exception as error:
            raise BundleError(f"it cannot predict ({type(error).__name__}: {error}); train again") from error
        if not is_sound:
            raise BundleError("its prediction is no probability; train again")

    def save(self, folder: Path, write_report: WriteReport | None = None) -> Manifest:
        """Write the bundle as a new folder: all of it or nothing."""
        with whole_folder(folder, private=True) as partial:
            for place, member in enumerate(self.ensemble.members):
                member_folder = _member_folder(partial, place, member.recipe.family)
                member_folder.mkdir(parents=True)
                member.model.save(member_folder)
            if self.causes:
                (partial / CAUSES).mkdir()
                self.causes.save(partial / CAUSES)
            if self.usage:
                (partial / USAGE).mkdir()
                self.usage.save(partial / USAGE)
            if self.profiles:
                (partial / PROFILES).write_text(json_text(self.profiles.to_json()), encoding="utf-8")
            if self.oddness:
                (partial / ODDNESS).write_text(json.dumps(self.oddness.to_json()), encoding="utf-8")
            (partial / MODEL).write_text(json_text(self._model()), encoding="utf-8")
            if write_report:
                write_report(partial, {name: file_facts(path) for name, path in files_in(partial).items()})
            return Manifest.seal(partial, self.facts)

    def _model(self) -> dict[str, Any]:
        return {
            "assembly": self.assembly.to_json(),
            "members": [
                {"weight": member.weight, "recipe": member.recipe.to_json()}
                for member in self.ensemble.members
            ],
            "calibration": self.calibration.to_json(),
            "pooling": self.pooling.to_json() if self.pooling else None,
            # A list, because JSON objects have no order: the first threshold is in force.
            "thresholds": [threshold.to_json() for threshold in self.thresholds.values()],
            "abstention": self.abstention.to_json(),
            "base_rate": self.base_rate,
            "jobs": self.jobs,
        }

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load a saved bundle, after checking every file against the manifest."""
        manifest = Manifest.verify(folder)
        try:
            value = json.loads((folder / MODEL).read_text(encoding="utf-8"))
            profiles = None
            if PROFILES in manifest.files:
                profiles = Profiles.from_json(json.loads((folder / PROFILES).read_text(encoding="utf-8")))
            has_causes, has_usage = (
                any(name.startswith(f"{part}/") for name in manifest.files) for part in (CAUSES, USAGE)
            )
            return cls(
                facts=manifest.facts,
                assembly=Assembly.from_json(value["assembly"], profiles),
                ensemble=Ensemble(tuple(_members(folder, value["members"]))),
                calibration=Calibration.from_json(value["calibration"]),
                pooling=Pooling.from_json(value["pooling"]) if value.get("pooling") else None,
                thresholds={t.rule: t for t in map(Threshold.from_json, value["thresholds"])},
                abstention=Abstention.from_json(value["abstention"]),
                base_rate=value["base_rate"],
                jobs=value["jobs"],
                causes=Causes.load(folder / CAUSES) if has_causes else None,
                profiles=profiles,
                usage=Usage.load(folder / USAGE) if has_usage else None,
                oddness=_forest(folder) if ODDNESS in manifest.files else None,
            )
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise BundleError(
                f"{folder / MODEL}: not in Forewarn's format ({type(error).__name__}: {error}). "
                f"It was written by version {manifest.forewarn}: use that one, or train a new model"
            ) from error


def _forest(folder: Path) -> IsolationForest:
    return IsolationForest.from_json(json.loads((folder / ODDNESS).read_text(encoding="utf-8")))


def _members(folder: Path, values: list[Mapping[str, Any]]) -> list[EnsembleMember]:
    members = []
    for place, value in enumerate(values):
        recipe = Recipe.from_json(value["recipe"])
        model = family(recipe.family).load(_member_folder(folder, place, recipe.family))
        members.append(EnsembleMember(value["weight"], recipe, model))
    return members


def _member_folder(folder: Path, place: int, family_name: str) -> Path:
    return folder / MEMBERS / f"{place}-{family_name}"
