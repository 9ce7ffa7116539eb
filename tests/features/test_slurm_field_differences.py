"""Fields that the controller and accounting tell differently: what features see of them."""

from __future__ import annotations

import polars as pl
import pytest

from forewarn.features.batch import inputs_of
from forewarn.features.inputs import COLUMNS, treated, treated_job
from forewarn.features.missing_fields import MissingField, with_missing_field_treatments
from forewarn.features.slurm_field_differences import DIFFERENT, HIDDEN, NOT_READ, with_slurm_treatments
from forewarn.features.table import feature_frames
from forewarn.job.columns import JOB_SCHEMA, to_records
from forewarn.job.outcomes import POLICIES
from forewarn.job.record import Job
from forewarn.store.base import ClusterFacts
from tests.features.histories import history

FACTS = with_slurm_treatments(ClusterFacts())
GB = 1 << 30
LIVE = {
    "tasks_asked": 4,
    "dependency": "afterok:1",
    "defaulted": "qos",
    "priority": 7,
    "submit_line": "sbatch x",
    "script_hash": "abc",
    "script_language": "python",
    "script_launcher": "srun",
    "script_modules": "gcc",
}


@pytest.mark.parametrize(
    ("asked", "per", "cpus", "nodes", "seen"),
    [
        (GB, "cpu", 8, 2, (4 * GB, "node")),
        (GB, "node", 8, 2, (GB, "node")),
        (GB, None, 1, 1, (GB, "node")),
        (GB, "cpu", None, 2, (GB, "cpu")),
        (GB, "gpu", 8, 2, (GB, "gpu")),
        (None, None, 8, 2, (None, None)),
    ],
)
def test_memory_is_counted_for_a_node(
    asked: int | None, per: str | None, cpus: int | None, nodes: int, seen: tuple[int | None, str | None]
) -> None:
    job = Job(
        cluster="c",
        job_id="1",
        submit=0,
        memory_asked=asked,
        memory_per=per,
        cpus_asked=cpus,
        nodes_asked=nodes,
    )
    once = treated_job(job, FACTS)
    assert (once.memory_asked, once.memory_per) == seen
    frame = pl.DataFrame([{name: getattr(job, name) for name in JOB_SCHEMA}], schema=JOB_SCHEMA)
    assert treated(frame, FACTS).select("memory_asked", "memory_per").row(0) == seen
    assert treated(frame, ClusterFacts()).equals(frame)


def test_what_only_the_controller_tells_changes_no_feature() -> None:
    jobs = history(300)
    live = jobs.with_columns(pl.lit(value).alias(name) for name, value in LIVE.items())
    for phase in ("submit", "start"):
        one, other = (
            pl.concat(
                feature_frames(
                    inputs_of([{"submit": f, "start": f, "now": jobs}], FACTS, POLICIES["wasted"]),
                    phase,
                    "generic",
                )
            )
            for f in (jobs, live)
        )
        assert one.equals(other)
    (job,) = to_records(live[:1].select(JOB_SCHEMA.keys()), Job)
    assert all(getattr(treated_job(job, FACTS), name) is None for name in LIVE)


def test_the_table_names_fields_that_there_are() -> None:
    assert DIFFERENT.keys() <= JOB_SCHEMA.keys()
    assert {name for name, it in DIFFERENT.items() if it.treatment == HIDDEN} == LIVE.keys()
    assert not {name for name, it in DIFFERENT.items() if it.treatment == NOT_READ} & set(COLUMNS)


def test_other_policies_stand_beside_them() -> None:
    def finding(field: str) -> MissingField:
        return MissingField("c", field, 40, 90, 1.0, 0.1, {"fill": 3})

    facts = with_missing_field_treatments(
        FACTS, [finding("cpus_asked"), finding("tasks_asked"), finding("memory_asked")]
    )
    assert facts.fields["cpus_asked"] == {"fill": 3}
    assert facts.fields["tasks_asked"] == {"hide": True}, "a value that is hidden is not filled"
    assert facts.fields["memory_asked"] == {"per": "node", "fill": 3}
    assert with_missing_field_treatments(facts, []) == FACTS
