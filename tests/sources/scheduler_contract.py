"""What every live scheduler keeps: a test suite that each implementation inherits.

A subclass gives the fixture `scheduler`, which acts as an ordinary user, and the names of two partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from forewarn.errors import RefusedError, UsageError
from forewarn.job.columns import SCHEMAS
from forewarn.sources.slurm.job_requests import JobUpdate
from forewarn.sources.slurm.scheduler import UNKNOWN_JOB, Scheduler
from forewarn.sources.slurm.script_submission import submission_from_script

SCRIPT = """#!/bin/bash
#SBATCH --job-name=contract --hold -N1 -n2 --mem=100M -t 5
#SBATCH --output=out.%j --comment=first
sleep 30
"""


def rows_of(scheduler: Scheduler, job_id: str) -> list[dict[str, Any]]:
    """Return one job, or the tasks of an array."""
    return [row for batch in scheduler.job(job_id) for row in batch.frame.iter_rows(named=True)]


class SchedulerContract:
    """The tests; `scheduler` is a fixture of the subclass."""

    partition: str
    other_partition: str
    work_dir = "/tmp"

    @pytest.fixture
    def submit(self, scheduler: Scheduler) -> Iterator[Callable[..., str]]:
        """Submit the script, held, with further options; what is left is cancelled at the end."""
        jobs: list[str] = []

        def submit(*options: str) -> str:
            given = ["-p", self.partition, *options]
            jobs.append(scheduler.submit(submission_from_script(SCRIPT, given, work_dir=self.work_dir)))
            return jobs[-1]

        yield submit
        for job in jobs:
            if any(row["end"] is None for row in rows_of(scheduler, job)):
                scheduler.cancel(job)

    def test_a_submitted_job_is_listed_until_it_is_cancelled(
        self, scheduler: Scheduler, submit: Callable[..., str]
    ) -> None:
        job_id = submit()
        (row,) = rows_of(scheduler, job_id)
        assert (row["state"], row["name"], row["partition"]) == ("PENDING", "contract", self.partition)
        assert (row["nodes_asked"], row["tasks_asked"], row["time_limit"]) == (1, 2, 300)
        assert (row["memory_asked"], row["memory_per"]) == (100 << 20, "node")
        assert row["cluster"] == scheduler.cluster
        assert (row["reconstructed"], row["outcome"], row["start"], row["end"]) == (False, None, None, None)
        assert row["submit"] <= row["seen_at"]
        assert job_id in [job for batch in scheduler.live_jobs() for job in batch.frame["job_id"]]
        scheduler.cancel(job_id)
        (row,) = rows_of(scheduler, job_id)
        assert (row["state"], row["outcome"]) == ("CANCELLED", "cancelled")
        assert row["end"] >= row["submit"]

    def test_a_pending_job_is_changed(self, scheduler: Scheduler, submit: Callable[..., str]) -> None:
        job_id = submit()
        changes = JobUpdate(time_limit=421, memory_per_node=200 << 20, partition=self.other_partition)
        scheduler.update(job_id, changes)
        (row,) = rows_of(scheduler, job_id)
        assert (row["time_limit"], row["memory_asked"], row["memory_per"]) == (480, 200 << 20, "node")
        assert (row["partition"], row["state"]) == (self.other_partition, "PENDING")
        scheduler.update(job_id, JobUpdate(comment="second; $(touch /tmp/x) 'x'"))

    def test_a_job_is_held_and_released(self, scheduler: Scheduler, submit: Callable[..., str]) -> None:
        job_id = submit()
        assert "Held" in rows_of(scheduler, job_id)[0]["reason"]
        scheduler.update(job_id, JobUpdate(held=False))
        (row,) = rows_of(scheduler, job_id)
        assert row["state"] == "RUNNING" or "Held" not in (row["reason"] or "")

    def test_an_array_is_changed_and_cancelled_as_a_whole(
        self, scheduler: Scheduler, submit: Callable[..., str]
    ) -> None:
        job_id = submit("--array=1-3")
        scheduler.update(job_id, JobUpdate(time_limit=600))
        assert {row["time_limit"] for row in rows_of(scheduler, job_id)} == {600}
        scheduler.cancel(job_id)
        assert {row["state"] for row in rows_of(scheduler, job_id)} == {"CANCELLED"}

    @pytest.mark.parametrize("job_id", ["999999999", "999999999_3"])
    def test_an_unknown_job_is_refused(self, scheduler: Scheduler, job_id: str) -> None:
        assert rows_of(scheduler, job_id) == []
        with pytest.raises(RefusedError) as error:
            scheduler.update(job_id, JobUpdate(time_limit=60))
        assert error.value.code == UNKNOWN_JOB
        with pytest.raises(RefusedError) as error:
            scheduler.cancel(job_id)
        assert error.value.code == UNKNOWN_JOB

    def test_what_cannot_be_is_refused(self, scheduler: Scheduler, submit: Callable[..., str]) -> None:
        with pytest.raises(RefusedError):
            submit("-p", "nowhere")
        job_id = submit()
        with pytest.raises(RefusedError):
            scheduler.update(job_id, JobUpdate(partition="nowhere"))
        (row,) = rows_of(scheduler, job_id)
        assert row["partition"] == self.partition
        scheduler.cancel(job_id)
        with pytest.raises(RefusedError):
            scheduler.update(job_id, JobUpdate(time_limit=60))

    def test_what_is_no_request_is_an_error_of_usage(self, scheduler: Scheduler) -> None:
        with pytest.raises(UsageError, match="nothing to change"):
            scheduler.update("1", JobUpdate())
        for text in ("", "x", "1; true", "-1"):
            with pytest.raises(UsageError):
                scheduler.update(text, JobUpdate(time_limit=60))
            with pytest.raises(UsageError):
                scheduler.cancel(text)

    def test_records_have_the_schema(self, scheduler: Scheduler) -> None:
        for kind, batches in (("node", scheduler.nodes()), ("partition", scheduler.partitions())):
            frames = [batch.frame for batch in batches]
            assert sum(frame.height for frame in frames) > 0
            for frame in frames:
                assert dict(frame.drop("line").schema) == SCHEMAS[kind]
                assert not frame["reconstructed"].any()
        assert {self.partition, self.other_partition} <= {
            name for batch in scheduler.partitions() for name in batch.frame["name"]
        }
        assert scheduler.ping()
        assert scheduler.diag().at > 0
        assert scheduler.request_counts.requests > 0
