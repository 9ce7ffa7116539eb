"""What a script leaves open, filled in as Slurm will."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.assess.defaults import with_defaults
from forewarn.assess.user_history import UserHistory, read_history
from forewarn.config import Config
from forewarn.job.columns import to_frame
from forewarn.job.record import Job, Observation, Partition
from forewarn.job.sbatch.script import read_script
from forewarn.store.base import ClusterFacts, Store
from forewarn.store.opening import open_store

NOW, MB = 1_700_000_000, 1 << 20
OPEN = Job(
    cluster="c", job_id="", submit=NOW, user="ann", name="a.sh", cpus_asked=4, nodes_asked=1, tasks_asked=4
)
RECORDED = {"partition": "main", "time_limit": 3600, "memory_asked": 400 * MB, "memory_per": "node"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(Config(home=tmp_path / "home")) as store:
        yield store


def remember(store: Store, *jobs: dict[str, Any]) -> None:
    """Earlier jobs of ann's, one a minute, the last given the newest."""
    known = [
        replace(OPEN, job_id=str(number), submit=NOW - 60 * (len(jobs) - number), tasks_asked=None, **job)
        for number, job in enumerate(jobs)
    ]
    seen = [Observation(seen_at=j.submit, source="sacct", reconstructed=True, record=j) for j in known]
    with store.writing() as writer:
        writer.observe("job", to_frame(seen))


def past(store: Store) -> UserHistory:
    return read_history(store, "c", NOW, ClusterFacts(), ["ann"])


def test_a_file_of_accounting_knows_what_slurm_filled_in(store: Store) -> None:
    """There are no partitions: an earlier job that agrees in all that the script says was the same script."""
    remember(store, RECORDED, {**RECORDED, "name": "b.sh", "time_limit": 60}, {**RECORDED, "cpus_asked": 8})
    job = with_defaults(OPEN, (), past(store))
    assert {field: getattr(job, field) for field in RECORDED} == RECORDED
    other = with_defaults(replace(OPEN, time_limit=60), (), past(store))
    assert (other.partition, other.memory_asked) == ("main", 400 * MB), "of b.sh, which had this limit"
    unlike = with_defaults(replace(OPEN, cpus_asked=2), (), past(store))
    assert (unlike.partition, unlike.time_limit, unlike.memory_asked) == (None, None, None)


def test_what_a_partition_says_is_certain(store: Store) -> None:
    remember(store, RECORDED)
    main = Partition(
        **{"cluster": "c", "name": "short", "is_default": True, "time_max": 600},  # type: ignore[arg-type]
        **{"memory_default": 100 * MB, "memory_default_per": "cpu"},  # type: ignore[arg-type]
    )
    job = with_defaults(OPEN, (main,), past(store))
    assert (job.partition, job.time_limit, job.memory_asked, job.memory_per) == (
        "short",
        600,
        100 * MB,
        "cpu",
    )


def test_a_job_whose_partition_was_the_sites_choice_names_the_default(store: Store) -> None:
    remember(store, {"partition": "main", "defaulted": "partition,qos"}, {"partition": "low"})
    assert with_defaults(OPEN, (Partition(cluster="c", name="main"),), past(store)).partition == "main"


def test_quality_of_service_is_that_of_jobs_that_named_none(store: Store) -> None:
    remember(store, {**RECORDED, "qos": "normal", "defaulted": "qos"}, {**RECORDED, "qos": "high"})
    assert with_defaults(OPEN, (), past(store)).qos == "normal"


def test_a_whole_nodes_memory_is_compared_as_accounting_counts_it(store: Store) -> None:
    remember(store, {**RECORDED, "memory_asked": 64_000 * MB})
    job = with_defaults(replace(OPEN, memory_asked=0, memory_per="node"), (), past(store))
    assert (job.memory_asked, job.time_limit) == (64_000 * MB, 3600)


def test_a_limit_that_accounting_never_had_is_looked_for_in_earlier_jobs(store: Store) -> None:
    remember(store, RECORDED, {**RECORDED, "time_limit": None})
    assert with_defaults(OPEN, (), past(store)).time_limit == 3600


def test_of_several_partitions_the_first_that_is_known_decides() -> None:
    """A script read with partitions at hand and one read without are filled in alike."""
    partitions = tuple(
        Partition(cluster="c", name=name, is_default=name == "main", time_default=seconds, time_max=9000)
        for name, seconds in (("main", None), ("short", 600), ("long", 7200))
    )
    elsewhere = Partition(cluster="other", name="main", is_default=True, time_default=1)
    for named, expected in ((None, ("main", 9000)), ("gone,long,short", ("gone,long,short", 7200))):
        options = "" if named is None else f"#SBATCH --partition={named}\n"
        script = read_script(f"#!/bin/bash\n{options}true\n")
        filled = with_defaults(script.job("c", "ann", NOW), (elsewhere, *partitions))
        read = script.job("c", "ann", NOW, partitions=(elsewhere, *partitions))
        assert (filled.partition, filled.time_limit) == (read.partition, read.time_limit) == expected
