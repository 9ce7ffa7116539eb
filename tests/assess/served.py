"""Small real bundles, and a home's pointers that let them serve without MLflow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from forewarn.learn.fitting.abstention import Abstention, EvidenceLevel
from forewarn.learn.fitting.evidence_levels import EVIDENCE_LEVELS, WITHOUT_HISTORY
from forewarn.learn.registry.bundle import Bundle
from forewarn.learn.registry.serving import ModelName, Serving
from tests.learn.bundles import tiny_bundle

RATE, JOBS = 0.3, 40  # failure rate and jobs of the calibration block at a level of evidence that is too low


def small_bundle(created: int = 1, *, abstains_at: tuple[int, ...] = (), **facts: Any) -> Bundle:
    """Return a bundle of the online regression that abstains at some levels of evidence."""
    bundle = tiny_bundle(created)
    facts = {"reading": {}, **facts}
    history = facts.get("feature_set", "generic") != "restricted"
    levels = tuple(
        EvidenceLevel(False, JOBS, RATE, 0.5, -0.1, [-0.2, -0.05])
        if level in abstains_at
        else EvidenceLevel(True, 0, None, None, None, None)
        for level in range(len(EVIDENCE_LEVELS if history else WITHOUT_HISTORY))
    )
    return replace(
        bundle, facts=replace(bundle.facts, **facts), abstention=Abstention(levels, history=history)
    )


def promote(serving: Serving, bundle: Bundle, version: int) -> Path:
    """Let a bundle serve; return the folder of its copy."""
    folder = serving.copy_of("new")
    manifest = bundle.save(folder)
    copy = serving.copy_of(manifest.id)
    if copy.exists():
        raise AssertionError("give each bundle another time of creation")
    folder.rename(copy)
    serving.point(ModelName.of(bundle.facts), version, manifest.id)
    return copy


def damage(folder: Path) -> None:
    """Change one byte of a bundle, as a bad disk would."""
    path = folder / "model.json"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
