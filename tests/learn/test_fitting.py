"""A fit uses only what was known before the test block."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forewarn.errors import LearningError, NotEnoughError, UsageError
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import JobTable, read_table
from forewarn.learn.evaluation.benchmark import benchmark, figures
from forewarn.learn.evaluation.prequential import predict_retrained, predict_static
from forewarn.learn.fitting.fit import fit
from forewarn.learn.fitting.fit_result import FitResult
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.learn.fitting.train import train
from forewarn.store.base import Store

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_ray")]

SETTINGS = FitSettings(families=("xgboost", "online"), trials=2, deterministic=True, threads=1)
ONLINE = FitSettings(families=("online",))
DAY = 86_400


@pytest.fixture(scope="module")
def fitted(one_ray: None, table: JobTable, tmp_path_factory: pytest.TempPathFactory) -> FitResult:
    return fit(table, SETTINGS, folder=tmp_path_factory.mktemp("search"))


def rewritten(table: JobTable, later: np.ndarray) -> JobTable:
    """The same jobs, but some ended otherwise."""
    return dataclasses.replace(table, fails=np.where(later, 1 - table.fails, table.fails))


def test_the_test_part_has_no_say(table: JobTable, fitted: FitResult, tmp_path: Path) -> None:
    """With every outcome that was not known at the last cut turned round, the model is the same."""
    unknown = table.known_at >= fitted.parts.cuts[2]
    assert unknown.sum() > 500
    again = fit(rewritten(table, unknown), SETTINGS, folder=tmp_path)
    rows = fitted.parts.test
    assert np.array_equal(fitted.probabilities(table, rows), again.probabilities(table, rows))
    assert fitted.threshold.value == again.threshold.value
    # And the proof can fail: an outcome that was known does change it.
    known = rewritten(table, (table.submit >= fitted.parts.cuts[1]) & (table.known_at < fitted.parts.cuts[2]))
    other = fit(known, ONLINE, folder=tmp_path / "other")
    assert other.calibration != fit(table, ONLINE, folder=tmp_path / "one").calibration


def test_a_model_is_better_than_chance_on_jobs_to_come(table: JobTable, fitted: FitResult) -> None:
    found = benchmark_of(table, fitted)
    assert found["roc_auc"] > 0.65
    assert found["intervals"]["roc_auc"][0] > 0.6


def benchmark_of(table: JobTable, fitted: FitResult) -> dict[str, Any]:
    return figures(table, fitted, predict_static(table, fitted), seed=0)


def test_a_retrained_model_knows_only_what_was_known_when_it_was_trained(
    table: JobTable, fitted: FitResult
) -> None:
    predictions = predict_retrained(table, fitted, SETTINGS, every=DAY)
    begin = fitted.parts.cuts[2] + 2 * DAY
    early = table.submit[predictions.rows] < begin
    assert 0 < early.sum() < len(early)
    again = predict_retrained(rewritten(table, table.known_at >= begin), fitted, SETTINGS, every=DAY)
    assert np.array_equal(predictions.p[early], again.p[early])
    assert np.array_equal(predictions.thresholds[early], again.thresholds[early])
    assert not np.array_equal(predictions.p[~early], again.p[~early])
    assert predictions.retrained == len(
        np.unique((table.submit[predictions.rows] - fitted.parts.cuts[2]) // DAY)
    )


def test_the_online_family_needs_no_search(table: JobTable, tmp_path: Path) -> None:
    model = fit(table, ONLINE, folder=tmp_path)
    assert model.search is None
    assert [recipe.family for _, recipe in model.recipes] == ["online"]
    assert benchmark_of(table, model)["roc_auc"] > 0.6


def test_online_without_history_features(table: JobTable, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs features of history"):
        fit(table, dataclasses.replace(ONLINE, feature_set="restricted"), folder=tmp_path)


@pytest.mark.parametrize("how", ["weights", "smote", "active"])
def test_every_way_to_balance_makes_a_calibrated_model(table: JobTable, tmp_path: Path, how: str) -> None:
    settings = FitSettings(families=("xgboost",), trials=1, imbalance=how, threads=1)
    model = fit(table, settings, folder=tmp_path)
    found = benchmark_of(table, model)
    assert found["roc_auc"] > 0.6
    assert found["ece"] < 0.12  # a balanced sample has half its jobs fail: uncorrected it would be far off
    assert (model.active is not None) == (how == "active")
    if how == "active":
        assert len(model.left_out)
        assert not set(model.learnt_rows) & set(model.left_out)
        assert set(model.held_out) & set(model.learnt_rows)  # what is newer than the choice is learnt from
        assert predict_retrained(table, model, settings, every=30 * DAY).retrained == 1


def test_a_rule_that_was_asked_for_is_followed_in_time(table: JobTable, fitted: FitResult) -> None:
    careful = predict_retrained(
        table, fitted, dataclasses.replace(SETTINGS, threshold="precision=0.9"), every=DAY
    )
    plain = predict_retrained(table, fitted, SETTINGS, every=DAY)
    assert np.array_equal(careful.p, plain.p)
    assert np.median(careful.thresholds) > np.median(plain.thresholds)


def test_phases_are_judged_on_the_same_jobs_and_posthoc_is_labelled(
    cluster: tuple[Store, str], tmp_path: Path
) -> None:
    store, name = cluster

    def read(phase: str) -> JobTable:
        return read_table(store, name, phase, POPULATIONS["papers"])

    found = benchmark(read, ("submit", "start", "posthoc"), ONLINE, searches=tmp_path)
    assert list(found) == ["submit", "start", "posthoc"]
    assert found["start"]["submit_on_these_jobs"]["n"] == found["start"]["n"] < found["submit"]["n"]
    assert "never served" in found["posthoc"]["protocol"]
    assert set(found["submit"]["baselines"]) == {
        *("majority", "last_user", "last_user_name", "last_user_request"),
        *("last_user_request_else_user", "last_user_name_else_user"),
        *("last_request", "last_array", "last_array_else_request"),
    }


def test_a_posthoc_model_cannot_be_trained(cluster: tuple[Store, str], tmp_path: Path) -> None:
    table = read_table(*cluster, "posthoc", POPULATIONS["papers"])
    with pytest.raises(LearningError, match="known only after the end of a job"):
        train(table, ONLINE, searches=tmp_path, at=0)


def test_all_features_missing(table: JobTable, tmp_path: Path) -> None:
    empty = dataclasses.replace(table, values=np.full_like(table.values, np.nan))
    with pytest.raises(NotEnoughError, match="empty here"):
        fit(empty, SETTINGS, folder=tmp_path)


def test_balancing_counts_in_what_chooses_trials_too(table: JobTable, tmp_path: Path) -> None:
    """At the true rate, log loss would stop a balanced model for following its settings."""
    losses = {}
    for how in ("none", "weights"):
        settings = FitSettings(families=("lightgbm",), trials=1, imbalance=how, threads=1)
        model = fit(table, settings, folder=tmp_path / how)
        assert model.search is not None
        (trial,) = model.search.trials
        assert trial.loss is not None
        losses[how] = trial.loss
    # A model that knows nothing has a log loss of ln 2 where both classes weigh the same.
    assert losses["none"] < 0.55 < losses["weights"] < np.log(2)


def test_online_cannot_be_balanced(table: JobTable, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no train block to balance"):
        fit(table, dataclasses.replace(ONLINE, imbalance="smote"), folder=tmp_path)


def test_a_restricted_model_speaks_of_new_users(table: JobTable, tmp_path: Path) -> None:
    settings = FitSettings(families=("lightgbm",), trials=1, feature_set="restricted", threads=1)
    model = fit(table, settings, folder=tmp_path)
    new = np.flatnonzero(table.column("user_ended") == 0)
    assert len(new)
    assert not model.abstention.history
    assert not model.abstention.abstains({name: table.column(name)[new] for name in table.names}).any()


def test_the_model_of_starts_learns_jobs_that_wait_as_it_serves_them(start_table: JobTable) -> None:
    """They have neither nodes nor anything given, which a model has to have seen missing."""
    assert start_table.pending_features is not None
    rows, _ = start_table.pending_features
    learnt = start_table.for_training()
    assert 0.2 < len(rows) / (start_table.column("wait") > 0).sum() < 0.8
    for name in ("cpus_given", "node_rate_mean"):
        assert np.isnan(learnt.column(name)[rows]).all()
    others = np.setdiff1d(np.arange(len(learnt.values)), rows)
    np.testing.assert_array_equal(learnt.values[others], start_table.values[others])
    assert (learnt.column("wait")[rows] < start_table.column("wait")[rows]).all()
    assert (start_table.column("cpus_given")[rows] > 0).any(), "it is judged on starts as they were"
