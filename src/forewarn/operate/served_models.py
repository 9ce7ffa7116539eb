"""Which models serve in a home, and how good they are on later jobs: read from pointers and bundles alone.

Needs neither MLflow nor the learners; `models.py` lists all versions of the registry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from forewarn.errors import BundleError, UsageError
from forewarn.learn.evaluation.rule_labels import rule_label
from forewarn.learn.fitting.thresholds import Threshold
from forewarn.learn.registry.manifest import MODEL, Facts, Manifest
from forewarn.learn.registry.serving import ModelName, ServedModel, Serving
from forewarn.learn.report import JSON_NAME
from forewarn.operate.workspace import Workspace

_REMEMBERED = 64  # bundles whose figures stay in memory: files of one id never change
_FIGURES = ("n", "base_rate", "roc_auc", "pr_auc", "f1", "precision", "recall", "ece")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleComparison:
    """A model's F1 on the test block beside that of the best simple rule."""

    rule: str
    f1: float
    gain: float  # F1 of the model above the rule's
    interval: tuple[float, float] | None  # 95% of the gain, over user-weeks

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "rule": self.rule,
            "label": rule_label(self.rule),
            "f1": self.f1,
            "gain": self.gain,
            "interval": self.interval and list(self.interval),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFigures:
    """A model that serves, with its training data and its figures on the jobs of the test block."""

    served: ServedModel
    serves_since: int  # in this home
    facts: Facts
    jobs: int  # learnt from
    base_rate: float  # of failure, among them
    threshold: Threshold  # the bundle's own
    simple_rule: str | None  # the rule that answers, where no model was better
    tested: tuple[int, int] | None  # first and last submit of the test block
    intervals: Mapping[str, tuple[float, float]]  # 95%, by metric
    compared: RuleComparison | None
    verdict: str | None  # the report's, in English
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        name, facts = self.served.name, self.facts
        return {
            "model": str(name),
            "cluster": name.cluster,
            "phase": name.phase,
            "features": name.feature_set,
            "version": self.served.version,
            "id": self.served.id,
            "serves_since": self.serves_since,
            "created": facts.created,
            "learnt_until": facts.learnt_until or None,
            "population": facts.population,
            "trained_on": {"jobs": self.jobs, "base_rate": self.base_rate},
            "tested_on": {
                "jobs": facts.metrics.get("n"),
                "from": self.tested and self.tested[0],
                "to": self.tested and self.tested[1],
            },
            "metrics": {figure: facts.metrics.get(figure) for figure in _FIGURES},
            "intervals": {metric: list(interval) for metric, interval in self.intervals.items()},
            "threshold": {"value": self.threshold.value, "rule": self.threshold.rule},
            "simple_rule": self.simple_rule and rule_label(self.simple_rule),
            "compared_with": self.compared and self.compared.to_json(),
            "may_serve": facts.may_serve,
            "verdict": self.verdict,
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModelList:
    """The models that serve in a home, and those whose bundle cannot be read, with the reason."""

    models: tuple[ModelFigures, ...]
    damaged: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {"models": [model.to_json() for model in self.models], "damaged": dict(self.damaged)}


def list_served_models(workspace: Workspace, cluster: str | None = None) -> ServedModelList:
    """List the models that serve, of all clusters or of one."""
    serving = Serving(workspace.config.home / "models")
    models: list[ModelFigures] = []
    damaged: dict[str, str] = {}
    for name in serving.names():
        if cluster is not None and name.cluster != cluster:
            continue
        try:
            if served := serving.served_model(name):
                _verify(serving.copy_of(served.id))
            models.append(model_figures(serving, name))
        except BundleError as error:
            damaged[str(name)] = str(error)
    return ServedModelList(models=tuple(models), damaged=damaged)


def model_figures(serving: Serving, name: ModelName) -> ModelFigures:
    """Read the figures of a model that serves; `UsageError` if there is none of this name."""
    served = serving.served_model(name)
    if served is None:
        names = ", ".join(map(str, serving.names())) or "none yet: train one with `forewarn train`"
        raise UsageError(f"no model {name} serves in this home; those that serve: {names}")
    return _read_figures(serving.copy_of(served.id), served, serving.serves_since(name))


@lru_cache(maxsize=_REMEMBERED)
def _verify(folder: Path) -> None:
    """Raise `BundleError` where a file was changed: an engine refuses such a bundle, so it does not serve."""
    Manifest.verify(folder)


@lru_cache(maxsize=_REMEMBERED)
def _read_figures(folder: Path, served: ServedModel, serves_since: int) -> ModelFigures:
    manifest = Manifest.read(folder)
    if manifest.id != served.id:
        raise BundleError(f"{folder}: holds another bundle than the promoted one")
    try:
        inside = json.loads((folder / MODEL).read_text(encoding="utf-8"))
        report = _report(folder)
        evaluation = report.get("evaluation", {})
        intervals = evaluation.get("intervals", {})
        return ModelFigures(
            served=served,
            serves_since=serves_since,
            facts=manifest.facts,
            jobs=int(inside["jobs"]),
            base_rate=float(inside["base_rate"]),
            threshold=Threshold.from_json(inside["thresholds"][0]),
            simple_rule=manifest.facts.settings.get("rule"),
            tested=_tested(report),
            intervals={
                metric: (low, high)
                for metric, (low, high) in ((m, i) for m, i in intervals.items() if i)
                if metric in _FIGURES
            },
            compared=_compared(evaluation, intervals),
            verdict=report.get("verdict"),
            warnings=tuple(warning["text"] for warning in report.get("warnings", ())),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise BundleError(f"{folder}: its figures cannot be read: {error!r}") from None


def _report(folder: Path) -> Mapping[str, Any]:
    """Read the report of the training; empty for a bundle without one."""
    try:
        report: Mapping[str, Any] = json.loads((folder / JSON_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return report


def _tested(report: Mapping[str, Any]) -> tuple[int, int] | None:
    block = report.get("data", {}).get("blocks", {}).get("test")
    if not block:
        return None
    begin, end = (int(datetime.fromisoformat(block[end]).timestamp()) for end in ("from", "to"))
    return begin, end


def _compared(evaluation: Mapping[str, Any], intervals: Mapping[str, Any]) -> RuleComparison | None:
    over = evaluation.get("over_baseline")
    if not over or over.get("f1") is None:
        return None
    interval = intervals.get("f1_over_baseline")
    return RuleComparison(
        rule=over["baseline"],
        f1=float(evaluation["baselines"][over["baseline"]]["f1"]),
        gain=float(over["f1"]),
        interval=(float(interval[0]), float(interval[1])) if interval else None,
    )
