"""What the tests of this room share: a small simulated cluster, and a model of it."""

from __future__ import annotations

import numpy as np
import pytest

from forewarn.learn.data.assembly import Assembly
from forewarn.learn.data.table import JobTable
from forewarn.learn.fitting.abstention import Abstention, EvidenceLevel
from forewarn.learn.fitting.calibration import calibrate
from forewarn.learn.fitting.ensemble import Recipe, fit_ensemble
from forewarn.learn.fitting.evidence_levels import EVIDENCE_LEVELS
from forewarn.learn.fitting.thresholds import choose_threshold
from forewarn.learn.heads.profiles import Profiles
from forewarn.learn.registry.bundle import Bundle
from forewarn.learn.registry.manifest import Facts
from tests.learn.bundles import FACTS
from tests.learn.conftest import cluster, start_table, table

__all__ = ["cluster", "start_table", "table"]


@pytest.fixture(scope="session")
def bundle(table: JobTable) -> Bundle:
    """Trees and the online regression over all columns of the cluster, its profiles with them."""
    rows = np.flatnonzero(table.labelled)
    train, apart = rows[:2500], rows[2500:]
    assembly = Assembly.fit(table, train, "generic", Profiles.fit(table, train, seed=1))
    sample = assembly.sample(table, train)
    recipes = [
        (0.7, Recipe("lightgbm", {"num_leaves": 15}, sample.matrix.names, 40)),
        (0.3, Recipe("online", {}, ("online",), 0)),
    ]
    ensemble = fit_ensemble(recipes, sample, seed=1, threads=1)
    margins = ensemble.margins(assembly.matrix(table, apart))
    calibration = calibrate(margins, table.fails[apart])
    return Bundle(
        facts=Facts(**FACTS, created=1_700_000_000),
        assembly=assembly,
        ensemble=ensemble,
        calibration=calibration,
        thresholds={"f1": choose_threshold("f1", calibration(margins), table.fails[apart])},
        abstention=Abstention(tuple(EvidenceLevel(True, 0, None, None, None, None) for _ in EVIDENCE_LEVELS)),
        base_rate=float(table.fails[train].mean()),
        jobs=len(train),
        profiles=assembly.profiles,
    )
