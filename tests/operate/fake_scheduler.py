"""A cluster in memory, as a `Scheduler`: jobs that wait, run and end, and daemons that go away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from forewarn.errors import (
    ControllerDownError,
    DatabaseDownError,
    NoAccountingError,
    SchedulerError,
    UnreachableError,
)
from forewarn.job.columns import complete
from forewarn.sources.base import Batch
from forewarn.sources.slurm.job_requests import JobSubmission, JobUpdate
from forewarn.sources.slurm.one_job import only_job, require_job_id
from forewarn.sources.slurm.scheduler import Diagnosis, HistoryPart, JobDetails, RequestCounts
from tests.sources.fake_slurmrestd import FakeTime

Row = dict[str, Any]


class KilledError(BaseException):
    """kill -9: nothing catches it."""


@dataclass
class FakeScheduler:
    """`ended` is what accounting has, `live` what the controller has; `away` daemons do not answer."""

    time: FakeTime
    ended: list[Row] = field(default_factory=list)
    live: list[Row] = field(default_factory=list)
    away: dict[str, SchedulerError] = field(default_factory=dict)
    queue: int | None = 0
    keeps_accounting: bool = True
    window: int = 3600
    piece: int = 3  # rows; each is a write of the collector
    cluster: str = "c"
    calls: list[str] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)  # of the histories asked for
    asked_about: list[list[str]] = field(default_factory=list)
    dies_after: int | None = None  # pieces of history
    given: Counter[str] = field(default_factory=Counter)  # how often a history had a job

    @property
    def request_counts(self) -> RequestCounts:
        return RequestCounts(len(self.calls), 100 * len(self.calls))

    def goes(self, daemon: str) -> None:
        kinds = {
            "slurmrestd": UnreachableError,
            "slurmctld": ControllerDownError,
            "slurmdbd": DatabaseDownError,
        }
        self.away[daemon] = kinds[daemon](f"{daemon} does not answer")

    def _ask(self, what: str, daemon: str) -> None:
        self.calls.append(what)
        for name in ("slurmrestd", daemon):
            if name in self.away:
                raise self.away[name]

    def history(self, since: int, until: int | None = None, *, steps: bool = True) -> Iterator[HistoryPart]:
        self.begins.append(since)
        assert until is not None
        if not self.keeps_accounting:
            raise NoAccountingError("accounting is disabled")
        begin = since
        while begin < until:
            self._ask("history", "slurmdbd")
            end = min(until, begin + self.window)
            last = end == until
            rows = [
                row
                for row in self.ended
                if begin <= row.get("end", end) < end or (last and row.get("end", end) == end)
            ]
            parts = [rows[at : at + self.piece] for at in range(0, len(rows), self.piece)]
            for place, part in enumerate(parts, 1):
                if self.dies_after is not None:
                    self.dies_after -= 1
                    if self.dies_after < 0:
                        raise KilledError
                reached = end if place == len(parts) else begin
                self.given.update(row["job_id"] for row in part)
                yield HistoryPart(_batch(part), reached, (reached - since) / (until - since))
            begin = end

    def accounting_records(self, job_ids: Sequence[str]) -> Iterator[Batch]:
        self._ask("accounted", "slurmdbd")
        self.asked_about.append(list(job_ids))
        numbers = {job_id.partition("_")[0] for job_id in job_ids if "_" not in job_id}
        yield _batch(
            [
                row
                for row in self.ended
                if row["job_id"] in job_ids or row["job_id"].partition("_")[0] in numbers
            ]
        )

    def live_jobs(self) -> Iterator[Batch]:
        self._ask("jobs", "slurmctld")
        seen = {"seen_at": int(self.time.now), "source": "slurmrestd", "reconstructed": False}
        yield _batch([row | seen for row in self.live])

    def job(self, job_id: str) -> Iterator[Batch]:
        yield from only_job(self.live_jobs(), require_job_id(job_id))

    def details(self, job_id: str) -> JobDetails:
        self._ask(f"details {job_id}", "slurmctld")
        return JobDetails()

    def nodes(self) -> Iterator[Batch]:
        self._ask("nodes", "slurmctld")
        node = {"cluster": "c", "name": "n1", "state": "IDLE", "cpu_load": self.time.now % 7}
        yield _batch([node | {"seen_at": int(self.time.now), "source": "s", "reconstructed": False}], "node")

    def partitions(self) -> Iterator[Batch]:
        self._ask("partitions", "slurmctld")
        yield from ()

    def ping(self) -> bool:
        return True

    def diag(self) -> Diagnosis:
        self._ask("diag", "slurmctld")
        return Diagnosis(at=int(self.time.now), database_queue=self.queue)

    def submit(self, job: JobSubmission) -> str:
        raise NotImplementedError

    def update(self, job_id: str, changes: JobUpdate) -> None:
        raise NotImplementedError

    def cancel(self, job_id: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


def job(number: int | str, submit: int, **fields: Any) -> Row:
    """A job as accounting tells it, or, without `end`, as the controller does."""
    base = {"cluster": "c", "job_id": str(number), "submit": submit, "user": "ann", "state": "PENDING"}
    if "end" in fields:
        final = {"seen_at": fields["end"], "source": "slurmrestd", "reconstructed": True}
        base |= {"state": "COMPLETED", "outcome": "completed", "start": submit} | final
    return base | fields


def _batch(rows: list[Row], kind: str = "job") -> Batch:
    frame = pl.DataFrame([{"line": 1, **row} for row in rows], infer_schema_length=None)
    if not rows:
        frame = pl.DataFrame(schema={"line": pl.Int64})
    return Batch(kind, complete(frame, kind))
