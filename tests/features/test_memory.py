"""Memory asked for has one meaning: of a job, as columns, in the kernel, and in what models foresee."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.features.inputs import job_numbers, treated, treated_job
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel import numbers
from forewarn.job.columns import to_frame
from forewarn.job.memory import node_memory, task_memory, total_memory
from forewarn.job.memory_columns import node_memory_column, task_memory_column, total_memory_column
from forewarn.job.record import Job, Observation
from forewarn.learn.data.table import JobTable
from forewarn.learn.heads.usage import quantities
from forewarn.store.base import ClusterFacts

COUNT = st.none() | st.integers(1, 512)
JOBS = st.builds(
    lambda **asked: Job(cluster="c", job_id="1", submit=0, **asked),
    memory_asked=st.none() | st.integers(0, 1 << 41),
    memory_per=st.sampled_from([None, "node", "cpu", "gpu"]),
    nodes_asked=COUNT,
    cpus_asked=COUNT,
    tasks_asked=COUNT,
    gpus_asked=st.none() | st.integers(0, 16),
)


@numba.njit
def in_kernel(x: Any) -> Any:
    return numbers.total_memory(x), numbers.task_memory(x)


def frame_of(jobs: list[Job]) -> Any:
    return to_frame([Observation(seen_at=0, source="", reconstructed=False, record=job) for job in jobs])


def floats(values: list[float | None]) -> list[float]:
    return [np.nan if value is None else float(value) for value in values]


@settings(deadline=None)
@given(st.lists(JOBS, min_size=1, max_size=8))
def test_one_meaning(jobs: list[Job]) -> None:
    total, node, task = (floats([f(job) for job in jobs]) for f in (total_memory, node_memory, task_memory))
    columns = frame_of(jobs).select(
        total=total_memory_column(), node=node_memory_column(), task=task_memory_column()
    )
    for name, expected in (("total", total), ("node", node), ("task", task)):
        assert floats(columns[name].to_list()) == pytest.approx(expected, rel=1e-12, nan_ok=True)
    rows = [job_numbers(job, "UTC", 0) for job in jobs]
    kernel = np.array([in_kernel(row) for row in rows])
    assert kernel[:, 0] == pytest.approx(total, rel=1e-12, nan_ok=True)
    assert kernel[:, 1] == pytest.approx(task, rel=1e-12, nan_ok=True)
    # As models see it: no memory is all of a node, and how much that is nobody says.
    places = {"nodes": L.X_NODES, "cpus": L.X_CPUS, "tasks": L.X_TASKS, "memory_per": L.X_MEMORY_PER}
    features = {name: np.array(rows)[:, place] for name, place in places.items()} | {"memory": kernel[:, 0]}
    part = cast(JobTable, SimpleNamespace(column=features.__getitem__))
    for found, expected in ((quantities.memory_per_node(part), node), (quantities.unit_memory(part), task)):
        assert found == pytest.approx([value or np.nan for value in expected], rel=1e-12, nan_ok=True)


@settings(deadline=None)
@given(st.lists(JOBS, min_size=1, max_size=8))
def test_a_request_counted_for_a_node_is_the_same_request(jobs: list[Job]) -> None:
    """Accounting has memory for a node: GPUs' memory in a script has to meet that."""
    facts = ClusterFacts(fields={"memory_asked": {"per": "node"}})
    changed = [treated_job(job, facts) for job in jobs]
    both = treated(frame_of(jobs), facts).select("memory_asked", "memory_per").rows()
    assert both == [(job.memory_asked, job.memory_per) for job in changed]
    for before, after in zip(jobs, changed, strict=True):
        asked, counted = node_memory(before), node_memory(after)
        assert (asked is None) == (counted is None)
        assert asked is None or abs(asked - cast(float, counted)) < 1
        units = {"cpu": before.cpus_asked, "gpu": before.gpus_asked}
        if asked is not None and before.nodes_asked and units.get(before.memory_per or "", 1):
            assert after.memory_per == "node"
