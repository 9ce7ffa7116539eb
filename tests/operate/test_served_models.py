"""Which models serve, and how good they are, from pointers and bundles alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from forewarn.config import Config
from forewarn.errors import UsageError
from forewarn.learn.registry.serving import ModelName, Serving
from forewarn.learn.report import JSON_NAME
from forewarn.operate.served_models import list_served_models, model_figures
from forewarn.operate.workspace import Workspace
from tests.assess.served import damage, promote, small_bundle

REPORT: Mapping[str, Any] = {
    "verdict": "Warns of 50% of the failures",
    "warnings": [{"level": "beware", "text": "Few decisions."}],
    "data": {"blocks": {"test": {"from": "2024-02-27T09:59:36+00:00", "to": "2024-03-08T10:53:17+00:00"}}},
    "evaluation": {
        "intervals": {"roc_auc": [0.7, 0.8], "f1_over_baseline": [-0.01, 0.07], "pr_auc": None},
        "over_baseline": {"baseline": "last_request", "f1": 0.03},
        "baselines": {"last_request": {"f1": 0.49}},
    },
}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(Config(home=tmp_path))


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    return Serving(tmp_path / "models")


def promote_with_report(serving: Serving, report: object) -> Path:
    """Let a bundle with a report serve."""
    bundle = small_bundle(metrics={"n": 345, "roc_auc": 0.76, "f1": 0.52, "ece": 0.02, "base_rate": 0.13})
    folder = serving.copy_of("new")

    def write(place: Path, _: object) -> None:
        (place / JSON_NAME).write_text(json.dumps(report))

    manifest = bundle.save(folder, write)
    copy = folder.rename(serving.copy_of(manifest.id))
    serving.point(ModelName.of(bundle.facts), 5, manifest.id)
    return copy


def test_figures_come_from_the_bundle_and_its_report(workspace: Workspace, serving: Serving) -> None:
    promote_with_report(serving, REPORT)
    found = list_served_models(workspace)
    (value,) = json.loads(json.dumps(found.to_json()))["models"]
    assert (value["model"], value["version"], value["may_serve"]) == ("alps.submit.generic", 5, True)
    assert (value["metrics"]["roc_auc"], value["metrics"]["ece"], value["tested_on"]["jobs"]) == (
        0.76,
        0.02,
        345,
    )
    assert value["metrics"]["pr_auc"] is None, "not measured"
    assert value["intervals"] == {"roc_auc": [0.7, 0.8]}
    compared = value["compared_with"]
    assert (compared["rule"], compared["f1"], compared["gain"]) == ("last_request", 0.49, 0.03)
    assert compared["interval"] == [-0.01, 0.07]
    assert value["tested_on"]["from"] == 1709027976
    assert value["trained_on"]["jobs"] == small_bundle().jobs
    assert value["warnings"] == ["Few decisions."]


def test_a_bundle_without_a_report_and_one_against_its_report(workspace: Workspace, serving: Serving) -> None:
    promote(serving, small_bundle(), 1)
    promote(serving, small_bundle(2, feature_set="restricted", may_serve=False), 2)
    promote(serving, small_bundle(3, cluster="jura"), 4)
    found = list_served_models(workspace, "alps")
    assert [(str(one.served.name), one.facts.may_serve) for one in found.models] == [
        ("alps.submit.generic", True),
        ("alps.submit.restricted", False),
    ]
    assert (found.models[0].compared, found.models[0].tested, found.models[0].verdict) == (None, None, None)
    assert len(list_served_models(workspace).models) == 3


@pytest.mark.parametrize("report", [[], {"evaluation": []}, {"data": {"blocks": {"test": {"from": "x"}}}}])
def test_a_damaged_bundle_is_named_and_hides_no_other(
    workspace: Workspace, serving: Serving, report: object
) -> None:
    promote(serving, small_bundle(7, feature_set="restricted"), 2)
    promote_with_report(serving, report)
    found = list_served_models(workspace)
    assert [one.served.name.feature_set for one in found.models] == ["restricted"]
    assert list(found.damaged) == ["alps.submit.generic"]


def test_a_bundle_whose_files_were_changed_does_not_serve(workspace: Workspace, serving: Serving) -> None:
    promote(serving, small_bundle(7, feature_set="restricted"), 2)
    damage(promote(serving, small_bundle(), 5))
    found = list_served_models(workspace)
    assert [one.served.version for one in found.models] == [2]
    assert "was changed after it was written" in found.damaged["alps.submit.generic"]


def test_an_empty_home_has_none(workspace: Workspace, serving: Serving) -> None:
    assert list_served_models(workspace).to_json() == {"models": [], "damaged": {}}
    with pytest.raises(UsageError, match="none yet"):
        model_figures(serving, ModelName("alps", "submit", "generic"))


def test_the_next_promotion_is_noticed(workspace: Workspace, serving: Serving) -> None:
    promote(serving, small_bundle(), 1)
    assert list_served_models(workspace).models[0].served.version == 1
    promote(serving, small_bundle(2), 2)
    assert list_served_models(workspace).models[0].served.version == 2
