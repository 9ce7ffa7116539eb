"""Thresholds that operators set are in force in every process, have an audit line, and show their effect."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread

import polars as pl
import pytest

import forewarn
from forewarn.assess.champions import Champions
from forewarn.config import Config
from forewarn.errors import BundleError, UsageError
from forewarn.features.slurm_field_differences import reading_of
from forewarn.job.record import Job
from forewarn.learn.registry.operator_thresholds import FILE, OperatorThresholds
from forewarn.learn.registry.serving import ModelName, Serving
from forewarn.operate.access.audit import audit_lines
from forewarn.operate.access.identity import Identity, Role
from forewarn.operate.thresholds import (
    check_threshold,
    list_thresholds,
    mirror_thresholds,
    preview_threshold,
    reset_threshold,
    set_threshold,
)
from forewarn.operate.workspace import Workspace
from forewarn.store.opening import open_people_store
from tests.assess.served import promote, small_bundle
from tests.operate.job_homes import write_assessments, write_jobs

NOW = int(time.time())
DAY = 86400
MODEL = "alps.submit.generic"
NAME = ModelName.parse(MODEL)
OLGA, OMAR = (Identity(user=user, role=Role.OPERATOR) for user in ("olga", "omar"))


def ended(number: int, user: str = "ann", **fields: object) -> Job:
    submit = NOW - 20 * DAY + 600 * number
    values: dict[str, object] = {
        "partition": "gpu" if number % 2 else "main",
        "outcome": "failed" if number % 3 == 0 else "completed",
        "start": submit + 10,
        "end": submit + 60,
        "cpus_asked": 4,
        "time_limit": 3600,
    }
    return Job(cluster="alps", job_id=str(number), submit=submit, user=user, **{**values, **fields})  # type: ignore[arg-type]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with 300 jobs of a cluster and a model that serves it."""
    home = tmp_path / "home"
    with Workspace(Config(home=home)) as workspace:
        store = workspace.writing()
        write_jobs(store, map(ended, range(300)))
        reading = reading_of(store.clusters()["alps"])
    promote(Serving(home / "models"), small_bundle(reading=reading), 3)
    return home


@pytest.fixture
def workspace(home: Path) -> Iterator[Workspace]:
    with Workspace(Config(home=home)) as opened:
        yield opened


@pytest.fixture
def site(home: Path) -> Iterator[forewarn.Site]:
    with forewarn.open(home) as opened:
        yield opened


def own_threshold() -> float:
    return small_bundle().chosen.value


def keep(workspace: Workspace, probabilities: dict[int, float], version: int = 3) -> None:
    """Save one assessment of the model for each of some jobs."""
    write_assessments(
        workspace.writing(),
        (
            {"cluster": "alps", "job_id": str(n), "submit": ended(n).submit, "model": f"{MODEL}/{version}"}
            | {"made_at": ended(n).submit + 1, "probability": p, "threshold": 0.5}
            for n, p in probabilities.items()
        ),
    )


def test_without_any_the_bundles_own_is_listed(workspace: Workspace) -> None:
    (setting,) = list_thresholds(workspace)
    assert (setting.model, setting.partition, setting.is_set) == (NAME, None, False)
    assert setting.value == setting.own == own_threshold()
    assert json.loads(json.dumps(setting.to_json()))["threshold"] == own_threshold()
    assert list_thresholds(workspace, "jura") == ()


def test_a_threshold_is_set_and_reset_with_who_and_why(workspace: Workspace) -> None:
    change = set_threshold(workspace, MODEL, 0.2, by=OLGA, reason="too many missed", at=NOW)
    assert (change.before, change.after) == (own_threshold(), 0.2)
    set_threshold(workspace, MODEL, 0.7, by=OLGA, partition="gpu", at=NOW + 1)
    whole, gpu = list_thresholds(workspace)
    assert (whole.value, whole.set_by, whole.reason, whole.set_at) == (0.2, "olga", "too many missed", NOW)
    assert (gpu.partition, gpu.value, gpu.set_for_version) == ("gpu", 0.7, 3)
    reset = reset_threshold(workspace, MODEL, by=OMAR, partition="gpu", at=NOW + 2)
    assert (reset.before, reset.after) == (0.7, 0.2), "the model's is in force again"
    reset_threshold(workspace, MODEL, by=OMAR, at=NOW + 3)
    assert [setting.is_set for setting in list_thresholds(workspace)] == [False]
    with open_people_store(workspace.config) as people:
        lines = audit_lines(people)
    gpu_subject = f"{MODEL} in partition gpu"
    assert sorted((line.user, line.action, line.subject) for line in lines) == [
        ("olga", "set-threshold", MODEL),
        ("olga", "set-threshold", gpu_subject),
        ("omar", "reset-threshold", MODEL),
        ("omar", "reset-threshold", gpu_subject),
    ]
    changes = [dict(line.details or {}) for line in lines if line.subject == gpu_subject]
    assert {"before": 0.2, "after": 0.7, "reason": None} in changes
    assert {"before": 0.7, "after": None, "reason": None} in changes
    assert {line.role for line in lines} == {"operator"}


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf"), True, "0.5", None])
def test_what_is_no_probability_is_refused(workspace: Workspace, value: object) -> None:
    with pytest.raises(UsageError, match="from 0 to 1"):
        check_threshold(value)
    with pytest.raises(UsageError, match="from 0 to 1"):
        set_threshold(workspace, MODEL, value, by=OLGA)  # type: ignore[arg-type]
    with open_people_store(workspace.config) as people:
        assert people.entries("audit") == []


def test_unknown_models_and_partitions_are_refused_by_name(workspace: Workspace) -> None:
    with pytest.raises(UsageError, match=r"no model alps.start.generic serves.*alps.submit.generic"):
        set_threshold(workspace, "alps.start.generic", 0.5, by=OLGA)
    with pytest.raises(UsageError, match="not a model's name"):
        set_threshold(workspace, "alps", 0.5, by=OLGA)
    with pytest.raises(UsageError, match="no partition 'x; DROP'; choose from gpu, main"):
        set_threshold(workspace, MODEL, 0.5, by=OLGA, partition="x; DROP")
    with pytest.raises(UsageError, match=r"no threshold is set for alps\.submit\.generic for partition gpu"):
        reset_threshold(workspace, MODEL, by=OLGA, partition="gpu")
    with pytest.raises(UsageError, match="at most 500"):
        set_threshold(workspace, MODEL, 0.5, by=OLGA, reason="x" * 501)
    with pytest.raises(UsageError, match="name the user"):
        set_threshold(workspace, MODEL, 0.5, by=Identity(user=""))


@pytest.mark.slow
def test_risk_alert_and_verdict_follow_in_a_long_lived_process(site: forewarn.Site) -> None:
    """Within a second or so, without opening anything anew; per partition, the lowest of several."""
    jobs = [
        Job(cluster="alps", job_id=f"9{i}", submit=NOW, user="ann", partition=partition, cpus_asked=4)
        for i, partition in enumerate(("main", "gpu", "main,gpu"))
    ]
    first = site.assess(jobs)
    assert {one.failure.threshold for one in first if one.failure} == {own_threshold()}
    set_threshold(site._workspace, MODEL, 1.0, by=OLGA)
    set_threshold(site._workspace, MODEL, 0.0, by=OLGA, partition="gpu")
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        after = [one.failure for one in site.assess(jobs)]
        if [one.threshold for one in after if one] == [1.0, 0.0, 0.0]:
            break
        time.sleep(0.1)
    assert [(one.threshold, one.warns) for one in after if one] == [(1.0, False), (0.0, True), (0.0, True)]
    assert [one.probability for one in after if one] == [
        one.failure.probability for one in first if one.failure
    ]
    assert site.assess(jobs[1]).verdict in ("warning", "likely_to_fail")


def test_a_one_shot_command_takes_it_at_once(home: Path, workspace: Workspace) -> None:
    set_threshold(workspace, MODEL, 0.01, by=OLGA, partition="gpu")
    champion = Champions("alps", Serving(home / "models")).get("submit", "generic")
    assert champion is not None
    assert (champion.threshold("gpu"), champion.threshold("main")) == (0.01, own_threshold())
    assert champion.threshold(None) == own_threshold()


def test_a_reader_without_people_db_agrees(home: Path, workspace: Workspace) -> None:
    set_threshold(workspace, MODEL, 0.3, by=OLGA)
    people = home / "people.db"
    assert people.stat().st_mode & 0o077 == 0
    people.rename(home / "away")
    people.mkdir()  # cannot be opened
    (setting,) = list_thresholds(workspace)
    assert (setting.value, setting.is_set, setting.set_by) == (0.3, True, None)
    champion = Champions("alps", Serving(home / "models")).get("submit", "generic")
    assert champion is not None
    assert champion.threshold("gpu") == 0.3


def test_it_stays_when_another_version_is_promoted_and_is_marked(home: Path, workspace: Workspace) -> None:
    set_threshold(workspace, MODEL, 0.3, by=OLGA)
    before = Champions("alps", Serving(home / "models"))
    promote(Serving(home / "models"), small_bundle(2, reading={}), 4)
    (setting,) = list_thresholds(workspace)
    assert (setting.value, setting.version, setting.is_of_another_version) == (0.3, 4, True)
    champion = before.refreshed().get("submit", "generic")
    assert champion is not None
    assert (champion.version, champion.threshold("main")) == (4, 0.3)


def test_a_damaged_file_leaves_the_last_thresholds_in_force_and_is_repaired(
    home: Path, workspace: Workspace
) -> None:
    set_threshold(workspace, MODEL, 0.3, by=OLGA)
    champions = Champions("alps", Serving(home / "models"))
    file = home / "models" / "serving" / FILE
    file.write_text('{"format": 1, "thresholds": [{"model": ["alps"], "value": 2}]}')
    assert champions.refreshed() is champions
    fresh = Champions("alps", Serving(home / "models")).get("submit", "generic")
    assert fresh is not None
    assert fresh.threshold(None) == own_threshold(), "fail open: the bundle's own"
    with pytest.raises(BundleError, match="forewarn thresholds repair"):
        list_thresholds(workspace)
    assert mirror_thresholds(workspace)
    assert not mirror_thresholds(workspace)
    assert list_thresholds(workspace)[0].value == 0.3


def test_two_who_set_at_once_both_stand(home: Path) -> None:
    def put(partition: str) -> None:
        with Workspace(Config(home=home)) as one:
            for n in range(5):
                set_threshold(one, MODEL, n / 10, by=OLGA, partition=partition)

    threads = [Thread(target=put, args=(partition,)) for partition in ("gpu", "main")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert OperatorThresholds.read(home / "models").of[NAME] == {"gpu": 0.4, "main": 0.4}


def test_the_effect_counts_the_last_months_alerts(workspace: Workspace) -> None:
    # Jobs 0, 3, 6, … failed. Of gpu (odd numbers): 3 and 9 failed, 5 and 7 did not.
    keep(workspace, {3: 0.9, 5: 0.6, 7: 0.2, 9: 0.3, 6: 0.8, 8: 0.1})
    change = preview_threshold(workspace, MODEL, 0.25, partition="gpu", at=NOW)
    effect = change.effect
    assert (effect.jobs, effect.ended, effect.failed) == (4, 4, 2)
    assert (effect.after.alerts, effect.after.right) == (3, 2)
    assert effect.after.precision == pytest.approx(2 / 3)
    assert effect.after.recall == 1.0
    assert effect.after.alerts_a_day == pytest.approx(3 / effect.days)
    assert effect.after.precision_interval is not None
    assert effect.after.precision_interval[0] < 2 / 3 < effect.after.precision_interval[1]
    assert [setting.is_set for setting in list_thresholds(workspace)] == [False], "it was only a preview"
    set_threshold(workspace, MODEL, 0.25, by=OLGA, partition="gpu", at=NOW)
    whole = set_threshold(workspace, MODEL, 0.5, by=OLGA, at=NOW).effect
    assert (whole.jobs, whole.after.alerts, whole.after.right) == (2, 1, 1), "gpu has its own"


def test_the_effect_is_empty_without_assessments_and_ignores_other_models(workspace: Workspace) -> None:
    empty = preview_threshold(workspace, MODEL, 0.5, at=NOW).effect
    assert (empty.jobs, empty.after.alerts_a_day, empty.after.precision) == (0, None, None)
    keep(workspace, {3: 0.9})
    rows = workspace.reading().assessments().with_columns(model=pl.lit("alps.submit.genericx/3"))
    with workspace.writing().writing() as writer:
        writer.keep_assessments(rows.with_columns(job_id=pl.lit("5"), submit=pl.lit(ended(5).submit)))
    assert preview_threshold(workspace, MODEL, 0.5, at=NOW).effect.jobs == 1
    assert json.loads(json.dumps(empty.to_json()))["after"]["recall_interval"] is None


def test_the_file_is_shared_as_the_pointers_are(home: Path, workspace: Workspace) -> None:
    set_threshold(workspace, MODEL, 0.25, by=OLGA, reason="secret reason")
    file = home / "models" / "serving" / FILE
    pointer = next(path for path in file.parent.glob("*.json") if path != file)
    assert file.stat().st_mode == pointer.stat().st_mode
    assert "olga" not in file.read_text()
    assert "secret" not in file.read_text()
    assert [str(name) for name in Serving(home / "models").names()] == [MODEL], "it is no pointer"


def test_the_override_of_a_refused_update_is_kept(home: Path, workspace: Workspace) -> None:
    """An instance answers alike to its end; only `refreshed` returns other thresholds."""
    champions = Champions("alps", Serving(home / "models"))
    loaded = champions.get("submit", "generic")
    set_threshold(workspace, MODEL, 0.25, by=OLGA)
    assert champions.get("submit", "generic") is loaded
    again = champions.refreshed().get("submit", "generic")
    assert loaded is not None
    assert again is not None
    assert again.bundle is loaded.bundle, "the model is not loaded again"
    assert replace(again, thresholds={}) == replace(loaded, thresholds={})
