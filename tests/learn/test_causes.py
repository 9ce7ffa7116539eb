"""Causes: they add up to the total whatever it is, beat their shares, and come back from files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.config import Config
from forewarn.errors import BundleError, LearningError, NotEnoughError
from forewarn.learn.data.encoders import CATEGORIES, Encoders
from forewarn.learn.data.matrix import Matrix
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import JobTable, read_table
from forewarn.learn.heads.cause_trees import FILE
from forewarn.learn.heads.causes import FACTS, LEARNABLE, OTHER, RARE, Causes, causes_of
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.sources.base import open_source
from forewarn.store.base import Store
from forewarn.store.opening import open_store

pytestmark = pytest.mark.slow

NAMES = ("x0", "x1", "x2", "partition")
ENDINGS = [
    ("failed", "user"),
    ("out_of_memory", "limit"),
    ("timeout", "limit"),
    ("node_fail", "system"),
    ("boot_fail", "system"),  # rare
    ("deadline", "limit"),  # rarer
]


def synthetic_jobs(rows: int = 2_000, seed: int = 0) -> tuple[Matrix, pl.DataFrame, np.ndarray]:
    """Jobs of which x0 says whether memory or time runs out, and the partition whether its nodes are sick."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(rows, 4)).astype(np.float32)
    values[:, 3] = random.integers(0, 3, rows)
    logs = np.stack(
        [
            np.zeros(rows),
            2 * values[:, 0],
            -2 * values[:, 0],
            3.0 * (values[:, 3] == 2) - 2,
            np.full(rows, -4.5),
            np.full(rows, -6.0),
        ],
        axis=1,
    )
    cause = (logs + random.gumbel(size=logs.shape)).argmax(axis=1)
    fails = (random.random(rows) < 0.5).astype(np.float64)
    ends = [ENDINGS[c] if failed else ("completed", None) for c, failed in zip(cause, fails, strict=True)]
    about = pl.DataFrame(ends, schema={"outcome": pl.String, "kind": pl.String}, orient="row").with_columns(
        run_time=pl.lit(10), time_limit=pl.lit(60), cpu_hours=pl.lit(2.5), asked_cpu_hours=pl.lit(10.0)
    )
    values[random.random((rows, 4)) < 0.05] = np.nan
    return Matrix(values, NAMES, frozenset({"partition"})), about, fails


def fit(matrix: Matrix, about: pl.DataFrame, fails: np.ndarray, seed: int = 0) -> Causes:
    return Causes.fit(matrix, about, fails, np.ones(len(fails)), seed=seed, threads=1)


@pytest.fixture(scope="module")
def causes() -> Causes:
    return fit(*synthetic_jobs())


def test_rare_causes_are_the_others(causes: Causes) -> None:
    assert [str(cause) for cause in causes.causes][-1] == OTHER
    assert {cause.outcome for cause in causes.causes} == {
        *("failed", "out_of_memory", "timeout", "node_fail", OTHER)
    }
    assert set(causes.other_kinds) == {"system", "limit"}
    assert sum(causes.other_kinds.values()) == pytest.approx(1)
    assert causes.trees is not None


@settings(max_examples=60)
@given(
    p=st.lists(st.floats(0, 1), min_size=1, max_size=30),
    seed=st.integers(0, 2**32 - 1),
    wild=st.sampled_from([np.nan, np.inf, -np.inf, 1e38, 0.0]),
)
def test_causes_add_up_to_the_total(causes: Causes, p: list[float], seed: int, wild: float) -> None:
    random = np.random.default_rng(seed)
    values = random.normal(size=(len(p), 4)).astype(np.float32) * 10
    values[:, 3] = random.integers(0, 3, len(p))
    values[random.random((len(p), 4)) < 0.2] = wild
    values[~np.isfinite(values[:, 3]), 3] = np.nan  # a category is a code or missing
    values[values[:, 3] > 3, 3] = np.nan
    matrix, total = Matrix(values, NAMES, frozenset({"partition"})), np.array(p)
    by_cause = total[:, None] * causes.given_failure(matrix)
    for figures in (causes.outcomes(by_cause), causes.kinds(by_cause)):
        parts = np.array(list(figures.values()))
        assert (parts >= 0).all()
        assert parts.sum(axis=0) == pytest.approx(total, rel=1e-12, abs=1e-300)
    assert set(causes.kinds(by_cause)) == {"user", "system", "limit"}


def test_kinds_and_outcomes_tell_the_same(causes: Causes) -> None:
    matrix, _, fails = synthetic_jobs(rows=300, seed=5)
    by_cause = fails[:, None] * causes.given_failure(matrix)
    outcomes, kinds = causes.outcomes(by_cause), causes.kinds(by_cause)
    limit = outcomes["out_of_memory"] + outcomes["timeout"] + causes.other_kinds["limit"] * outcomes[OTHER]
    assert kinds["limit"] == pytest.approx(limit)
    assert kinds["user"] == pytest.approx(outcomes["failed"])


def test_hours_lost_are_those_of_each_end(causes: Causes) -> None:
    """A time-out loses all that was asked for, other failures what such ones used: a quarter here."""
    matrix, about, _ = synthetic_jobs(rows=300, seed=5)
    by_cause = 0.4 * causes.given_failure(matrix)
    outcomes = causes.outcomes(by_cause)
    expected = 10 * outcomes["timeout"] + 2.5 * (0.4 - outcomes["timeout"])
    assert causes.hours_lost(by_cause, about) == pytest.approx(expected)
    unknown = about.with_columns(asked_cpu_hours=pl.lit(None))
    assert np.isnan(causes.hours_lost(by_cause, unknown)).all()


def test_they_beat_their_shares_on_later_jobs(causes: Causes) -> None:
    figures = causes.evaluate(*synthetic_jobs(rows=1_000, seed=9))
    assert figures["n"] > 400
    assert figures["unseen"] == 0
    assert figures["log_loss"] < figures["log_loss_of_shares"] - 0.25
    assert figures["accuracy"] > figures["accuracy_of_majority"] + 0.1
    aucs = {each["cause"]: each["roc_auc"] for each in figures["causes"]}
    assert aucs["out_of_memory (limit)"] > 0.8
    assert aucs["node_fail (system)"] > 0.8
    json.dumps(figures, allow_nan=False)


def test_where_nothing_tells_them_apart_the_shares_are_predicted() -> None:
    matrix, about, fails = synthetic_jobs()
    noise = Matrix(np.random.default_rng(1).normal(size=matrix.values.shape).astype(np.float32), NAMES)
    causes = fit(noise, about, fails)
    figures = causes.evaluate(noise, about, fails)
    assert causes.given_failure(noise) == pytest.approx(np.tile(causes.prior, (len(fails), 1)), abs=0.15)
    assert figures["log_loss"] <= figures["log_loss_of_shares"] + 0.02


@pytest.mark.parametrize("failures", [1, RARE, LEARNABLE - 1])
def test_few_failures_give_shares(failures: int) -> None:
    matrix, about, fails = synthetic_jobs()
    fails = np.where(np.cumsum(fails) <= failures, fails, 0)
    causes = fit(matrix, about, fails)
    assert causes.trees is None
    given_failure = causes.given_failure(matrix.rows(np.arange(3)))
    assert given_failure == pytest.approx(np.tile(causes.prior, (3, 1)))
    assert given_failure.sum(axis=1) == pytest.approx(1)


def test_one_cause_needs_no_model(tmp_path: Path) -> None:
    matrix, about, fails = synthetic_jobs(rows=400)
    about = about.with_columns(outcome=pl.lit("timeout"), kind=pl.lit("limit"))
    causes = fit(matrix, about, fails)
    assert causes.trees is None
    by_cause = fails[:, None] * causes.given_failure(matrix)
    assert causes.outcomes(by_cause)["timeout"] == pytest.approx(fails)
    causes.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FACTS]
    assert Causes.load(tmp_path).causes == causes.causes


def test_no_failure_is_an_error() -> None:
    matrix, about, fails = synthetic_jobs(rows=50)
    with pytest.raises(NotEnoughError, match="no failures"):
        fit(matrix, about, fails * 0)


def test_a_cause_that_was_not_there_is_counted_as_unseen() -> None:
    matrix, about, fails = synthetic_jobs()
    common = about.filter(pl.col("outcome").is_in(["failed", "timeout", "completed"]))
    known_causes = about["outcome"].is_in(["failed", "timeout", "completed"]).to_numpy()
    causes = fit(matrix.rows(known_causes), common, fails[known_causes])
    figures = causes.evaluate(matrix, about, fails)
    assert figures["unseen"] == int((fails * ~known_causes).sum())
    assert figures["n"] + figures["unseen"] == int(fails.sum())
    assert causes.evaluate(matrix, about, fails * 0)["log_loss"] is None


def test_the_same_seed_gives_the_same(causes: Causes) -> None:
    matrix = synthetic_jobs(rows=50, seed=3)[0]
    assert np.array_equal(fit(*synthetic_jobs()).given_failure(matrix), causes.given_failure(matrix))


def test_other_columns_are_refused(causes: Causes) -> None:
    matrix = synthetic_jobs(rows=10)[0]
    with pytest.raises(LearningError, match="columns"):
        causes.given_failure(matrix.columns(("x1", "x0", "x2", "partition")))
    assert causes.given_failure(matrix.rows(np.arange(0))).shape == (0, len(causes.causes))


def test_files_come_back(causes: Causes, tmp_path: Path) -> None:
    causes.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {FACTS, FILE}
    matrix = synthetic_jobs(rows=200, seed=4)[0]
    loaded = Causes.load(tmp_path)
    assert np.array_equal(loaded.given_failure(matrix), causes.given_failure(matrix))
    assert loaded.used_shares == causes.used_shares


def test_broken_files_are_refused(causes: Causes, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"causes\.json"):
        Causes.load(tmp_path)
    causes.save(tmp_path)
    facts, trees = (tmp_path / FACTS).read_text(), (tmp_path / FILE).read_bytes()
    value = json.loads(facts)
    broken = [
        facts[:50],
        "[]",
        json.dumps({**value, "prior": [0.5]}),
        json.dumps({**value, "prior": [-1.0, 2.0, 0.0, 0.0, 0.0]}),
        json.dumps({**value, "temperature": 0}),
        json.dumps({**value, "other_kinds": {"martian": 1.0}}),
        json.dumps({**value, "other_kinds": {"user": 0.5}}),
        json.dumps({**value, "causes": [{"outcome": "tired", "kind": "user"}] * 5}),
        json.dumps({**value, "names": ["x0"]}),
        json.dumps({**value, "spent": [0.5]}),
        json.dumps({**value, "spent": [2.0] * 5}),
        json.dumps({name: part for name, part in value.items() if name != "trees"}),
    ]
    for text in broken:
        (tmp_path / FACTS).write_text(text)
        with pytest.raises(BundleError):
            Causes.load(tmp_path)
    (tmp_path / FACTS).write_text(facts)
    for content in (trees[:-10], b"", trees + b"x"):
        (tmp_path / FILE).write_bytes(content)
        with pytest.raises(BundleError, match="changed or cut short"):
            Causes.load(tmp_path)
    (tmp_path / FILE).unlink()
    with pytest.raises(BundleError):
        Causes.load(tmp_path)


def test_a_time_out_has_its_name_where_the_log_has_none() -> None:
    about = pl.DataFrame(
        {
            "outcome": ["failed", "cancelled", "failed", "cancelled", "failed", "out_of_memory"],
            "kind": ["limit", "limit", "limit", "user", "limit", "limit"],
            "run_time": [60, 60, 30, 60, None, 60],
            "time_limit": [60, 60, 60, 60, 60, 60],
        }
    )
    assert causes_of(about)["outcome"].to_list() == [
        *("timeout", "timeout", "failed", "cancelled", "failed", "out_of_memory")
    ]


def matrix_of(table: JobTable) -> Matrix:
    encoders = Encoders.fit(table.about, CATEGORIES["generic"])
    values = np.hstack([table.values, encoders.codes(table.about)])
    return Matrix(values, (*table.names, *encoders.categories), frozenset(encoders.categories))


@pytest.mark.parametrize("policy", ["papers", "wasted"])
def test_on_the_simulated_cluster(cluster: tuple[Store, str], policy: str) -> None:
    store, name = cluster
    table = read_table(store, name, "submit", POPULATIONS[policy])
    rows = np.flatnonzero(table.labelled)
    earlier, later = np.split(rows, [len(rows) * 3 // 4])
    matrix = matrix_of(table)
    causes = fit(matrix.rows(earlier), table.about[earlier], table.fails[earlier])
    figures = causes.evaluate(matrix.rows(later), table.about[later], table.fails[later])
    assert figures["log_loss"] < figures["log_loss_of_shares"]
    assert figures["accuracy"] > figures["accuracy_of_majority"]


@pytest.mark.shared_data
def test_limit_or_user_on_ctc(shared_data: Path, tmp_path: Path) -> None:
    """A timeout is distinguished from a crash before the job runs."""
    store = open_store(Config(home=tmp_path))
    report = ingest(store, open_source(f"swf:{next((shared_data / 'swf').glob('CTC-SP2*'))}"))
    review_missing_fields(store, report.clusters)
    table = read_table(store, report.clusters[0], "submit", POPULATIONS["papers"])
    store.close()
    rows = np.flatnonzero(table.labelled)
    earlier, later = np.split(rows, [len(rows) * 4 // 5])
    matrix = matrix_of(table)
    causes = fit(matrix.rows(earlier), table.about[earlier], table.fails[earlier])
    assert {str(cause) for cause in causes.causes} == {"failed (user)", "timeout (limit)"}
    figures = causes.evaluate(matrix.rows(later), table.about[later], table.fails[later])
    assert figures["log_loss"] < figures["log_loss_of_shares"] - 0.06
    assert figures["causes"][0]["roc_auc"] > 0.73
