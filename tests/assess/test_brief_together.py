"""Jobs that are assessed together get the answers that each of them gets alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import forewarn
from forewarn.assess.assessment import Assessment
from forewarn.assess.assessor import Assessor
from forewarn.assess.json_form import brief_form
from forewarn.job.record import Job, changed_copy
from forewarn.operate.one_shot import open_stored_assessor

CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "user": st.sampled_from([None, "stranger"]),
        "name": st.sampled_from([None, "never_seen"]),
        "time_limit": st.sampled_from([None, 0, 60, 10**7]),
        "memory_asked": st.sampled_from([None, 0, 10**6, 10**12]),
        "memory_per": st.sampled_from([None, "node", "cpu", "gpu"]),
        "nodes_asked": st.sampled_from([None, 1, 4]),
        "cpus_asked": st.sampled_from([None, 1, 400]),
        "gpus_asked": st.sampled_from([None, 0, 2]),
        "partition": st.sampled_from([None, "main,gpu"]),
        "defaulted": st.sampled_from(["memory_asked", "time_limit,memory_asked"]),
        "start": st.just(1),
    },
)


@given(CHANGES)
def test_a_changed_copy_is_what_replace_returns(changes: dict[str, Any]) -> None:
    job = Job(cluster="c", job_id="7", submit=5, user="ann", time_limit=60)
    assert changed_copy(job, changes) == replace(job, **changes)
    assert job == Job(cluster="c", job_id="7", submit=5, user="ann", time_limit=60)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Assessor, list[Job]]]:
    folder: Path = tmp_path_factory.mktemp("trained")
    with forewarn.open(folder / "home") as site:
        simulated = site.simulate("small", jobs=4000, seed=3, output=folder / "jobs.parquet", machine=folder)
        site.ingest(*simulated.sources)
        site.train(trials=1)
        jobs = site.jobs(limit=200)
        config = site.config
    at = max(job.submit for job in jobs) + 60
    new: dict[str, Any] = {
        "submit": at,
        "start": None,
        "end": None,
        "outcome": None,
        "state": "PENDING",
        "nodes": None,
    }
    with open_stored_assessor(config, cluster=None, user="", at=at) as (_, assessor):
        yield assessor, [replace(job, job_id=f"new{place}", **new) for place, job in enumerate(jobs)]


def in_brief(assessment: Assessment) -> dict[str, Any]:
    """Return the short form, as it is read from JSON."""
    form: dict[str, Any] = json.loads(json.dumps(assessment, default=brief_form))
    return form


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(picked=st.lists(st.tuples(st.integers(0, 199), CHANGES), min_size=2, max_size=20))
def test_together_as_alone(
    trained: tuple[Assessor, list[Job]], picked: list[tuple[int, dict[str, Any]]]
) -> None:
    assessor, jobs = trained
    asked = [replace(jobs[place], **changes) for place, changes in picked]
    together = assessor.assess_all(asked)
    for job, assessment in zip(asked, together, strict=True):
        (alone,) = assessor.assess_all([job])
        found, expected = numbers(in_brief(assessment)), numbers(in_brief(alone))
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)
        assert texts(in_brief(assessment)) == texts(in_brief(alone))
    assert any(one.failure and one.failure.causes and one.resources for one in assessor.assess_all(jobs))


@pytest.mark.slow
def test_the_prediction_alone_is_that_of_the_whole(trained: tuple[Assessor, list[Job]]) -> None:
    assessor, jobs = trained
    wholes = list(map(in_brief, assessor.assess_all(jobs)))
    found = list(map(in_brief, assessor.assess_all(jobs, prediction_only=True)))
    assert any("profile" in form and "io_rate" in form["resources"] for form in wholes)
    assert found != wholes
    left_out = {"profile", "cpu_efficiency", "io_rate"}
    for form in found:
        assert left_out.isdisjoint({*form, *form.get("resources", ())})
    for form in (*wholes, *found):
        form.pop("profile", None)
        for name in (*left_out, "rests_on"):
            form.get("resources", {}).pop(name, None)
    assert found == wholes


def numbers(value: Any, at: str = "") -> dict[str, float]:
    """Return all numbers of a JSON value by their place."""
    return {place: one for place, one in _leaves(value, at) if isinstance(one, int | float)}


def texts(value: Any, at: str = "") -> dict[str, Any]:
    """Return everything else."""
    return {place: one for place, one in _leaves(value, at) if not isinstance(one, int | float)}


def _leaves(value: Any, at: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _leaves(one, f"{at}/{name}")
    elif isinstance(value, list | tuple):
        for place, one in enumerate(value):
            yield from _leaves(one, f"{at}/{place}")
    else:
        yield at, value
