"""A model serves only where fields are treated as in its training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forewarn.assess.champions import Champions
from forewarn.assess.routing import ONLINE, ModelAnswer, route_jobs
from forewarn.assess.wording import passed
from forewarn.features.kernel.layout import FEATURES
from forewarn.features.slurm_field_differences import reading_of, with_slurm_treatments
from forewarn.job.record import Job
from forewarn.learn.data.table import live_table
from forewarn.learn.registry.manifest import MANIFEST, Manifest
from forewarn.learn.registry.registry import Registry
from forewarn.store.base import ClusterFacts
from tests.learn.bundles import tiny_bundle

pytestmark = pytest.mark.slow

SLURM = with_slurm_treatments(ClusterFacts())
JOB = Job(cluster="alps", job_id="1", submit=0, user="ann")


def answer_of(folder: Path, learnt: ClusterFacts | None, now: ClusterFacts) -> ModelAnswer:
    """Return the answer of a bundle trained with some treatments of fields, asked with others."""
    return answer(Champions("alps", None, (saved(folder, learnt),)), now)


def saved(folder: Path, learnt: ClusterFacts | None, created: int = 1_700_000_000) -> Path:
    bundle = tiny_bundle(created)
    reading = reading_of(learnt) if learnt else None
    replace(bundle, facts=replace(bundle.facts, reading=reading)).save(folder)
    return folder


def answer(champions: Champions, now: ClusterFacts) -> ModelAnswer:
    rows = np.full((1, len(FEATURES)), 5.0)
    table = live_table("alps", "submit", [JOB], rows, 0, now)
    return route_jobs(table, champions, ended=1000, recent_rate=0.2)[0]


@pytest.mark.parametrize(
    ("learnt", "now", "reason"),
    [
        (
            None,
            SLURM,
            "trained by an older version that did not record how fields were read: `forewarn train`",
        ),
        (ClusterFacts(), SLURM, "tasks_asked (then as it is, now hidden)"),
        (SLURM, ClusterFacts(), "memory_asked (then for a node, now as it is)"),
        (
            ClusterFacts(),
            ClusterFacts(fields={"cpus_asked": {"stand_in": "cpus_given"}}),
            "cpus_asked (then as it is, now cpus_given instead)",
        ),
    ],
)
def test_it_passes_on_what_it_would_read_otherwise(
    tmp_path: Path, learnt: ClusterFacts | None, now: ClusterFacts, reason: str
) -> None:
    found = answer_of(tmp_path / "bundle", learnt, now)
    assert found.route.model == ONLINE
    assert reason in passed(found.route.passed[0])
    assert "`forewarn train`" in passed(found.route.passed[0])


@pytest.mark.parametrize(
    ("learnt", "now"),
    [
        (SLURM, SLURM),
        (SLURM, replace(SLURM, fields={**SLURM.fields, "name": {"fill": "x"}}, timezone="Europe/Rome")),
        (None, ClusterFacts()),  # of a version that did not record it: no field is read otherwise
    ],
)
def test_it_serves_where_they_are_read_alike(
    tmp_path: Path, learnt: ClusterFacts | None, now: ClusterFacts
) -> None:
    found = answer_of(tmp_path / "bundle", learnt, now)
    assert found.route.model == "alps.submit.generic"
    recorded = "reading" in (tmp_path / "bundle" / MANIFEST).read_text()
    assert recorded == (learnt is not None), "an older bundle keeps its id"
    assert Manifest.read(tmp_path / "bundle").facts.reading == (reading_of(learnt) if learnt else None)


@pytest.mark.parametrize("learnt", [None, ClusterFacts()])
def test_the_next_model_serves_where_the_champion_passes_on(
    registry_home: Path, tmp_path: Path, learnt: ClusterFacts | None
) -> None:
    registry = Registry(registry_home)
    registry.record(saved(tmp_path / "old", learnt, created=1))
    champions = Champions("alps", registry.serving)
    assert answer(champions, SLURM).route.model == ONLINE
    registry.record(saved(tmp_path / "new", SLURM, created=2))
    assert answer(champions.refreshed(), SLURM).route.model == "alps.submit.generic"
