"""A training: fit a model, evaluate it on the test block, write the report, make the bundle."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn import __version__
from forewarn.errors import LearningError
from forewarn.job.phase import POSTHOC
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.split import gap_before_cut, known_rows, settled_rows
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.baselines import available_rules
from forewarn.learn.evaluation.decisions import count_decisions
from forewarn.learn.evaluation.evaluate import evaluate
from forewarn.learn.evaluation.rule_labels import rule_label
from forewarn.learn.fitting.ensemble import Recipe
from forewarn.learn.fitting.fallback import servable_rules
from forewarn.learn.fitting.fit import fit, replace_by_rule
from forewarn.learn.fitting.fit_result import FitResult
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.learn.fitting.thresholds import threshold_for_f1
from forewarn.learn.heads.oddness import IsolationForest
from forewarn.learn.heads.usage.evaluation import evaluate_usage
from forewarn.learn.registry.bundle import Bundle
from forewarn.learn.registry.manifest import Facts, FileFacts, Manifest
from forewarn.learn.report import write_report
from forewarn.learn.report.wording import fit_to_serve
from forewarn.progress import ShowProgress, no_progress

BLOCKS = ("train", "search", "calibrate", "test")
_NO_SEARCH = ("threads", "ray_address", "trials", "threshold")  # settings that do not change the search


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A trained model and its report."""

    bundle: Bundle
    report: dict[str, Any]
    recipes: tuple[tuple[float, Recipe], ...]  # with the weight of each

    def save(self, folder: Path) -> Manifest:
        """Write the bundle with the report in it."""

        def with_hashes(partial: Path, files: Mapping[str, FileFacts]) -> None:
            hashes = {name: file.sha256 for name, file in files.items()}
            write_report(self.report | {"hashes": hashes}, partial)

        return self.bundle.save(folder, with_hashes)


def train(
    table: JobTable,
    settings: FitSettings,
    *,
    searches: Path,
    at: int,
    absence: Sequence[str] = (),
    watch: ShowProgress = no_progress,
) -> TrainedModel:
    """Train on a table.

    Parameters
    ----------
    searches
        The folder of unfinished searches.
    at
        The Unix time that the report and the bundle carry.
    absence
        Warnings for the report about fields whose absence reveals the outcome.
    """
    if table.phase == POSTHOC:
        raise LearningError(
            "a posthoc model uses what is known only after the end of a job: it can be evaluated by "
            "`forewarn bench`, not trained to serve"
        )
    fitted = fit(table, settings, folder=searches / search_key(table, settings), watch=watch)
    with watch("oddness"):
        private = settings.feature_set != "restricted"
        forest = IsolationForest.fit(table, fitted.learnt_rows, settings.seed, private=private)
    with watch("evaluating"):
        report = _report(table, fitted, settings, at, list(absence))
        if rule := better_rule_on_test(report["evaluation"], fitted):
            replaced, model = report["evaluation"], report["model"]
            fitted = replace_by_rule(table, fitted, rule, settings)
            report = _report(table, fitted, settings, at, list(absence))
            report["model"]["instead_of"] = {
                "members": model["members"],
                "ranking": replaced["ranking"],
                "f1": replaced["over_baseline"]["f1"] + replaced["baselines"][rule]["f1"],
                "over_baseline": replaced["over_baseline"]["f1"],
                "interval": replaced["intervals"]["f1_over_baseline"],
            }
        usage = fitted.risk_inputs.usage
        report["usage"] = evaluate_usage(usage, table, fitted.parts.cuts) if usage else None
    bundle = Bundle(
        facts=Facts(
            cluster=table.cluster,
            phase=table.phase,
            feature_set=settings.feature_set,
            population=table.population,
            data=table.fingerprint,
            created=at,
            learnt_until=fitted.parts.cuts[2],
            seed=settings.seed,
            settings=dataclasses.asdict(settings) | ({"rule": fitted.rule} if fitted.rule else {}),
            metrics=_metrics(report["evaluation"]),
            may_serve=fit_to_serve(report),
            reading=table.reading,
        ),
        assembly=fitted.assembly,
        ensemble=fitted.ensemble,
        calibration=fitted.calibration,
        pooling=fitted.pooling,
        thresholds=fitted.thresholds,
        abstention=fitted.abstention,
        base_rate=float(table.fails[fitted.learnt_rows].mean()),
        jobs=len(fitted.learnt_rows),
        causes=fitted.risk_inputs.causes,
        profiles=fitted.profiles,
        usage=usage,
        oddness=forest,
    )
    return TrainedModel(bundle, report, fitted.recipes)


def better_rule_on_test(evaluation: Mapping[str, Any], fitted: FitResult) -> str | None:
    """Return the simple rule that serves instead, if the model does not beat it on the test block."""
    lead = evaluation["over_baseline"]
    if fitted.rule is not None or lead["f1"] > 0:
        return None
    rule: str = lead["baseline"]
    return rule if rule in servable_rules(fitted.assembly.features) else None


def search_key(table: JobTable, settings: FitSettings) -> str:
    """Name a search: the same data and settings give the same name, so that a crashed search is resumed."""
    relevant = {name: value for name, value in dataclasses.asdict(settings).items() if name not in _NO_SEARCH}
    text = json.dumps([table.fingerprint, __version__, relevant], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _report(
    table: JobTable, fitted: FitResult, settings: FitSettings, at: int, absence: list[str]
) -> dict[str, Any]:
    """Compute the content of the report: plain JSON."""
    rows = fitted.parts.test
    test = fitted.assembly.matrix(table, rows)
    stated, causes = fitted.risk(table, rows), fitted.risk_inputs.causes
    columns = {name: table.column(name)[rows] for name in table.names}
    abstained = fitted.abstention.abstains(columns)
    importance = fitted.ensemble.importance()
    correlation, ranked = (fitted.rankings.by[measure] for measure in ("correlation", "importance"))
    return {
        "model": {
            "created": datetime.fromtimestamp(at, UTC).isoformat(),
            "forewarn": __version__,
            "cluster": table.cluster,
            "phase": table.phase,
            "feature_set": settings.feature_set,
            "population": {"name": table.population, "in_words": POPULATIONS[table.population].in_words},
            "families": list(settings.families),
            "rule": fitted.rule and rule_label(fitted.rule),  # that serves in the model's place
            "members": [
                {"weight": weight, **recipe.to_json()} for weight, recipe in fitted.recipes if weight > 0
            ],
        },
        "data": {
            "jobs": int(table.labelled.sum()),
            "fingerprint": table.fingerprint,
            "gap": gap_before_cut(table, known_rows(table, np.arange(rows.min()), fitted.parts.cuts[2])),
            "blocks": {
                name: _block(table, getattr(fitted.parts, name), cut)
                for name, cut in zip(BLOCKS, (*fitted.parts.cuts, None), strict=True)
            },
        },
        "search": fitted.search and fitted.search.to_json(),
        "selection": fitted.rankings.to_json(),
        "features": [
            {
                "name": name,
                "importance": share,
                "ranked": ranked.get(name),
                "correlation": correlation.get(name),
            }
            for name, share in importance.items()
        ],
        "imbalance": {"how": settings.imbalance, "active": fitted.active},
        "calibration": fitted.last_calibration.to_json(),
        "forecast_weight": fitted.pooling.weight if fitted.pooling and fitted.pooling.outcomes else None,
        "record_weight": fitted.pooling.record if fitted.pooling else 0.0,
        "thresholds": {rule: threshold.to_json() for rule, threshold in fitted.thresholds.items()},
        "abstention": fitted.abstention.to_json() | {"share_of_test": float(abstained.mean())},
        "evaluation": evaluate(
            table,
            rows,
            stated.probability,
            fitted.threshold.value,
            train_rows=fitted.learnt_rows,
            for_f1=threshold_for_f1(fitted.thresholds),
            to_beat=available_rules(fitted.assembly.features),
            outcomes=causes.outcomes(stated.by_cause),
            hours_lost=causes.hours_lost(stated.by_cause, table.about[rows]),
            seed=settings.seed,
        ),
        "causes": causes.evaluate(test, table.about[rows], table.fails[rows]),
        "profiles": fitted.profiles.describe(table, fitted.learnt_rows),
        "absence": absence,
    }


def _metrics(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """Pick the few figures by which models are compared in a list."""
    figures = evaluation["ranking"] | {
        name: evaluation["at_threshold"][name] for name in ("accuracy", "precision", "recall", "f1")
    }
    return {name: value for name, value in figures.items() if value is not None}


def _block(table: JobTable, rows: NDArray[np.int64], cut: int | None) -> dict[str, Any]:
    used = rows if cut is None else settled_rows(table, rows, cut)
    return {
        "jobs": len(rows),
        "used": len(used),
        "base_rate": float(table.fails[rows].mean()),
        "from": datetime.fromtimestamp(int(table.submit[rows].min()), UTC).isoformat(),
        "to": datetime.fromtimestamp(int(table.submit[rows].max()), UTC).isoformat(),
        **{name: count for name, count in count_decisions(table.about[used]).items() if name != "jobs"},
    }
