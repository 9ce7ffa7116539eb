"""Usage: quantiles hold of what was censored too, nothing knows the future, and it comes back from files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from forewarn.assess.forecast import Forecast
from forewarn.assess.user_history import StoredUserHistories, earlier_usage
from forewarn.errors import BundleError
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.learn.data.split import split
from forewarn.learn.data.table import JobTable
from forewarn.learn.heads.usage import Usage
from forewarn.learn.heads.usage.baselines import codes, last_two, medians, most_similar
from forewarn.learn.heads.usage.evaluation import evaluate_usage
from forewarn.learn.heads.usage.quantities import targets, unit_memory
from forewarn.learn.heads.usage.recalibration import Recalibration, kaplan_meier
from forewarn.learn.heads.usage.usage import FACTS, blocks
from forewarn.learn.registry.bundle import USAGE, Bundle
from forewarn.learn.registry.manifest import MANIFEST
from forewarn.learn.report.html import render
from forewarn.store.base import Store
from tests.learn.bundles import tiny_bundle

pytestmark = pytest.mark.slow

NAMES = tuple(L.FEATURES[place].name for place in L.selected("submit", "generic"))
FEATURES = ("user_run_time", "time_limit", "cpus", "memory", "user_memory_ratio")
GIB = float(1 << 30)
LEVELS = np.array([0.1, 0.5, 0.9])


def synthetic_table(jobs: int = 6_000, seed: int = 0) -> tuple[JobTable, np.ndarray]:
    """Jobs of a cluster where a third run into their limit, and how long they would have run."""
    random = np.random.default_rng(seed)
    usual = np.exp2(random.uniform(7, 14, jobs))
    cpus = random.integers(1, 3, jobs)
    needs = usual * np.exp2(random.normal(size=jobs) * np.where(cpus == 1, 0.3, 1.2))
    limit = np.round(usual * np.exp2(random.uniform(-0.5, 2.5, jobs)))
    ran = np.minimum(np.ceil(needs), limit).astype(np.int64)
    submit = np.sort(random.integers(0, 10_000_000, jobs))
    values = np.full((jobs, len(NAMES)), np.nan, np.float32)
    for name, column in {"user_run_time": usual, "time_limit": limit, "cpus": cpus}.items():
        values[:, NAMES.index(name)] = column
    late = needs > limit
    nothing = pl.lit(None, dtype=pl.Int64)
    about = pl.DataFrame(
        {
            "job_id": [str(number) for number in range(jobs)],
            "submit": submit,
            "user": random.choice(["ann", "bob", "cy"], jobs),
            "label": random.choice(["a", "b"], jobs),
            "partition": ["p"] * jobs,
            "qos": ["q"] * jobs,
            "run_time": ran,
            "time_limit": limit.astype(np.int64),
            "outcome": np.where(late, "timeout", "completed"),
            "cpus": cpus,
        }
    ).with_columns(
        cpu_time=nothing, max_memory=nothing, io_bytes=nothing, cpus_used=nothing, start=pl.col("submit")
    )
    fails = late.astype(np.float64)
    known = submit + ran
    return JobTable("made", "submit", "papers", NAMES, values, fails, known, submit, about), needs


def fitted(table: JobTable, features: tuple[str, ...] = FEATURES) -> Usage:
    usage = Usage.fit(table, split(table).cuts, features, seed=0, threads=1)
    assert usage is not None
    return usage


def held(usage: Usage, table: JobTable, needs: np.ndarray) -> list[float]:
    """The share of test jobs that would have stayed at or below each quantile, had nothing stopped them."""
    rows = np.flatnonzero(table.submit >= split(table).cuts[2])
    run_time = usage.forecast(table, rows).run_time
    assert run_time is not None
    return [float((needs[rows] <= run_time.quantile(level)).mean()) for level in LEVELS]


@pytest.fixture(scope="module")
def world() -> tuple[JobTable, np.ndarray]:
    return synthetic_table()


@pytest.fixture(scope="module")
def usage(world: tuple[JobTable, np.ndarray]) -> Usage:
    return fitted(world[0])


@pytest.fixture(scope="module")
def simulated(table: JobTable) -> Usage:
    return fitted(table, tuple(name for name in table.names if not name.endswith("_ended")))


def test_quantiles_hold_of_jobs_that_their_limit_stopped_too(
    usage: Usage, world: tuple[JobTable, np.ndarray]
) -> None:
    assert held(usage, *world) == pytest.approx(LEVELS, abs=0.06)


def test_without_the_jobs_that_were_cut_short_the_forecast_is_too_low(
    usage: Usage, world: tuple[JobTable, np.ndarray]
) -> None:
    table, needs = world
    blind = table.about.with_columns(run_time=pl.when(pl.col("outcome") == "completed").then("run_time"))
    honest, dropped = held(usage, table, needs), held(fitted(replace(table, about=blind)), table, needs)
    assert dropped[1] < honest[1] - 0.08
    assert dropped[2] < 0.8 < honest[2]


def test_the_spread_is_the_job_s_own(usage: Usage, world: tuple[JobTable, np.ndarray]) -> None:
    table, _ = world
    rows = np.flatnonzero(table.submit >= split(table).cuts[2])
    run_time = usage.forecast(table, rows).run_time
    assert run_time is not None
    wide = np.log2(run_time.quantile(0.9) / run_time.quantile(0.1))
    sure = table.column("cpus")[rows] == 1
    assert np.median(wide[sure]) < 1.2 < 2 < np.median(wide[~sure])


def test_chances_to_go_beyond_a_limit_come_true_and_fall_with_it(
    usage: Usage, world: tuple[JobTable, np.ndarray]
) -> None:
    table, needs = world
    rows = np.flatnonzero(table.submit >= split(table).cuts[2])
    usage_forecast = usage.forecast(table, rows)
    limit = table.column("time_limit")[rows].astype(np.float64)
    for times in (0.5, 1.0, 2.0):
        over = usage_forecast.over_limit(limit * times)
        assert over is not None
        assert over.mean() == pytest.approx((needs[rows] > limit * times).mean(), abs=0.05)
    chances = np.stack([usage_forecast.run_time.over(at) for at in (1.0, 60.0, 3600.0, 1e5, 1e9)])  # type: ignore[union-attr]
    assert (np.diff(chances, axis=0) <= 0).all()
    assert usage_forecast.run_time is not None
    median = usage_forecast.run_time.quantile(0.5)
    together = usage_forecast.run_time.quantiles((0.1, 0.5, 0.9))
    assert together.shape == (len(rows), 3)
    assert np.array_equal(together[:, 1], median)
    assert np.array_equal(together[:, 2], usage_forecast.run_time.quantile(0.9))
    assert np.median(usage_forecast.run_time.over(median)) == pytest.approx(0.5, abs=0.02)
    assert np.isnan(usage_forecast.run_time.over(np.nan)).all()


def test_beyond_a_limit_that_is_kept_half_of_what_is_left_ends_with_every_doubling(
    usage: Usage, world: tuple[JobTable, np.ndarray]
) -> None:
    table, _ = world
    assert usage.parts["run_time"].limited
    run_time = usage.forecast(table, np.arange(500)).run_time
    limit = table.column("time_limit")[:500].astype(np.float64)
    assert run_time is not None
    plain = replace(run_time, recalibration=Recalibration.identity())
    room = limit * 4 < 2 ** run_time.borders[-1]
    for times in (2.0, 4.0):
        assert (plain.over(limit * times)[room] <= plain.over(limit)[room] / times + 0.03).all()
    over = replace(
        table,
        about=table.about.with_columns(
            run_time=pl.when(pl.int_range(pl.len()) % 5 == 0)
            .then(pl.col("time_limit") * 2)
            .otherwise("run_time"),
            outcome=pl.lit("completed"),
        ),
    )
    assert not fitted(over).parts["run_time"].limited


def test_quantiles_never_cross_and_every_quantity_is_forecast_on_a_simulated_cluster(
    simulated: Usage, table: JobTable
) -> None:
    usage_forecast = simulated.forecast(table, np.arange(4_000, 5_000))
    assert set(simulated.parts) == {"run_time", "memory", "cpu_efficiency", "io_rate"}
    for name in simulated.parts:
        quantiles = np.stack(
            [getattr(usage_forecast, name).quantile(level) for level in np.linspace(0, 1, 21)]
        )
        assert (np.diff(quantiles, axis=0) >= 0).all(), name
        assert np.isfinite(quantiles).all()
        assert (quantiles >= 0).all()


def test_on_a_simulated_cluster_it_beats_what_was_asked_and_its_levels_hold(
    simulated: Usage, table: JobTable
) -> None:
    found = evaluate_usage(simulated, table, split(table).cuts)
    for name in ("run_time", "memory"):
        model, rules = found[name]["model"], found[name]["rules"]
        assert model["mean_distance"] < min(
            rules["asked"]["mean_distance"], rules["user_median"]["mean_distance"]
        )
        assert found[name]["coverage"]["0.9"] == pytest.approx(0.9, abs=0.1)
    assert found["memory"]["requests"]["model"]["short"] < 0.15
    assert found["memory"]["requests"]["model"]["wasted"] < found["memory"]["requests"]["asked"]["wasted"]
    assert found["run_time"]["over_limit"]["roc_auc"] > 0.7


def test_the_report_has_it(usage: Usage, world: tuple[JobTable, np.ndarray]) -> None:
    page = render({"usage": evaluate_usage(usage, world[0], split(world[0]).cuts)})
    assert "Run time and resource use" in page
    assert "mean of the user&#39;s last two" in page
    assert "Time limit reached" in page
    assert "Run time and resource use" not in render({"usage": None})


def test_kaplan_and_meier_need_no_more_than_shares_where_all_is_exact() -> None:
    values = np.random.default_rng(0).random(500)
    shares = kaplan_meier(values, np.ones(500, bool), LEVELS)
    assert shares == pytest.approx([(values <= level).mean() for level in LEVELS])


def test_what_became_of_a_job_is_exact_or_a_lower_bound_or_nothing(table: JobTable) -> None:
    found = targets(table)
    outcome = table.about["outcome"].to_numpy()
    ran, memory = found["run_time"], found["memory"]
    assert ran.exact[outcome == "completed"].all()
    stopped = outcome == "timeout"
    assert stopped.any()
    assert not ran.exact[stopped].any()
    assert ran.known[stopped].all()
    failed = (outcome == "failed") & (
        table.about.select((pl.col("run_time") < pl.col("time_limit")).fill_null(True)).to_series().to_numpy()
    )
    assert failed.any()
    assert not ran.known[failed].any()
    killed = outcome == "out_of_memory"
    assert killed.any()
    assert not memory.exact[killed].any()
    asked = unit_memory(table)[killed]
    assert (memory.value[killed][np.isfinite(asked)] >= asked[np.isfinite(asked)]).all()


Rule = Callable[[JobTable, np.ndarray, np.ndarray], np.ndarray]
RULES: dict[str, Rule] = {
    "median": lambda t, values, rows: medians(t, values, codes(t, "user"), rows),
    "name": lambda t, values, rows: medians(t, values, codes(t, "user", "label"), rows),
    "last two": lambda t, values, rows: last_two(t, values, codes(t, "user"), rows),
    "similar": most_similar,
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_no_rule_sees_the_future(rule: Rule, world: tuple[JobTable, np.ndarray]) -> None:
    table = world[0].rows(np.arange(1_500))
    values = table.about["run_time"].cast(pl.Float64).to_numpy()
    cut = int(table.submit[900])
    rows = np.flatnonzero(table.submit <= cut)
    before = rule(table, values, rows)
    assert np.isfinite(before).mean() > 0.9
    later = table.known_at >= cut
    assert (later & (table.submit <= cut)).any()
    other = replace(table, known_at=np.where(later, table.known_at + 77_777, table.known_at))
    np.testing.assert_array_equal(before, rule(other, np.where(later, 3.0, values), rows))
    # The check can fail: values that were known are seen.
    assert not np.array_equal(before, rule(table, np.where(later, values, 3.0), rows), equal_nan=True)


def test_the_last_two_are_the_last_known_not_the_last_submitted() -> None:
    table, _ = synthetic_table(4)
    table = replace(
        table,
        about=table.about.with_columns(user=pl.lit("ann"), submit=pl.Series([0, 1, 2, 100])),
        at=np.array([0, 1, 2, 100]),
        known_at=np.array([90, 50, 100, 200]),
    )
    values = np.array([10.0, 20.0, 40.0, 80.0])
    assert last_two(table, values, codes(table, "user"), np.array([3])).tolist() == [15.0]
    assert medians(table, values, codes(table, "user"), np.array([0, 3]))[1] == 15.0
    assert np.isnan(last_two(table, values, codes(table, "user"), np.array([0]))).all()


def test_the_forecast_of_a_job_rests_on_nothing_after_its_moment(simulated: Usage, table: JobTable) -> None:
    rows = np.arange(2_000, 2_050)
    cut = int(table.at[rows].max())
    later = table.known_at >= cut
    about = table.about.with_columns(
        cpu_time=pl.when(pl.Series(later)).then(1.0).otherwise("cpu_time"),
        io_bytes=pl.when(pl.Series(later)).then(7).otherwise("io_bytes"),
        outcome=pl.when(pl.Series(later)).then(pl.lit("completed")).otherwise("outcome"),
    )
    one, other = (simulated.forecast(t, rows) for t in (table, replace(table, about=about)))
    for name in simulated.parts:
        np.testing.assert_array_equal(getattr(one, name).below, getattr(other, name).below)


def test_it_comes_back_from_files_and_equal_arguments_give_equal_ones(
    usage: Usage, world: tuple[JobTable, np.ndarray], tmp_path: Path
) -> None:
    table, _ = world
    for name, usage_model in (("one", usage), ("two", fitted(table))):
        (tmp_path / name).mkdir()
        usage_model.save(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == ["run_time.ubj", FACTS]
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    again = Usage.load(tmp_path / "one").forecast(table, np.arange(50))
    here = usage.forecast(table, np.arange(50))
    assert again.run_time is not None
    assert here.run_time is not None
    np.testing.assert_array_equal(again.run_time.below, here.run_time.below)
    np.testing.assert_allclose(again.run_time.quantile(0.9), here.run_time.quantile(0.9), rtol=1e-4)


@pytest.mark.parametrize("damage", ["booster", "json", "levels"])
def test_what_is_not_whole_is_refused(damage: str, usage: Usage, tmp_path: Path) -> None:
    usage.save(tmp_path)
    facts = json.loads((tmp_path / FACTS).read_text())
    if damage == "booster":
        (tmp_path / "run_time.ubj").write_bytes((tmp_path / "run_time.ubj").read_bytes()[:-9])
    elif damage == "json":
        (tmp_path / FACTS).write_text("{")
    else:
        facts["run_time"]["levels"][7] = 2.0
        (tmp_path / FACTS).write_text(json.dumps(facts))
    with pytest.raises(BundleError):
        Usage.load(tmp_path)


def test_a_bundle_keeps_it(usage: Usage, world: tuple[JobTable, np.ndarray], tmp_path: Path) -> None:
    replace(tiny_bundle(), usage=usage).save(tmp_path / "with")
    tiny_bundle().save(tmp_path / "without")
    assert f"{USAGE}/{FACTS}" in json.loads((tmp_path / "with" / MANIFEST).read_text())["files"]
    assert Bundle.load(tmp_path / "without").usage is None
    loaded = Bundle.load(tmp_path / "with").usage
    assert loaded is not None
    assert loaded.forecast(world[0], np.arange(3)).rests_on == usage.forecast(world[0], np.arange(3)).rests_on


def test_a_history_that_tells_nothing_has_no_usage(world: tuple[JobTable, np.ndarray]) -> None:
    table, _ = world
    silent = replace(table, about=table.about.with_columns(run_time=pl.lit(None, pl.Int64)))
    assert Usage.fit(silent, split(table).cuts, FEATURES, seed=0, threads=1) is None
    few = table.rows(np.arange(len(table.values)) % 20 == 0)
    assert Usage.fit(few, split(table).cuts, FEATURES, seed=0, threads=1) is None


def test_blocks_follow_each_other_and_know_only_what_was_known(world: tuple[JobTable, np.ndarray]) -> None:
    table, _ = world
    cuts = split(table).cuts
    rows = blocks(table, targets(table)["run_time"], cuts)
    for name, cut in zip(("train", "search", "calibrate", "learnt"), (*cuts, cuts[2]), strict=True):
        assert len(rows[name])
        assert (table.known_at[rows[name]] < cut).all()
    assert table.submit[rows["test"]].min() >= cuts[2]


def test_the_memory_of_a_job_is_in_bytes_a_node(simulated: Usage, table: JobTable) -> None:
    tasks, nodes = table.column("tasks"), table.column("nodes")
    row = int(np.flatnonzero((tasks > nodes) & (table.column("memory") > 0))[-1])
    usage_forecast = simulated.forecast(table, np.array([row]))
    part = table.rows(np.array([row]))
    forecast = Forecast(part, usage_forecast)
    resources, how_long = forecast.resources(0), forecast.run_time(0)
    assert resources is not None
    assert resources.memory is not None
    assert resources.memory_request is not None
    assert how_long is not None
    assert resources.memory_asked == pytest.approx(table.column("memory")[row] / nodes[row], rel=1e-6)
    each = usage_forecast.memory.quantile(0.5)[0]  # type: ignore[union-attr]
    assert resources.memory.median == pytest.approx(each * tasks[row] / nodes[row], rel=1e-6)
    assert (
        resources.memory.low <= resources.memory.median <= resources.memory.high <= resources.memory_request
    )
    over = usage_forecast.over_memory(resources.memory_request)
    assert over is not None
    assert over[0] == pytest.approx(0.05, abs=0.02)
    assert how_long.seconds.low <= how_long.seconds.median <= how_long.seconds.high
    assert how_long.limit == int(table.column("time_limit")[row])
    assert 0 <= (how_long.over_limit or 0) <= 1
    assert resources.cpu_efficiency is not None
    assert resources.io_rate is not None
    assert how_long.rests_on > 0 < resources.rests_on


def test_quantities_without_data_have_no_forecast(usage: Usage, world: tuple[JobTable, np.ndarray]) -> None:
    table, _ = world
    usage_forecast = usage.forecast(table, np.array([5]))
    forecast = Forecast(table.rows(np.array([5])), usage_forecast)
    assert forecast.resources(0) is None
    assert usage_forecast.over_memory(GIB) is None
    run_time = forecast.run_time(0)
    assert run_time is not None
    assert (run_time.over_limit is None) == (run_time.limit is None)
    nobody = Forecast(table.rows(np.array([5])), None)
    assert (nobody.run_time(0), nobody.resources(0), nobody.excess(0)) == (None, None, {})


def test_present_jobs_are_forecast_from_the_users_earlier_jobs_as_in_the_evaluation(
    simulated: Usage, cluster: tuple[Store, str], table: JobTable
) -> None:
    """CPU efficiency was judged with what earlier jobs used, and served without: R² .968 and .861."""
    assert simulated.history_quantities
    store, name = cluster
    kept = simulated.is_enforced("timeout")
    rows = np.flatnonzero(table.submit >= np.quantile(table.submit, 0.9))[:40]
    for row in rows[[0, 20, 39]]:
        cut = int(table.at[row])
        histories = StoredUserHistories(store, name, cut, store.clusters()[name])
        alone = replace(table.rows(np.array([row])), known_at=np.array([-1]))
        earlier = earlier_usage(histories, alone.about, simulated.history_quantities, cut, kept)
        assert all(
            np.isfinite(earlier[name]["earlier_median"]).all() for name in simulated.history_quantities
        )
        now, then = simulated.forecast(alone, earlier=earlier), simulated.forecast(table, np.array([row]))
        for quantity in ("cpu_efficiency", "io_rate"):
            np.testing.assert_allclose(getattr(now, quantity).below, getattr(then, quantity).below, atol=1e-6)
