"""The isolation forest: sklearn's scores without sklearn, ranks that hold, values that are named."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forewarn.errors import BundleError
from forewarn.learn.data.table import JobTable
from forewarn.learn.heads import oddness
from forewarn.learn.heads.oddness import IsolationForest
from forewarn.learn.heads.oddness_columns import COLUMNS, columns_of
from forewarn.learn.heads.unusual_codes import UnusualCode


@pytest.fixture(scope="module")
def forest(table: JobTable) -> IsolationForest:
    forest = IsolationForest.fit(table, np.arange(4_000), seed=3)
    assert forest is not None
    return forest


def changed(table: JobTable, row: int, **features: float) -> JobTable:
    """One job of the table with other values."""
    one = table.rows(np.array([row]))
    values = one.values.copy()
    for name, value in features.items():
        values[0, one.names.index(name)] = value
    return replace(one, values=values)


@pytest.mark.slow
def test_it_scores_as_sklearn_does(table: JobTable, forest: IsolationForest) -> None:
    from sklearn.ensemble import IsolationForest

    raw = columns_of(table, forest.names, np.arange(4_000))
    values = np.where(np.isnan(raw), forest.missing, raw)
    theirs = IsolationForest(n_estimators=oddness.TREES, max_samples=oddness.SAMPLE, random_state=3)
    theirs.fit(values)
    # Their score is -2 to the power of -(mean path length / that of a random tree).
    usual = float(oddness._expected_depth(np.array([oddness.SAMPLE]))[0])
    lengths = -np.log2(-theirs.score_samples(values)) * usual
    ours = forest._lengths(values)
    # Thresholds are kept to five digits: a value that lies on one may fall to the other side.
    assert np.mean(np.abs(ours - lengths) < 1e-3) > 0.98
    np.testing.assert_allclose(ours, lengths, atol=0.3)


def test_ranks_are_shares_of_the_jobs_it_learnt(table: JobTable, forest: IsolationForest) -> None:
    ranks = forest.rarer_than(table.rows(np.arange(4_000)))
    for share in (0.1, 0.5, 0.9, 0.99):
        assert np.mean(ranks <= share) == pytest.approx(share, abs=0.02)


def test_a_slip_of_the_keyboard_is_rare_and_named(table: JobTable, forest: IsolationForest) -> None:
    ranks = forest.rarer_than(table)
    plain = int(np.argsort(ranks)[len(ranks) // 20])  # as usual a job as any, itself at no end of anything
    # A thousand times what the user had before is part of the slip.
    slip = changed(table, plain, cpus=3_000, cpus_per_node=3_000, tasks=3_000, user_cpus_change=10)
    assert ranks[plain] < 0.1
    assert forest.rarer_than(slip)[0] > 0.9
    (cpus,) = (reason for reason in forest.reasons(slip, 0) if reason.code is UnusualCode.CPUS)
    assert cpus.values == {"value": 3000.0, "below": 1.0, "above": 0.0, "jobs": 4_000}
    assert not any("cpus" in reason.code for reason in forest.reasons(table, plain))


def test_a_share_is_no_finer_than_the_jobs_it_rests_on(table: JobTable) -> None:
    few = IsolationForest.fit(table, np.arange(489), seed=3)
    assert few is not None
    ranks = few.rarer_than(table)
    np.testing.assert_allclose(ranks * 489, np.round(ranks * 489), atol=1e-6)
    plain = int(np.argsort(ranks)[len(ranks) // 20])
    slip = changed(table, plain, cpus=30_000, cpus_per_node=30_000, tasks=30_000, user_cpus_change=10)
    (cpus,) = (reason for reason in few.reasons(slip, 0) if reason.code is UnusualCode.CPUS)
    assert cpus.values == {"value": 30_000.0, "below": 1.0, "above": 0.0, "jobs": 489}


def test_json_gives_it_back(table: JobTable, forest: IsolationForest) -> None:
    again = IsolationForest.from_json(json.loads(json.dumps(forest.to_json())))
    np.testing.assert_array_equal(again.rarer_than(table), forest.rarer_than(table))
    assert again.reasons(table, 17) == forest.reasons(table, 17)
    assert (again.names, again.jobs) == (forest.names, 4_000)


def _endless(value: dict[str, Any]) -> None:
    value["trees"][0]["left"][0] = 0


def _nowhere(value: dict[str, Any]) -> None:
    value["trees"][0]["right"][0] = 10**6


def _short(value: dict[str, Any]) -> None:
    value["lengths"] = value["lengths"][:5]


def _unheard_of(value: dict[str, Any]) -> None:
    value["names"][0] = "colour"


def _missing(value: dict[str, Any]) -> None:
    del value["trees"]


@pytest.mark.parametrize("spoil", [_endless, _nowhere, _short, _unheard_of, _missing])
def test_what_is_no_forest_is_refused(spoil: Any, forest: IsolationForest) -> None:
    value = json.loads(json.dumps(forest.to_json()))
    spoil(value)
    with pytest.raises(BundleError, match="train again"):
        IsolationForest.from_json(value)


def test_without_private_columns_nobody_s_history_is_in_it(table: JobTable) -> None:
    forest = IsolationForest.fit(table, np.arange(1_000), seed=1, private=False)
    assert forest is not None
    assert not any(COLUMNS[name].private for name in forest.names)


def test_too_few_jobs_make_no_forest(table: JobTable) -> None:
    assert IsolationForest.fit(table, np.arange(20), seed=1) is None


def test_a_missing_value_is_no_reason_but_does_no_harm(table: JobTable, forest: IsolationForest) -> None:
    empty = changed(table, 0, **dict.fromkeys(("cpus", "memory", "time_limit", "nodes"), np.nan))
    assert 0 <= forest.rarer_than(empty)[0] <= 1
    assert not any("nan" in str(reason.values) for reason in forest.reasons(empty, 0))


@pytest.mark.slow
def test_answering_needs_no_sklearn() -> None:
    code = "import forewarn.learn.heads.oddness, sys; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
