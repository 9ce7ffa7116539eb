"""The rules that a model has to beat, on real and on synthetic columns."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.baselines import RULES, baseline_alarms, best_rule
from forewarn.learn.evaluation.metrics import f1

NAN = np.nan


def synthetic_table(fails: list[float]) -> JobTable:
    columns = {
        "user_last": [1, 1, 0, NAN],
        "user_name_last": [0, NAN, NAN, NAN],
        "user_request_last": [0, NAN, 1, NAN],
        "request_last": [1, NAN, NAN, 0],
        "array_last": [NAN, 1, NAN, NAN],
    }
    values = np.array(list(columns.values()), np.float32).T
    at = np.arange(4)
    about = pl.DataFrame({"submit": at})
    return JobTable("made", "submit", "papers", tuple(columns), values, np.array(fails), at, at, about)


@pytest.mark.parametrize(("mostly", "left"), [(0.0, False), (1.0, True)])
def test_each_rule_falls_back_as_its_name_says_and_then_on_the_majority_of_train(
    mostly: float, left: bool
) -> None:
    everything = np.arange(4)
    found = baseline_alarms(synthetic_table([mostly] * 3 + [1 - mostly]), everything, everything)
    assert {name: alarms.tolist() for name, alarms in found.items()} == {
        "majority": [left] * 4,
        "last_user": [True, True, False, left],
        "last_user_name": [False, left, left, left],
        "last_user_request": [False, left, True, left],
        "last_user_request_else_user": [False, True, True, left],
        "last_user_name_else_user": [False, True, False, left],
        "last_request": [True, left, left, False],
        "last_array": [left, True, left, left],
        "last_array_else_request": [True, True, left, False],
    }


def test_the_majority_is_of_train_and_the_alarms_of_the_rows_asked_for() -> None:
    table = synthetic_table([1, 1, 0, 0])
    assert baseline_alarms(table, np.array([3]), np.array([0, 1]))["majority"].tolist() == [True]
    assert baseline_alarms(table, np.array([3]), np.array([2, 3]))["majority"].tolist() == [False]


def test_the_best_is_the_one_with_the_highest_f1() -> None:
    table = synthetic_table([1, 1, 0, 0])
    found = baseline_alarms(table, np.arange(4), np.arange(4))
    assert best_rule(found, table.fails) == "last_user"


def test_on_a_simulated_cluster_the_last_outcome_beats_the_majority(table: JobTable) -> None:
    rows = np.flatnonzero(table.labelled)
    early, late = np.array_split(rows, 2)
    found = baseline_alarms(table, late, early)
    assert list(found) == list(RULES)
    assert all(alarms.dtype == bool and len(alarms) == len(late) for alarms in found.values())
    best = best_rule(found, table.fails[late])
    assert f1(table.fails[late], found[best]) > f1(table.fails[late], found["majority"])
