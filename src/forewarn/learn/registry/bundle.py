"""A model as it is kept and served: a folder of native booster files and JSON, nothing pickled.

manifest.json        what it is, and the hash of every other file
model.json           columns, encoders, members with their weights, calibration, thresholds, abstention
members/0-xgboost/   native files of each member
causes/              native files of the models of causes, where there are any
usage/               native files of what foresees run time and resources, where the history tells of any
profiles.json        the mixture of job profiles, where there is one
oddness.json         the isolation forest, where there is one
report.json, .html   how good it was
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
from forewarn.learn.fitting.fallback import rule_of
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
# Writes the report into the folder, told the hashes of the model's files, before the bundle is sealed.
WriteReport = Callable[[Path, Mapping[str, FileFacts]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """All that is needed to predict, and to say how and from what that was learnt."""

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
        """The name of the simple rule that this is, where no model beat it."""
        return rule_of(member.recipe for member in self.ensemble.members)

    @property
    def chosen(self) -> Threshold:
        """The threshold in force."""
        return next(iter(self.thresholds.values()))

    def margins(self, matrix: Matrix) -> NDArray[np.float64]:
        """Log odds of failure, as the members see it."""
        return self.ensemble.margins(matrix)

    def probability(self, matrix: Matrix) -> NDArray[np.float64]:
        """Calibrated probability of failure, as the members alone see it; `risk` is what is stated."""
        return self.calibration(self.margins(matrix))

    def excess(self, table: JobTable, rows: NDArray[np.int64]) -> Excess:
        """How likely jobs of a table need more than they requested, where that counts in their risk."""
        if self.pooling is None or self.causes is None:
            return {}
        return RiskInputs(self.causes, self.usage).excess(table, rows)

    def excess_of(self, foreseen: UsageForecast, table: JobTable) -> Excess:
        """The same of all jobs of a table whose needs have been forecast already."""
        if self.pooling is None or self.causes is None:
            return {}
        return RiskInputs(self.causes, self.usage).excess_of(foreseen, table)

    def risk(self, matrix: Matrix, excess: Excess) -> Risk:
        """State the risk of jobs: the one number that is shown, warned by, and judged."""
        own = self.probability(matrix)
        if self.causes is None:
            nothing = np.zeros((len(own), 0))
            return Risk(own, nothing, own, nothing)
        return RiskInputs(self.causes, self.usage).risk(own, matrix, excess, self.pooling)

    def contributions(self, matrix: Matrix) -> NDArray[np.float64]:
        """What each column brought to the log odds, the bias last; a row adds up to its margin."""
        return self.ensemble.contributions(matrix)

    def check_answers(self) -> None:
        """Ask it about a job of which nothing is known; `BundleError` where it cannot answer."""
        names = (*self.assembly.features, *self.assembly.encoders.categories)
        names += self.profiles.feature_names if self.profiles and self.assembly.profiles else ()
        nothing = np.full((1, len(names)), np.nan, np.float32)
        try:
            risk = self.risk(Matrix(nothing, names, frozenset(self.assembly.encoders.categories)), {})
            is_sound = bool(np.isfinite(risk.probability).all()) and 0 <= self.chosen.value <= 1
        except Exception as error:
            raise BundleError(f"it cannot answer ({type(error).__name__}: {error}); train again") from error
        if not is_sound:
            raise BundleError("what it answers is no probability; train again")

    def save(self, folder: Path, write_report: WriteReport | None = None) -> Manifest:
        """Write it as a folder that is not there yet: whole or not at all."""
        with whole_folder(folder, private=True) as partial:
            for place, member in enumerate(self.ensemble.members):
                own = _member_folder(partial, place, member.recipe.family)
                own.mkdir(parents=True)
                member.model.save(own)
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
            # A list: the order says which is in force, and JSON objects have none.
            "thresholds": [threshold.to_json() for threshold in self.thresholds.values()],
            "abstention": self.abstention.to_json(),
            "base_rate": self.base_rate,
            "jobs": self.jobs,
        }

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What `save` wrote, after every file has been held against the manifest."""
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
                f"{folder / MODEL}: is not what Forewarn writes ({type(error).__name__}: {error}). "
                f"It was written by version {manifest.forewarn}: use that one, or train a new model"
            ) from error


def _forest(folder: Path) -> IsolationForest:
    return IsolationForest.from_json(json.loads((folder / ODDNESS).read_text(encoding="utf-8")))


def _members(folder: Path, described: list[Mapping[str, Any]]) -> list[EnsembleMember]:
    members = []
    for place, value in enumerate(described):
        recipe = Recipe.from_json(value["recipe"])
        model = family(recipe.family).load(_member_folder(folder, place, recipe.family))
        members.append(EnsembleMember(value["weight"], recipe, model))
    return members


def _member_folder(folder: Path, place: int, family_name: str) -> Path:
    return folder / MEMBERS / f"{place}-{family_name}"
