"""The model of a stored assessment, with and without a version."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from forewarn.assess.assessment import Assessment, Route, Verdict
from forewarn.assess.codes import SummaryCode
from forewarn.config import Config
from forewarn.evidence import Statement
from forewarn.operate.job_rows import stored_model
from forewarn.operate.predict import save_assessments
from forewarn.store.base import ClusterFacts
from forewarn.store.opening import open_store

ASKED = Assessment(
    cluster="alps",
    job_id="1",
    submit=1_700_000_000,
    user="ann",
    name="fit",
    partition="main",
    made_at=1_700_000_000,
    phase="submit",
    state="PENDING",
    verdict=Verdict.CANNOT_SAY,
    summary=Statement(SummaryCode.ENDED),
    route=Route(model="online", version=None, phase="submit", feature_set=None),
)


def test_a_model_without_a_version_is_written_by_its_name(tmp_path: Path) -> None:
    versioned = replace(ASKED, job_id="2", route=replace(ASKED.route, model="alps.submit.generic", version=3))
    none = replace(ASKED, job_id="3", route=replace(ASKED.route, model=None))
    with open_store(Config(home=tmp_path)) as store:
        with store.writing() as writer:
            writer.describe_cluster("alps", ClusterFacts())
        save_assessments(store, [ASKED, versioned, none])
        found = store.assessments(cluster="alps", columns=["job_id", "model"]).sort("job_id")
    assert found["model"].to_list() == ["online", "alps.submit.generic/3", "none"]


def test_rows_of_earlier_versions_are_read_so_too() -> None:
    texts = ("online/None", "online", "alps.submit.generic/3", "none", None)
    assert [stored_model(text) for text in texts] == ["online", "online", "alps.submit.generic/3", None, None]
