"""The input columns of a model, built from a table."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from forewarn.errors import NotEnoughError
from forewarn.features.kernel import layout
from forewarn.learn.data.assembly import Assembly
from forewarn.learn.data.encoders import Encoders
from forewarn.learn.data.job_details import POSTHOC_COLUMNS
from forewarn.learn.data.split import split
from forewarn.learn.data.table import JobTable
from forewarn.learn.heads.profiles import Profiles

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows(table: JobTable) -> np.ndarray:
    return split(table).train


def test_a_restricted_model_sees_no_identity_and_no_history(table: JobTable, rows: np.ndarray) -> None:
    private = {feature.name for feature in layout.FEATURES if feature.private}
    assert private & set(Assembly.fit(table, rows, "generic").features)
    assert not private & set(Assembly.fit(table, rows, "restricted").features)


def test_no_column_counts_the_jobs_of_a_user(table: JobTable, rows: np.ndarray) -> None:
    assert not [name for name in Assembly.fit(table, rows, "generic").features if name.endswith("_ended")]


def test_constant_columns_are_left_out(table: JobTable, rows: np.ndarray) -> None:
    assembly = Assembly.fit(table, rows, "generic")
    values = assembly.matrix(table, rows).values[:, : len(assembly.features)]
    for name, column in zip(assembly.features, values.T, strict=True):
        assert len(np.unique(column[np.isfinite(column)])) + np.isnan(column).any() > 1, name


def test_a_set_that_the_source_cannot_fill(table: JobTable, rows: np.ndarray) -> None:
    empty = JobTable(
        table.cluster, table.phase, table.population, table.names, np.full_like(table.values, np.nan),
        table.fails, table.known_at, table.at, table.about,
    )  # fmt: skip
    with pytest.raises(NotEnoughError, match="`swf` is empty here"):
        Assembly.fit(empty, rows, "swf")


def test_a_new_partition_is_missing(table: JobTable, rows: np.ndarray) -> None:
    assembly = Assembly.fit(table, rows, "generic")
    assert "partition" in assembly.encoders.categories
    matrix = assembly.matrix(table, rows[:5])
    assert np.isfinite(matrix.columns(("partition",)).values).all()
    about = table.about[rows[:5]].with_columns(partition=pl.lit("brand new"))
    place = list(assembly.encoders.categories).index("partition")
    assert np.isnan(assembly.encoders.codes(about)[:, place]).all()


def test_categories_are_ordered_the_same_every_time() -> None:
    about = pl.DataFrame({"partition": ["b"] * 40 + ["a"] * 40 + ["rare"]})
    assert Encoders.fit(about, ("partition",)).categories == {"partition": ("a", "b")}
    assert Encoders.fit(about.reverse(), ("partition",)).categories == {"partition": ("a", "b")}


def test_profiles_can_be_columns_and_all_comes_back_from_json(table: JobTable, rows: np.ndarray) -> None:
    profiles = Profiles.fit(table, rows, seed=0)
    assembly = Assembly.fit(table, rows, "generic", profiles)
    matrix = assembly.matrix(table, rows[:50])
    assert set(profiles.feature_names) <= set(matrix.names)
    back = Assembly.from_json(json.loads(json.dumps(assembly.to_json())), profiles)
    again = back.matrix(table, rows[:50])
    assert again.names == matrix.names
    assert np.array_equal(again.values, matrix.values, equal_nan=True)


def test_a_row_is_the_same_alone_and_among_others(table: JobTable, rows: np.ndarray) -> None:
    assembly = Assembly.fit(table, rows, "generic", Profiles.fit(table, rows, seed=0))
    together = assembly.matrix(table, rows[:20]).values
    alone = np.vstack([assembly.matrix(table, rows[place : place + 1]).values for place in range(20)])
    np.testing.assert_allclose(alone, together, rtol=1e-6)


def test_what_is_known_at_the_end_is_in_no_model_that_serves(table: JobTable, rows: np.ndarray) -> None:
    assert not set(POSTHOC_COLUMNS) & set(table.names)


def test_scripts_are_seen_where_history_holds_them(table: JobTable, rows: np.ndarray) -> None:
    assembly = Assembly.fit(table, rows, "generic")
    assert {"script_language", "script_modules"} <= set(assembly.encoders.categories)
    assert (
        "script_launcher" not in assembly.encoders.categories
    )  # the simulator has none: one value says nothing
    matrix = assembly.matrix(table, rows[:50])
    assert np.isfinite(matrix.columns(("script_language",)).values).any()
    assert {"script_language", "script_modules"} <= matrix.categorical


def test_no_script_is_no_category(table: JobTable, rows: np.ndarray) -> None:
    without = table.about.with_columns(script_language=pl.lit(None, pl.String))
    blank = JobTable(
        table.cluster, table.phase, table.population, table.names, table.values, table.fails, table.known_at,
        table.at, without,
    )  # fmt: skip
    assert "script_language" not in Assembly.fit(blank, rows, "generic").encoders.categories


def test_rows_weigh_as_the_decisions_that_they_are(table: JobTable, rows: np.ndarray) -> None:
    """A bulk weighs little; weights add up to the effective number of rows, whatever their scale."""
    assembly = Assembly.fit(table, rows, "generic")
    weights = assembly.sample(table, rows).weights
    np.testing.assert_allclose(weights / weights.max(), table.weights[rows] / table.weights[rows].max())
    weight = table.weights[rows].sum() ** 2 / (table.weights[rows] ** 2).sum()
    assert weights.sum() == pytest.approx(weight)
    small = replace(table, decision_weights=table.weights / 50)
    np.testing.assert_allclose(assembly.sample(small, rows).weights, weights)


def test_what_only_others_jobs_tell_takes_its_typical_value_where_they_are_not_known(table: JobTable) -> None:
    rows = np.arange(2000)
    assembly = Assembly.fit(table, rows, "generic")
    again = Assembly.from_json(json.loads(json.dumps(assembly.to_json())), None)
    gone = replace(table.rows(rows[:5]), values=np.full((5, len(table.names)), np.nan, np.float32))
    for either in (assembly, again):
        matrix = either.matrix(gone)
        running = matrix.values[:, matrix.names.index("queue_running")]
        assert (running == np.median(table.column("queue_running")[rows])).all()
        assert np.isnan(matrix.values[:, matrix.names.index("user_rate15")]).all()
