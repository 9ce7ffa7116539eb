"""Bundles for tests: some without a real model, since the registry checks hashes only, and a tiny one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from forewarn.learn.data.assembly import Assembly
from forewarn.learn.data.encoders import Encoders
from forewarn.learn.families.base import probabilities
from forewarn.learn.families.online import OnlineModel
from forewarn.learn.fitting.abstention import Abstention, EvidenceLevel
from forewarn.learn.fitting.calibration import calibrate
from forewarn.learn.fitting.ensemble import Ensemble, EnsembleMember, Recipe
from forewarn.learn.fitting.evidence_levels import EVIDENCE_LEVELS
from forewarn.learn.fitting.thresholds import choose_threshold
from forewarn.learn.registry.bundle import Bundle
from forewarn.learn.registry.manifest import MODEL, Facts, Manifest, json_text

FACTS: dict[str, Any] = {
    "cluster": "alps",
    "phase": "submit",
    "feature_set": "generic",
    "population": "wasted",
    "data": "d" * 32,
    "seed": 3,
    "settings": {"trials": 20, "shares": [0.6, 0.4]},
    "metrics": {"roc_auc": 0.81, "f1": 0.6},
}


def make_bundle(folder: Path, created: int = 1_700_000_000, **facts: Any) -> Path:
    (folder / "members" / "0-xgboost").mkdir(parents=True)
    (folder / "members" / "0-xgboost" / "model.ubj").write_bytes(os.urandom(20_000))
    recipe = {"family": "xgboost", "params": {}, "features": ["a", "b"], "rounds": 3}
    model = {
        "members": [{"weight": 1.0, "recipe": recipe}],
        "thresholds": [{"rule": "f1", "value": 0.4, "evidence": {}}],
        "base_rate": 0.2,
        "jobs": 1234,
    }
    (folder / MODEL).write_text(json_text(model))
    (folder / "report.html").write_text("<p>good</p>")
    Manifest.seal(folder, Facts(**{**FACTS, "created": created, **facts}))
    return folder


def tiny_bundle(created: int = 1_700_000_000) -> Bundle:
    """Build the smallest bundle that predicts: the online regression alone."""
    random = np.random.default_rng(created)
    margins = random.normal(size=500)
    fails = (random.random(500) < probabilities(margins)).astype(np.float64)
    calibration = calibrate(margins, fails)
    recipe = Recipe("online", {}, ("online",), 0)
    model = OnlineModel(("online",), frozenset())
    return Bundle(
        facts=Facts(**FACTS, created=created),
        assembly=Assembly("submit", ("online",), Encoders({})),
        ensemble=Ensemble((EnsembleMember(1.0, recipe, model),)),
        calibration=calibration,
        thresholds={"f1": choose_threshold("f1", calibration(margins), fails)},
        abstention=Abstention(tuple(EvidenceLevel(True, 0, None, None, None, None) for _ in EVIDENCE_LEVELS)),
        base_rate=float(fails.mean()),
        jobs=len(fails),
    )
