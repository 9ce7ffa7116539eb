from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from forewarn.config import Config
from forewarn.errors import UsageError
from forewarn.features.kernel import layout
from forewarn.features.table import schema_of, write_features
from forewarn.job.phase import PHASES
from forewarn.store.base import ClusterFacts, Store
from forewarn.store.opening import open_store
from tests.features.histories import history


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(Config(home=tmp_path / "home"))
    with store.writing() as writer:
        writer.observe("job", history(700).drop("known_at"))
        writer.describe_cluster("c", ClusterFacts("Europe/Berlin"))
    return store


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("feature_set", layout.FEATURE_SETS)
def test_one_row_a_job_with_the_sets_columns(
    store: Store, tmp_path: Path, phase: str, feature_set: str
) -> None:
    heard: list[tuple[int, int]] = []
    result = write_features(
        store,
        tmp_path / "f.parquet",
        phase=phase,
        feature_set=feature_set,
        progress=lambda done, of: heard.append((done, of)),
    )
    table = pl.read_parquet(result.path)
    assert table.schema == pl.Schema(schema_of(phase, feature_set))
    jobs = pl.concat(store.scan())
    expected = jobs if phase == "submit" else jobs.filter(pl.col("start").is_not_null())
    keys = ["cluster", "job_id", "submit"]
    assert table.select(keys).sort(keys).equals(expected.select(keys).sort(keys))
    assert table[phase if phase == "submit" else "wait"].null_count() == 0
    assert heard[-1] == (result.jobs, result.jobs)
    assert list(tmp_path.glob("*.partial")) == []


def test_restricted_knows_no_identity_and_no_history() -> None:
    names = set(schema_of("start", "restricted"))
    private = ("user", "account", "group", "name", "script", "online", "backoff", "context", "similar")
    assert not [n for n in names if n.startswith(private)]
    assert {"cpus", "time_limit", "fail_rate_1h", "queue_pending", "partition_rate15"} <= names


def test_swf_needs_nothing_that_swf_does_not_carry() -> None:
    names = set(schema_of("start", "swf"))
    beyond = ("user_dir", "account", "script", "node", "gpus", "is_array", "priority", "tasks")
    assert not [n for n in names if n.startswith(beyond)]


def test_names_are_unique_and_none_tells_the_ending() -> None:
    names = [f.name for f in layout.FEATURES]
    assert len(names) == len(set(names))
    assert not {"run_time", "end", "outcome", "state", "exit_code", "cpu_time", "max_memory"} & set(names)


def test_an_unseen_user_has_nulls_not_zeros(store: Store, tmp_path: Path) -> None:
    table = pl.read_parquet(write_features(store, tmp_path / "f.parquet").path)
    first = table.head(1)
    assert first["user_last"].item() is None
    assert first["user_rate100"].item() is None
    assert first["user_ended"].item() in (0, None)
    assert first["backoff_request_15"].item() is not None


def test_an_unknown_phase_or_set_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="running"):
        write_features(store, tmp_path / "f.parquet", phase="running")
    with pytest.raises(UsageError, match="everything"):
        write_features(store, tmp_path / "f.parquet", feature_set="everything")


def test_an_empty_store_gives_an_empty_table(tmp_path: Path) -> None:
    store = open_store(Config(home=tmp_path / "home"))
    with store.writing() as writer:
        writer.describe_cluster("c", ClusterFacts())
    result = write_features(store, tmp_path / "f.parquet")
    assert pl.read_parquet(result.path).height == result.jobs == 0
