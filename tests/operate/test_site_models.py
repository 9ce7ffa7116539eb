"""The methods of a site that use registered models, on a small simulated cluster."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

import forewarn
from forewarn.errors import ForewarnError, UsageError
from forewarn.features.slurm_field_differences import reading_of
from forewarn.learn.registry.serving import ModelName
from forewarn.operate.access.manage import read_audit
from tests.learn.bundles import tiny_bundle

pytestmark = pytest.mark.slow

NAME = "alps.submit.generic"
SCRIPT = """\
#!/bin/bash
#SBATCH --partition=main
#SBATCH --time=06:00:00
srun ./solver
"""


@pytest.fixture
def site(registry_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[forewarn.Site]:
    """A site with 300 jobs and no model."""
    for name in ("HOME", "CONFIG", "POLICY", "CLUSTER", "TIMEZONE", "TRACKING", "MODEL"):
        monkeypatch.delenv(f"FOREWARN_{name}", raising=False)
    small = files("forewarn.sources.simulator").joinpath("scenarios", "small.toml").read_text()
    scenario = tmp_path / "alps.toml"
    scenario.write_text(small.replace('name = "small"', 'name = "alps"'))
    with forewarn.open(registry_home) as opened:
        opened.ingest(*opened.simulate(str(scenario), jobs=300).sources)
        yield opened


def import_bundle(site: forewarn.Site, folder: Path, created: int) -> int:
    """Import a tiny model that treats fields as the site's cluster does; return its version."""
    bundle = tiny_bundle(created=created)
    reading = reading_of(site._workspace.reading().clusters()["alps"])
    replace(bundle, facts=replace(bundle.facts, reading=reading)).save(folder)
    version = site.import_model(folder)
    assert version is not None
    return version.version


@pytest.fixture
def two_models(site: forewarn.Site, tmp_path: Path) -> forewarn.Site:
    """The same site with a champion and a challenger."""
    assert import_bundle(site, tmp_path / "one", 1_700_000_000) == 1
    assert import_bundle(site, tmp_path / "two", 1_700_000_100) == 2
    return site


def test_models_are_listed_shown_and_loaded(two_models: forewarn.Site) -> None:
    listed = two_models.models()
    assert [(version.version, version.aliases) for version in listed.versions] == [
        (2, ("challenger",)),
        (1, ("champion",)),
    ]
    assert (listed.waiting, dict(listed.behind)) == ((), {})
    details = two_models.show_model(NAME)
    assert details.version.version == 1
    assert details.manifest.facts.cluster == "alps"
    assert details.inside["members"]
    model, other = two_models.model(NAME), two_models.model(NAME, "challenger")
    assert (model.version, other.version, other.name) == (1, 2, ModelName.parse(NAME))
    features = two_models.features("alps")
    failure = model.predict_proba(features)[:, 1]
    assert failure.shape == (300,)
    assert (failure != other.predict_proba(features)[:, 1]).any(), "each is calibrated by itself"
    with pytest.raises(UsageError, match="not a version: 'newest'"):
        two_models.show_model(NAME, "newest")


def test_a_promotion_and_its_rollback_change_who_serves(two_models: forewarn.Site) -> None:
    job = two_models.jobs(limit=1)[0]
    assert two_models.assess(job).route.version == 1
    engine = two_models._workspace.engine("alps")
    promotion = two_models.promote(NAME)
    assert promotion.version.version == 2
    assert promotion.version.aliases == ("champion",)
    engine.follow()
    assert two_models.assess(job).route.version == 2
    assert two_models.show_model(NAME).former_champions == (1,)
    assert two_models.rollback(NAME).version == 1
    engine.follow()
    assert two_models.assess(job).route.version == 1
    with pytest.raises(ForewarnError, match="99"):
        two_models.promote(NAME, 99)
    lines = read_audit(two_models._workspace.config)
    assert [(line.action, line.subject, line.details) for line in lines] == [
        ("model.promote", NAME, {"wanted": "challenger", "version": 2}),
        ("model.rollback", NAME, {"version": 1}),
        ("model.promote", NAME, {"wanted": 99}),
    ]
    assert [line.result.partition(":")[0] for line in lines] == ["done", "done", "refused"]
    assert {(line.user, line.method) for line in lines} == {(getpass.getuser(), "command")}


def test_an_exported_model_is_imported_elsewhere(
    two_models: forewarn.Site, tmp_path: Path, registry_template: Path
) -> None:
    archive = tmp_path / "model.tar.gz"
    assert two_models.export_model(NAME, archive, 2).version == 2
    models = tmp_path / "elsewhere" / "models"
    models.mkdir(parents=True)
    (models / registry_template.name).write_bytes(registry_template.read_bytes())
    with forewarn.open(tmp_path / "elsewhere") as other:
        version = other.import_model(archive)
        assert version is not None
        assert (version.version, version.aliases) == (1, ("champion",))
        assert version.id == two_models.show_model(NAME, 2).version.id


def test_sync_lets_the_registrys_champion_serve_here(two_models: forewarn.Site) -> None:
    pointer = two_models.config.home / "models" / "serving" / f"{NAME}.json"
    pointer.unlink()
    assert two_models.assess(two_models.jobs(limit=1)[0]).route.version is None
    result = two_models.sync_models()
    assert [str(version.name) for version in result.served] == [NAME]
    assert pointer.exists()


def test_one_job_is_assessed_in_full_and_many_in_brief(two_models: forewarn.Site) -> None:
    jobs = two_models.jobs(limit=30)
    brief = two_models.assess(jobs)
    assert [one.job_id for one in brief] == [job.job_id for job in jobs]
    assert not any(one.similar for one in brief)
    assert all(one.failure and 0 < one.failure.probability < 1 for one in brief)
    full = two_models.assess(jobs[-1])
    assert full.similar
    assert two_models.assess([jobs[-1]], full=True)[0].similar
    assert two_models.assess([]) == []


def test_a_script_is_checked(two_models: forewarn.Site, tmp_path: Path) -> None:
    script = tmp_path / "job.sbatch"
    script.write_text(SCRIPT)
    user = two_models.jobs(limit=1)[0].user
    assessment = two_models.check(script, user=user, ask_slurm=False)
    assert (assessment.cluster, assessment.user, assessment.partition) == ("alps", user, "main")
    assert assessment.failure is not None
    longer = two_models.check(script, user=user, ask_slurm=False, options=["--partition=nowhere"])
    assert longer.partition == "nowhere"
    with pytest.raises(UsageError, match="no such file"):
        two_models.check(tmp_path / "missing.sbatch")


def test_an_ended_job_is_explained(site: forewarn.Site, tmp_path: Path) -> None:
    job = site.jobs(state="timeout", limit=1)[0]
    report = site.explain(job.job_id)
    assert (report.cluster, report.job_id) == ("alps", job.job_id)
    assert report.family == "time_limit"
    log = tmp_path / "job.out"
    log.write_text("slurmstepd: error: *** JOB 1 ON n001 CANCELLED AT 2024-01-01 DUE TO TIME LIMIT ***\n")
    assert site.explain(job.job_id, log=log).logs
