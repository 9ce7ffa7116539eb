"""What serves where a model loses to a simple rule is the rule, labelled as such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forewarn.learn.data.split import split
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.baselines import baseline_alarms
from forewarn.learn.evaluation.prequential import predict_static
from forewarn.learn.fitting.fit import fit
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.learn.fitting.train import TrainedModel, train
from forewarn.learn.registry.bundle import Bundle
from forewarn.learn.registry.versions import tags_of
from forewarn.learn.report.wording import headline, warnings

pytestmark = pytest.mark.slow

ONLINE = FitSettings(families=("online",), threads=1)
LABEL = "rule: last outcome of this user with this request"


def with_columns(table: JobTable, rows: np.ndarray, **columns: np.ndarray) -> JobTable:
    values = table.values.copy()
    for name, column in columns.items():
        values[rows, table.names.index(name)] = column
    return replace(table, values=values)


def nearly(fails: np.ndarray, right: float) -> np.ndarray:
    """The outcome itself, most of the time."""
    wrong = np.random.default_rng(0).random(len(fails)) >= right
    return np.where(wrong, 1 - fails, fails)


@pytest.fixture(scope="module")
def knowing_rule(table: JobTable) -> JobTable:
    """A table in which the last outcome of the request tells nearly all, and the regression nothing."""
    rows = np.flatnonzero(table.labelled)
    noise = np.random.default_rng(1).normal(-1, 1, len(rows))
    return with_columns(table, rows, user_request_last=nearly(table.fails[rows], 0.95), online=noise)


def test_a_rule_that_is_clearly_better_on_the_block_before_the_test_stands_in(
    knowing_rule: JobTable, tmp_path: Path
) -> None:
    fitted = fit(knowing_rule, ONLINE, folder=tmp_path)
    assert fitted.rule == "last_user_request"
    predictions = predict_static(knowing_rule, fitted)
    alarms = baseline_alarms(knowing_rule, predictions.rows, fitted.learnt_rows)["last_user_request"]
    assert np.array_equal(predictions.p >= predictions.thresholds, alarms)
    assert predictions.p[alarms].mean() == pytest.approx(
        knowing_rule.fails[predictions.rows][alarms].mean(), abs=0.1
    )
    # The test part has no say in it.
    later = knowing_rule.known_at >= fitted.parts.cuts[2]
    turned = replace(knowing_rule, fails=np.where(later, 1 - knowing_rule.fails, knowing_rule.fails))
    again = fit(turned, ONLINE, folder=tmp_path / "again")
    assert np.array_equal(again.probabilities(turned, predictions.rows), predictions.p)


def test_a_model_that_is_better_stays(table: JobTable, tmp_path: Path) -> None:
    assert fit(table, ONLINE, folder=tmp_path).rule is None


def test_a_model_without_history_is_not_held_to_rules_of_history(table: JobTable, tmp_path: Path) -> None:
    settings = FitSettings(families=("lightgbm",), trials=1, feature_set="restricted", threads=1)
    assert train(table, settings, searches=tmp_path, at=0).bundle.rule is None


@pytest.fixture(scope="module")
def beaten(table: JobTable, tmp_path_factory: pytest.TempPathFactory) -> tuple[JobTable, TrainedModel]:
    """A training whose model is beaten on the test part only."""
    rows = split(table).test
    doctored = with_columns(table, rows, user_request_last=nearly(table.fails[rows], 0.97))
    return doctored, train(doctored, ONLINE, searches=tmp_path_factory.mktemp("searches"), at=0)


def test_a_model_beaten_on_later_jobs_is_replaced_by_the_rule(beaten: tuple[JobTable, TrainedModel]) -> None:
    table, trained = beaten
    assert trained.bundle.rule == "last_user_request"
    assert trained.report["model"]["rule"] == LABEL
    assert trained.report["model"]["instead_of"]["over_baseline"] < 0
    assert trained.report["evaluation"]["over_baseline"]["f1"] == 0
    assert trained.bundle.facts.may_serve
    assert "did not beat it" in str(headline(trained.report))
    assert any(w["level"] == "beware" and LABEL in w["text"] for w in warnings(trained.report))
    rows = split(table).test
    p = trained.bundle.probability(trained.bundle.assembly.matrix(table, rows))
    alarms = baseline_alarms(table, rows, rows)["last_user_request"]
    assert np.array_equal(p >= trained.bundle.chosen.value, alarms)


def test_the_rule_is_saved_and_served_as_any_model(
    beaten: tuple[JobTable, TrainedModel], tmp_path: Path, sample: Callable[..., object]
) -> None:
    table, trained = beaten
    manifest = trained.save(tmp_path / "bundle")
    back = Bundle.load(tmp_path / "bundle")
    assert back.rule == "last_user_request"
    matrix = back.assembly.matrix(table, split(table).test)
    assert np.array_equal(back.probability(matrix), trained.bundle.probability(matrix))
    np.testing.assert_allclose(back.contributions(matrix).sum(axis=1), back.margins(matrix))
    assert tags_of(manifest)["forewarn.rule"] == "last_user_request"
    assert LABEL in (tmp_path / "bundle" / "report.html").read_text()
