"""The facts of one job and of a frame of jobs are the same numbers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from forewarn.features import inputs
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.job.columns import to_records
from forewarn.job.outcomes import POLICIES
from forewarn.job.record import Job
from forewarn.store.base import ClusterFacts
from tests.features.histories import history

FACTS = ClusterFacts(
    "America/New_York",
    {"cpus_asked": {"stand_in": "cpus_given"}, "group": {"fill": "g1"}, "qos": {"fill": "x"}},
)


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return history(800, seed=3)


def test_numbers(frame: pl.DataFrame) -> None:
    jobs = [inputs.treated_job(j, FACTS) for j in to_records(frame, Job)]
    one_by_one = np.array([inputs.job_numbers(j, FACTS.timezone, j.submit) for j in jobs])
    np.testing.assert_array_equal(inputs.numbers_of(inputs.treated(frame, FACTS), FACTS.timezone), one_by_one)


def test_atoms(frame: pl.DataFrame) -> None:
    jobs = [inputs.treated_job(j, FACTS) for j in to_records(frame, Job)]
    one_by_one = np.array([inputs.job_atoms(j) for j in jobs])
    np.testing.assert_array_equal(inputs.atoms_of(inputs.treated(frame, FACTS)), one_by_one)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_results(frame: pl.DataFrame, policy: object) -> None:
    assert policy in POLICIES.values()
    one_by_one = np.array([inputs.job_result(j, policy) for j in to_records(frame, Job)])  # type: ignore[arg-type]
    np.testing.assert_array_equal(inputs.results_of(frame, policy), one_by_one)  # type: ignore[arg-type]


def test_nodes(frame: pl.DataFrame) -> None:
    first, keys = inputs.nodes_of(frame["nodes"])
    for row, text in enumerate(frame["nodes"]):
        expected = inputs.node_keys(text) if text else np.zeros(0, np.uint64)
        np.testing.assert_array_equal(keys[first[row] : first[row + 1]], expected)


def test_a_large_job_brings_a_bounded_number_of_nodes() -> None:
    assert len(inputs.node_keys("n[1-9999]")) == inputs.MAX_NODES
    assert len(inputs.node_keys("n[broken")) == 0


def test_zones_with_odd_offsets_and_changes() -> None:
    moments = [1_700_000_000 + 900 * k for k in range(0, 40_000, 37)]
    for zone in ("Asia/Kathmandu", "Australia/Lord_Howe", "Europe/Berlin"):
        numbers = inputs.numbers_of(
            history(1)
            .select(pl.all().repeat_by(len(moments)).explode())
            .with_columns(submit=pl.Series(moments)),
            zone,
        )
        job = Job(cluster="c", job_id="1", submit=0)
        expected = [inputs.job_numbers(job, zone, m)[L.X_UTC_OFFSET] for m in moments]
        np.testing.assert_array_equal(numbers[:, L.X_UTC_OFFSET], expected)
