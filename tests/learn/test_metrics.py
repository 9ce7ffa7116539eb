"""Every measure against scikit-learn's, ties, weights and single classes included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import metrics as theirs

from forewarn.learn.evaluation.metrics import (
    ECE_BINS,
    ScoredPredictions,
    at_threshold,
    calibration_bins,
    f1,
    log_losses,
    ranking,
)
from tests.learn.oracles import best_f1

pytestmark = pytest.mark.slow


@st.composite
def judged_rows(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outcomes of both classes, predictions of few values (many ties), weights as a bootstrap gives them."""
    n = draw(st.integers(2, 60))
    fails = draw(arrays(np.float64, n, elements=st.sampled_from([0.0, 1.0])))
    fails[:2] = 0.0, 1.0
    p = draw(arrays(np.float64, n, elements=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5000001, 0.9, 1.0])))
    weights = draw(arrays(np.float64, n, elements=st.sampled_from([0.0, 1.0, 2.0, 5.0])))
    weights[:2] = weights[:2].clip(1)
    return fails, p, weights


@given(judged_rows())
def test_ranking_measures_are_those_of_scikit_learn(rows: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    fails, p, weights = rows
    scored = ScoredPredictions(fails, p)
    for w in (None, weights):
        assert scored.roc_auc(w) == pytest.approx(theirs.roc_auc_score(fails, p, sample_weight=w))
        assert scored.pr_auc(w) == pytest.approx(theirs.average_precision_score(fails, p, sample_weight=w))
        assert scored.brier(w) == pytest.approx(theirs.brier_score_loss(fails, p, sample_weight=w))
    inside = np.clip(p, 0.01, 0.99)
    assert ScoredPredictions(fails, inside).log_loss(weights) == pytest.approx(
        theirs.log_loss(fails, inside, sample_weight=weights)
    )


@given(judged_rows())
def test_measures_at_a_threshold_are_those_of_scikit_learn(
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    fails, p, weights = rows
    alarms = p >= 0.5
    ours = at_threshold(fails, alarms)
    assert ours["accuracy"] == pytest.approx(theirs.accuracy_score(fails, alarms))
    for label, of_class in ((1, ours), (0, ours["completed"])):
        expected = theirs.precision_recall_fscore_support(
            fails, alarms, labels=[label], average="macro", zero_division=0.0
        )
        assert [of_class[name] for name in ("precision", "recall", "f1")] == pytest.approx(expected[:3])
    (tn, fp), (fn, tp) = theirs.confusion_matrix(fails, alarms, labels=[0, 1])
    assert ours["confusion"] == {"tp": tp, "fp": fp, "fn": fn, "tn": tn}
    assert f1(fails, alarms, weights) == pytest.approx(
        theirs.f1_score(fails, alarms, sample_weight=weights, zero_division=0.0)
    )


@given(judged_rows())
def test_whole_weights_are_repeated_rows(rows: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    fails, p, weights = rows
    times = weights.astype(int)
    repeated = ScoredPredictions(np.repeat(fails, times), np.repeat(p, times))
    scored = ScoredPredictions(fails, p)
    for measure in ("roc_auc", "pr_auc", "brier", "ece", "log_loss"):
        assert getattr(scored, measure)(weights) == pytest.approx(getattr(repeated, measure)())


@given(judged_rows())
def test_no_threshold_has_a_higher_f1_than_the_best(rows: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    fails, p, _ = rows
    best = best_f1(fails, p)
    assert all(f1(fails, p >= other) <= f1(fails, p >= best) for other in (0.0, *p))


@given(judged_rows())
def test_ece_is_what_the_bins_of_the_figure_show(rows: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    fails, p, _ = rows
    bins = calibration_bins(fails, p)
    assert sum(b["n"] for b in bins) == len(p)
    assert all(b["low"] - 1e-12 <= b["mean_p"] <= b["high"] + 1e-12 for b in bins)
    shown = sum(b["n"] * abs(b["failed"] - b["mean_p"]) for b in bins) / len(p)
    assert ranking(fails, p)["ece"] == pytest.approx(shown)
    assert len(bins) <= ECE_BINS


@pytest.mark.parametrize("only", [0.0, 1.0])
def test_with_one_class_ranking_is_undefined_and_nothing_else_is(only: float) -> None:
    figures = ranking(np.full(5, only), np.linspace(0.1, 0.9, 5))
    assert figures["roc_auc"] is None
    assert figures["pr_auc"] is None
    assert figures["n"] == 5
    assert figures["base_rate"] == only
    assert all(figures[name] is not None for name in ("brier", "ece", "log_loss"))


def test_no_alarm_has_precision_zero_and_no_failure_recall_zero() -> None:
    silent = at_threshold(np.array([1.0, 0.0]), np.array([False, False]))
    assert (silent["precision"], silent["recall"], silent["f1"]) == (0.0, 0.0, 0.0)
    peaceful = at_threshold(np.zeros(2), np.array([True, False]))
    assert (peaceful["recall"], peaceful["f1"], peaceful["accuracy"]) == (0.0, 0.0, 0.5)


def test_a_certainty_that_was_wrong_is_costly_but_finite() -> None:
    assert np.isfinite(log_losses(np.array([1.0, 0.0]), np.array([0.0, 1.0]))).all()
