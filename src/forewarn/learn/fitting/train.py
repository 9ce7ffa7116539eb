"""A training: fit, judge on the test part, say what became of it, make the bundle."""

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
from forewarn.learn.data.split import gap, known_at, settled
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.baselines import label, within
from forewarn.learn.evaluation.decisions import decisions_of
from forewarn.learn.evaluation.evaluate import evaluate
from forewarn.learn.fitting.ensemble import Recipe
from forewarn.learn.fitting.fallback import servable
from forewarn.learn.fitting.fit import FitResult, FitSettings, as_rule, fit
from forewarn.learn.fitting.thresholds import threshold_for_f1
from forewarn.learn.heads.oddness import IsolationForest
from forewarn.learn.heads.usage.evaluation import judge
from forewarn.learn.registry.bundle import Bundle
from forewarn.learn.registry.manifest import Facts, FileFacts, Manifest
from forewarn.learn.report import write_report
from forewarn.learn.report.wording import fit_to_serve
from forewarn.progress import Watch, unwatched

BLOCKS = ("train", "search", "calibrate", "test")
_NO_SEARCH = ("threads", "ray_address", "trials", "threshold")  # settings that make no other search


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A model that may serve, and the report on it."""

    bundle: Bundle
    report: dict[str, Any]
    recipes: tuple[tuple[float, Recipe], ...]  # how much each counts

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
    now: int,
    absence: Sequence[str] = (),
    watch: Watch = unwatched,
) -> TrainedModel:
    """Train on a table. `searches` keeps unfinished searches, `absence` is what the report warns of."""
    if table.phase == POSTHOC:
        raise LearningError(
            "a posthoc model uses what is known only at the end: it can be measured, not made"
        )
    fitted = fit(table, settings, folder=searches / search_key(table, settings), watch=watch)
    with watch("oddness"):
        private = settings.feature_set != "restricted"
        forest = IsolationForest.fit(table, fitted.learnt, settings.seed, private=private)
    with watch("judging"):
        report = _report(table, fitted, settings, now, list(absence))
        if rule := lost_to(report["evaluation"], fitted):
            lost, model = report["evaluation"], report["model"]
            fitted = as_rule(table, fitted, rule, settings)
            report = _report(table, fitted, settings, now, list(absence))
            report["model"]["instead_of"] = {
                "members": model["members"],
                "ranking": lost["ranking"],
                "f1": lost["over_baseline"]["f1"] + lost["baselines"][rule]["f1"],
                "over_baseline": lost["over_baseline"]["f1"],
                "interval": lost["intervals"]["f1_over_baseline"],
            }
        usage = fitted.needs.usage
        report["usage"] = judge(usage, table, fitted.parts.cuts) if usage else None
    bundle = Bundle(
        facts=Facts(
            cluster=table.cluster,
            phase=table.phase,
            feature_set=settings.feature_set,
            population=table.population,
            data=table.fingerprint,
            created=now,
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
        base_rate=float(table.fails[fitted.learnt].mean()),
        jobs=len(fitted.learnt),
        causes=fitted.needs.causes,
        profiles=fitted.profiles,
        usage=usage,
        oddness=forest,
    )
    return TrainedModel(bundle, report, fitted.recipes)


def lost_to(evaluation: Mapping[str, Any], fitted: FitResult) -> str | None:
    """The simple rule that is to serve, since the model is not above it on the test part."""
    ahead = evaluation["over_baseline"]
    if fitted.rule is not None or ahead["f1"] > 0:
        return None
    rule: str = ahead["baseline"]
    return rule if rule in servable(fitted.assembly.features) else None


def search_key(table: JobTable, settings: FitSettings) -> str:
    """Names a search: the same for the same data and settings, so that a crashed one is taken up again."""
    told = {k: v for k, v in dataclasses.asdict(settings).items() if k not in _NO_SEARCH}
    made = json.dumps([table.fingerprint, __version__, told], sort_keys=True)
    return hashlib.sha256(made.encode()).hexdigest()[:24]


def _report(
    table: JobTable, fitted: FitResult, settings: FitSettings, now: int, absence: list[str]
) -> dict[str, Any]:
    rows = fitted.parts.test
    test = fitted.assembly.matrix(table, rows)
    stated, causes = fitted.risk(table, rows), fitted.needs.causes
    columns = {name: table.column(name)[rows] for name in table.names}
    abstained = fitted.abstention.abstains(columns)
    importance = fitted.ensemble.importance()
    correlation, ranked = (fitted.rankings.by[measure] for measure in ("correlation", "importance"))
    return {
        "model": {
            "created": datetime.fromtimestamp(now, UTC).isoformat(),
            "forewarn": __version__,
            "cluster": table.cluster,
            "phase": table.phase,
            "feature_set": settings.feature_set,
            "population": {"name": table.population, "in_words": POPULATIONS[table.population].in_words},
            "families": list(settings.families),
            "rule": fitted.rule and label(fitted.rule),  # that stands in the model's place
            "members": [
                {"weight": weight, **recipe.to_json()} for weight, recipe in fitted.recipes if weight > 0
            ],
        },
        "data": {
            "jobs": int(table.labelled.sum()),
            "fingerprint": table.fingerprint,
            "gap": gap(table, known_at(table, np.arange(rows.min()), fitted.parts.cuts[2])),
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
        "thresholds": {rule: found.to_json() for rule, found in fitted.thresholds.items()},
        "abstention": fitted.abstention.to_json() | {"share_of_test": float(abstained.mean())},
        "evaluation": evaluate(
            table,
            rows,
            stated.probability,
            fitted.threshold.value,
            train_rows=fitted.learnt,
            for_f1=threshold_for_f1(fitted.thresholds),
            to_beat=within(fitted.assembly.features),
            outcomes=causes.outcomes(stated.by_cause),
            hours_lost=causes.hours_lost(stated.by_cause, table.about[rows]),
            seed=settings.seed,
        ),
        "causes": causes.evaluate(test, table.about[rows], table.fails[rows]),
        "profiles": fitted.profiles.describe(table, fitted.learnt),
        "absence": absence,
    }


def _metrics(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """The few figures by which models are compared in a list."""
    found = evaluation["ranking"] | {
        name: evaluation["at_threshold"][name] for name in ("accuracy", "precision", "recall", "f1")
    }
    return {name: value for name, value in found.items() if value is not None}


def _block(table: JobTable, rows: NDArray[np.int64], cut: int | None) -> dict[str, Any]:
    used = rows if cut is None else settled(table, rows, cut)
    return {
        "jobs": len(rows),
        "used": len(used),
        "base_rate": float(table.fails[rows].mean()),
        "from": datetime.fromtimestamp(int(table.submit[rows].min()), UTC).isoformat(),
        "to": datetime.fromtimestamp(int(table.submit[rows].max()), UTC).isoformat(),
        **{name: found for name, found in decisions_of(table.about[used]).items() if name != "jobs"},
    }
