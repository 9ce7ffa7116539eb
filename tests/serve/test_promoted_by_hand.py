"""A model that was promoted against its own report: everything that it says carries the caveat."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from forewarn.features.slurm_field_differences import reading_of, with_slurm_treatments
from forewarn.learn.registry.registry import Registry
from forewarn.store.base import ClusterFacts
from tests.learn.bundles import tiny_bundle
from tests.serve.conftest import Forewarn
from tests.serve.test_live_cli import ANSWERS, NOW, TIMES
from tests.sources.fake_slurmrestd import jwt, serving
from tests.sources.test_slurmrestd import slurmdb_job
from tests.sources.test_slurmrestd_client import jobs, script

pytestmark = pytest.mark.slow

CAVEAT = "lab.submit.generic version 1 serves although its own report found it unfit to serve"


@pytest.mark.parametrize("may_serve", [True, False])
def test_each_answer_says_so(
    may_serve: bool, forewarn: Forewarn, registry_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tiny_bundle()
    reading = reading_of(with_slurm_treatments(ClusterFacts()))  # as the collector sets it
    facts = dataclasses.replace(bundle.facts, cluster="lab", reading=reading, may_serve=may_serve)
    dataclasses.replace(bundle, facts=facts).save(tmp_path / "bundle")
    version = Registry(registry_home).record(tmp_path / "bundle")
    assert version
    assert version.aliases == (("champion",) if may_serve else ("challenger",))
    promoted = forewarn("models", "promote", "lab.submit.generic", "1")
    assert ("its report advises against serving it" in promoted.err) == (not may_serve)
    times = [dict(TIMES, submission=NOW - 900 + n, eligible=NOW - 900 + n) for n in range(250)]
    ended = jobs(*(slurmdb_job(job_id=1000 + n, time=time) for n, time in enumerate(times)))
    batch = tmp_path / "job.sbatch"
    batch.write_text("#!/bin/bash\n#SBATCH --time=10\nhostname\n")
    with serving(script(42, **ANSWERS | {"jobs_db": ended})) as fake:
        monkeypatch.setenv("FOREWARN_SLURMRESTD", fake.address)
        monkeypatch.setenv("SLURM_JWT", jwt(issued=NOW - 10, expires=NOW + 3600))
        assert forewarn("collect", "--once", "--since", "now-1hour").code == 0
        predicted, in_json = forewarn("predict", "8"), forewarn("predict", "8", "--json")
        checked = forewarn("check", "--no-test-only", "-u", "alice", batch)
        checked_json = forewarn("check", "--no-test-only", "-u", "alice", "--json", batch)
    assert "lab.submit.generic version 1" in checked.out
    assert (CAVEAT in predicted.err.replace("\n", " ")) == (not may_serve)
    assert (CAVEAT in checked.out) == (not may_serve)
    for route in (in_json.json[0]["route"], checked_json.json["route"]):
        assert (route["caveat"] is None) == may_serve
