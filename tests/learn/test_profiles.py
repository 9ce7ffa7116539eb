"""Profiles: marginals that are exact, an elbow that is found, words that fit, JSON that comes back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from forewarn.config import Config
from forewarn.errors import BundleError, NotEnoughError, UsageError
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import JobTable, read_table
from forewarn.learn.heads.profiles import STARTS, Profiles
from forewarn.learn.heads.profiles_number import MOST, mixture
from forewarn.learn.heads.profiles_space import CATEGORIES, Space
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.sources.base import open_source
from forewarn.store.opening import open_store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows(table: JobTable) -> np.ndarray:
    return np.flatnonzero(table.labelled)


@pytest.fixture(scope="module")
def profiles(table: JobTable, rows: np.ndarray) -> Profiles:
    return Profiles.fit(table, rows, seed=0, k=4)


def blobs(seed: int = 0, jobs: int = 600) -> tuple[pl.DataFrame, np.ndarray]:
    """Three kinds of jobs that nobody could confuse: tiny, long, and large with a long wait."""
    random = np.random.default_rng(seed)
    kind = random.choice(3, jobs, p=[0.5, 0.3, 0.2])
    typical = np.array([[1, 2e9, 30, 5], [8, 30e9, 30_000, 60], [500, 1e12, 1_000, 40_000]])[kind]
    numbers = typical * np.exp(random.normal(0, 0.3, (jobs, 4)))
    activity = np.array(["new", "infrequent", "frequent"])[(kind + (random.random(jobs) < 0.1)) % 3]
    about = pl.DataFrame(numbers, ["cpus", "memory", "run_time", "wait"]).with_columns(
        activity=pl.Series(activity),
        user=pl.Series([f"user{n % 20}" for n in range(jobs)]),
        outcome=pl.Series(np.where(kind == 1, "timeout", "completed")),
    )
    return about, kind


def table_of(about: pl.DataFrame) -> JobTable:
    many = about.height
    fails = (about["outcome"] != "completed").cast(pl.Float64).to_numpy()
    zeros = np.zeros(many, np.int64)
    about = about.with_columns(submit=pl.Series(zeros))
    return JobTable(
        "made", "submit", "papers", (), np.empty((many, 0), np.float32), fails, zeros, zeros, about
    )


def test_three_kinds_are_found() -> None:
    about, kind = blobs()
    table = table_of(about)
    everyone = np.arange(about.height)
    profiles = Profiles.fit(table, everyone, seed=1)
    assert profiles.curves.elbow == len(profiles.weights) == 3
    assert len(profiles.curves.wcss) == len(profiles.curves.bic) == MOST
    assert profiles.feature_names == ("profile_0", "profile_1", "profile_2")
    assert np.array_equal(
        profiles.posterior(about, "posthoc").argmax(axis=1), kind
    )  # the most frequent first
    assert profiles.words == (
        "short and light, short wait, new users",
        "long, infrequent users",  # 8 CPUs are not large, though most jobs have one
        "large, long wait, frequent users",
    )
    descriptions = profiles.describe(table, everyone)["profiles"]
    assert [each["failed"] for each in descriptions] == [0, 1, 0]
    assert [each["jobs"] for each in descriptions] == np.bincount(kind).tolist()
    assert descriptions[1]["duration"]["medium"] > 0.3
    assert descriptions[1]["outcomes"] == {"timeout": 1.0}
    assert descriptions[2]["numbers"]["size"]["mean"] == pytest.approx(500, rel=0.15)
    assert sum(descriptions[0]["activity"].values()) == pytest.approx(1)


def test_on_a_small_cluster_nothing_is_large_or_long() -> None:
    """As in a lab: one to four CPUs, some hundred megabytes, seconds to minutes."""
    random = np.random.default_rng(1)
    cpus = random.choice([1, 1, 1, 2, 4], 1_200)
    seconds = random.choice([2, 5, 30, 120, 600], 1_200) * random.uniform(0.8, 1.2, 1_200)
    about = pl.DataFrame(
        {
            "cpus": cpus.astype(np.float64),
            "memory": random.choice([1e8, 2e8, 5e8, 1e9], 1_200),
            "run_time": seconds,
            "wait": random.exponential(20, 1_200),
            "activity": ["frequent"] * 1_200,
            "user": [f"user{n % 5}" for n in range(1_200)],
            "outcome": ["completed"] * 1_200,
        }
    )
    profiles = Profiles.fit(table_of(about), np.arange(1_200), seed=1)
    assert len(profiles.words) > 1
    for words in profiles.words:
        assert not {"large", "long", "high"} & set(words.replace(",", "").split()), profiles.words


def test_with_everything_known_it_is_scikit_learn_s(table: JobTable, rows: np.ndarray) -> None:
    """The tables of categories are ours: where they are not known, what remains is the Gaussian mixture."""
    profiles = Profiles.fit(table, rows, seed=0, k=3)
    about = table.about[rows]
    values = profiles.space.values(about, "posthoc")
    whole = np.isfinite(values).all(axis=1)
    assert whole.sum() > 3_000
    theirs = mixture(values[whole], 3, 0, STARTS)
    order = np.argsort(-theirs.weights_, kind="stable")
    # Without memory there is no type, but memory is one of the numbers: the tables are uninformative.
    plain = {name: np.full((3, len(CATEGORIES[name])), 1 / len(CATEGORIES[name])) for name in profiles.tables}
    ours = replace(profiles, tables=plain)
    expected = theirs.predict_proba(values[whole])[:, order]
    assert ours.posterior(about.filter(pl.Series(whole)), "posthoc") == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("phase", ["submit", "start"])
def test_what_is_not_known_yet_is_marginalised(profiles: Profiles, table: JobTable, phase: str) -> None:
    """Against brute force: the joint density, averaged over what might become of the job."""
    random = np.random.default_rng(3)
    draws, width = 200_000, 3.0
    for place in (7, 700, 3_000):
        job = table.about[[place]]
        known = profiles.space.values(job, phase)[0]
        later = np.flatnonzero(~np.isfinite(known))
        assert 0 < len(later) < len(known)
        full = np.tile(known, (draws, 1))
        full[:, later] = random.normal(0, width, (draws, len(later)))
        drawn = -((full[:, later] / width) ** 2).sum(axis=1) / 2
        expected = profiles.weights.copy()
        for k, (mean, covariance) in enumerate(zip(profiles.means, profiles.covariances, strict=True)):
            away = full - mean
            log = -np.einsum("ni,ij,nj->n", away, np.linalg.inv(covariance), away) / 2 - drawn
            expected[k] *= np.exp(log).mean() / np.sqrt(np.linalg.det(covariance))
        for name, codes in profiles.space.codes(job, phase).items():
            expected *= profiles.tables[name][:, codes[0]]
        assert profiles.posterior(job, phase)[0] == pytest.approx(expected / expected.sum(), abs=0.02)


def test_what_a_phase_does_not_know_changes_nothing(profiles: Profiles, table: JobTable) -> None:
    """Not even whether it is there."""
    later = {"submit": ["wait", "run_time"], "start": ["run_time"]}
    for phase, columns in later.items():
        posterior = profiles.posterior(table.about, phase)
        assert posterior == pytest.approx(profiles.posterior(table.about.drop(columns), phase))
        assert posterior.sum(axis=1) == pytest.approx(1)
    assert (
        abs(profiles.posterior(table.about, "submit") - profiles.posterior(table.about, "posthoc")).max()
        > 0.3
    )


def test_a_job_that_lacks_a_value_is_marginalised_too(profiles: Profiles, table: JobTable) -> None:
    ran = table.about.filter(pl.col("run_time").is_not_null())[:200]
    unknown = ran.with_columns(run_time=pl.lit(None, pl.Int64))
    assert profiles.posterior(unknown, "posthoc") == pytest.approx(profiles.posterior(ran, "start"))
    mixed = pl.concat([ran[:100], unknown[100:]])
    expected = np.vstack([profiles.posterior(ran, "posthoc")[:100], profiles.posterior(ran, "start")[100:]])
    assert profiles.posterior(mixed, "posthoc") == pytest.approx(expected)
    nothing = ran.with_columns(pl.lit(None).alias(name) for name in ("cpus", "memory", "activity"))
    assert profiles.posterior(nothing, "submit") == pytest.approx(np.tile(profiles.weights, (200, 1)))


def test_the_same_seed_gives_the_same_profiles(table: JobTable, rows: np.ndarray, profiles: Profiles) -> None:
    again = Profiles.fit(table, rows, seed=0, k=4)
    assert json.dumps(again.to_json()) == json.dumps(profiles.to_json())


def test_the_future_of_the_train_part_has_no_part(table: JobTable, rows: np.ndarray) -> None:
    early = rows[: len(rows) // 2]
    changed = table.about.with_columns(
        run_time=pl.when(pl.int_range(pl.len()) > early[-1]).then(1).otherwise("run_time")
    )
    other = JobTable(**{**{n: getattr(table, n) for n in JobTable.__dataclass_fields__}, "about": changed})
    assert Profiles.fit(other, early, seed=0).to_json() == Profiles.fit(table, early, seed=0).to_json()


def test_json_comes_back(profiles: Profiles, table: JobTable, rows: np.ndarray) -> None:
    text = json.dumps(profiles.to_json(), allow_nan=False)
    back = Profiles.from_json(json.loads(text))
    assert json.dumps(back.to_json()) == text
    assert np.array_equal(back.posterior(table.about, "start"), profiles.posterior(table.about, "start"))
    described = json.dumps(profiles.describe(table, rows), allow_nan=False)
    assert json.dumps(back.describe(table, rows)) == described


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("weights", None),
        ("weights", [1.0]),
        ("weights", [0.5, 0.5, 0.0, 0.0]),
        ("means", [[0.0]]),
        ("covariances", [[[-1.0] * 4] * 4] * 4),
        ("tables", {}),
        ("space", {"numbers": []}),
        ("words", 3),
    ],
)
def test_broken_json_is_refused(profiles: Profiles, part: str, value: object) -> None:
    with pytest.raises(BundleError, match="profiles are broken"):
        Profiles.from_json({**profiles.to_json(), part: value})


def test_dimensions_that_say_nothing_are_left_out_and_named() -> None:
    about, _ = blobs()
    about = about.with_columns(
        memory=pl.lit(None, pl.Int64), wait=pl.lit(0), activity=pl.lit("new"), cpus=pl.lit(4)
    )
    profiles = Profiles.fit(table_of(about), np.arange(about.height), seed=0)
    assert profiles.space.numbers == ("run_time",)
    assert profiles.space.left_out == {
        "size": "the same for all jobs",
        "memory": "no job has it",
        "wait": "the same for all jobs",
        "activity": "the same for all jobs",
        "type": "no job has it",
    }
    assert np.isfinite(profiles.posterior(about, "submit")).all()


def test_type_is_by_memory_per_cpu_against_the_median() -> None:
    about = pl.DataFrame(
        {
            "cpus": [1, 1, 1, 1, 2, 1],
            "memory": [100, 100, 200, 50, 200, 0],  # 0: all that the node has
            "run_time": [1, 2, 3, 4, 5, 6],
            "wait": [1, 2, 3, 4, 5, 6],
            "activity": ["new"] * 6,
        }
    )
    space = Space.fit(about)
    assert space.memory_per_cpu == 100
    assert space.codes(about, "submit")["type"].tolist() == [0, 0, 2, 1, 0, -1]
    assert np.isnan(space.values(about, "submit")[5, space.numbers.index("memory")])


def test_few_jobs_are_one_profile() -> None:
    about, _ = blobs(jobs=12)
    table = table_of(about)
    profiles = Profiles.fit(table, np.arange(12), seed=0)
    assert profiles.words == ("all jobs",)
    assert profiles.posterior(about, "submit").tolist() == [[1.0]] * 12
    assert profiles.describe(table, np.arange(12))["number"]["elbow"] is None
    assert Profiles.from_json(profiles.to_json()).to_json() == profiles.to_json()
    with pytest.raises(NotEnoughError, match="3 profiles requested"):
        Profiles.fit(table, np.arange(12), seed=0, k=3)
    with pytest.raises(NotEnoughError, match="no jobs"):
        Profiles.fit(table, np.arange(0), seed=0)


def test_few_different_jobs_give_few_profiles() -> None:
    about, _ = blobs(jobs=60)
    about = pl.concat([about[:2]] * 30)
    profiles = Profiles.fit(table_of(about), np.arange(60), seed=0)
    assert len(profiles.weights) == 2
    with pytest.raises(UsageError, match="1 to 2"):
        Profiles.fit(table_of(about), np.arange(60), seed=0, k=5)


def test_an_unknown_phase_is_refused(profiles: Profiles, table: JobTable) -> None:
    with pytest.raises(UsageError, match="unknown phase 'running'"):
        profiles.posterior(table.about, "running")


@pytest.mark.shared_data
def test_ctc_has_three_profiles_as_the_papers_cluster_had(shared_data: Path, tmp_path: Path) -> None:
    store = open_store(Config(home=tmp_path))
    log = next((shared_data / "swf").glob("CTC-SP2*"))
    report = ingest(store, open_source(f"swf:{log}"))
    review_missing_fields(store, report.clusters)
    table = read_table(store, report.clusters[0], "submit", POPULATIONS["papers"])
    rows = np.flatnonzero(table.labelled)
    profiles = Profiles.fit(table, rows, seed=0)
    assert len(profiles.weights) == 3
    assert set(profiles.space.left_out) == {"memory", "type"}
    descriptions = profiles.describe(table, rows)["profiles"]
    rates = [each["failed"] for each in descriptions]
    assert (
        max(rates) - min(rates) > 0.05
    )  # the kinds of jobs differ in how they end, though no outcome was seen
    store.close()
