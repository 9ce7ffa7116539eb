"""The client of slurmrestd, as a `Scheduler`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import polars as pl

from forewarn.errors import (
    ControllerDownError,
    DatabaseDownError,
    LostAnswerError,
    MalformedAnswerError,
    NoAccountingError,
    RefusedError,
    SchedulerError,
    SlowAnswerError,
    SourceError,
    UsageError,
)
from forewarn.job.sbatch.script_facts import ScriptFacts
from forewarn.sources.base import Batch, SourceOptions
from forewarn.sources.sacct.scripts import SCRIPT_FIELDS, Scripts
from forewarn.sources.slurm.job_requests import JobSubmission, JobUpdate
from forewarn.sources.slurm.one_job import only_job, require_job_id
from forewarn.sources.slurm.record_values import text
from forewarn.sources.slurm.scheduler import Diagnosis, HistoryPart, JobDetails, RequestCounts
from forewarn.sources.slurm.windows import ENDED_STATES, TOO_MUCH, WindowAnswer, WindowLength, collect_windows
from forewarn.sources.slurmrestd import SlurmrestdSource
from forewarn.sources.slurmrestd.details import read_details
from forewarn.sources.slurmrestd.diagnosis import any_up, read_diagnosis
from forewarn.sources.slurmrestd.refusals import UNKNOWN_JOB
from forewarn.sources.slurmrestd.session import SHOW_SCRIPTS, QueryParameters, RestSession
from forewarn.sources.slurmrestd.site_defaults import SiteDefaults
from forewarn.sources.slurmrestd.submit_request import submit_request, update_request
from forewarn.sources.slurmrestd.versions import number_of

# Errors after which the controller may have received the job: it may not be submitted again.
_UNCERTAIN = (LostAnswerError, SlowAnswerError, ControllerDownError, DatabaseDownError)
_LIVE = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
_NO_SCRIPTS = 3600.0  # seconds until scripts are requested again from a site that returned none
_MOST_IDS = 100  # jobs named in one request: the length of a URL is limited
_SETTLING = 1.0  # seconds until a cancelled job shows its new state


class SlurmrestdScheduler:
    """One slurmrestd. `cluster` is the configured name; without it, the one in its answers is used."""

    def __init__(
        self,
        session: RestSession,
        *,
        cluster: str | None = None,
        span: WindowLength | None = None,
        scripts: bool = True,  # whether those of ended jobs are read, where accounting keeps them
    ) -> None:
        self.session = session
        self._scripts = Scripts(self._read_scripts, at_once=_MOST_IDS) if scripts else None
        self._shows_scripts = False  # whether any answer had one
        self._no_scripts_until = 0.0
        self._cluster = cluster
        self._span = span or WindowLength()
        self._defaults = SiteDefaults()

    @cached_property
    def cluster(self) -> str:
        """The configured name, else that in answers (since v0.0.39), else the only one in accounting."""
        if self._cluster is not None:
            return self._cluster
        name = text("meta.slurm.cluster")(self.session.get_json("slurm", "ping"))
        if name is not None:
            return str(name)
        clusters = [
            one.get("name") for one in self.session.get_json("slurmdb", "clusters").get("clusters") or ()
        ]
        if len(clusters) != 1:
            raise UsageError(f"accounting has the clusters {clusters}: set `cluster` to one of them")
        return str(clusters[0])

    @property
    def request_counts(self) -> RequestCounts:
        """See `Scheduler`."""
        return RequestCounts(self.session.transport.requests, self.session.transport.received)

    # --- history -----------------------------------------------------------------------------------

    def history(self, since: int, until: int | None = None, *, steps: bool = True) -> Iterator[HistoryPart]:
        """Yield the history in windows of time."""
        clock = self.session.clock
        # Jobs that end during the collection come with the last window, or next time.
        until = int(clock.now()) if until is None else min(until, int(clock.now()))

        def ask(begin: int, end: int) -> WindowAnswer:
            # Bare Unix seconds are refused up to v0.0.41; all versions accept this form.
            query: QueryParameters = {
                "start_time": f"uts{begin}",
                "end_time": f"uts{end}",
                **self._flags(steps),
            }
            notes: list[str] = []
            if self._takes_lists:
                # Jobs that have not ended overlap every window: without them an answer holds only new ones.
                ended = self._past("jobs", {**query, "state": ENDED_STATES}, notes)
                return WindowAnswer(ended, [], tuple(notes))
            overlapping = self._past("jobs", query, notes)
            cancelled = self._past("jobs", {**query, "state": self._cancelled}, notes)
            return WindowAnswer(overlapping, cancelled, tuple(notes))

        for part in collect_windows(ask, since, until, self._span, clock):
            yield replace(part, batch=self._with_scripts(part.batch))

    def _with_scripts(self, batch: Batch) -> Batch:
        """Add the facts of scripts."""
        if self._scripts is None or not self.session.served.has(self.session.version, SHOW_SCRIPTS):
            return batch
        return replace(batch, frame=self._scripts.add_facts(batch.frame))

    def _read_scripts(self, jobs: Sequence[str]) -> Mapping[str, ScriptFacts] | None:
        """Return what accounting keeps of the scripts of some jobs, and shows to this user.

        Scripts are returned only for jobs named in the query: with a window of time the answer is empty, and
        the answer to one job (`job/7`) omits its script. The API does not show whether the site keeps
        scripts: where none has been returned yet, and none of these jobs has one, they are requested again
        later.
        """
        if self.session.clock.now() < self._no_scripts_until:
            return None
        query: QueryParameters = {"step": list(jobs), SHOW_SCRIPTS: "true", **self._flags(steps=False)}
        frames = self._frames(query) or self._frames(query)
        if frames is None:  # a history without scripts is still useful
            return None
        rows = [row for frame in frames for row in frame.select("job_id", *SCRIPT_FIELDS).iter_rows()]
        found = {job: ScriptFacts(*facts) for job, *facts in rows if facts[0] is not None}
        self._shows_scripts |= bool(found)
        if not self._shows_scripts:
            self._no_scripts_until = self.session.clock.now() + _NO_SCRIPTS
        return found

    def _frames(self, query: QueryParameters) -> list[pl.DataFrame] | None:
        """Request jobs of accounting; None where that fails, so that other requests go on."""
        try:
            return [batch.frame for batch in self._past("jobs", query, [], once=(SchedulerError,))]
        except SchedulerError:
            return None

    def accounting_records(self, job_ids: Sequence[str]) -> Iterator[Batch]:
        """Read the accounting records of some jobs."""
        if self._takes_lists:
            for at in range(0, len(job_ids), _MOST_IDS):
                query: QueryParameters = {"step": job_ids[at : at + _MOST_IDS], **self._flags(True)}
                yield from map(self._with_scripts, self._past("jobs", query, []))
            return
        # Up to v0.0.38 one at a time, an array as a whole.
        for number in dict.fromkeys(require_job_id(job_id).number for job_id in job_ids):
            try:
                yield from self._past(f"job/{number}", None, [])
            except RefusedError as error:
                if error.code != UNKNOWN_JOB:
                    raise

    @property
    def _takes_lists(self) -> bool:
        """Whether accounting accepts several states, or jobs, in one request."""
        return number_of(self.session.version) >= 40

    def _flags(self, steps: bool) -> dict[str, str]:
        """Return the flags that the version has.

        All of them, or none: a server that gets one flag no longer sets the others, and cuts the times of
        jobs at the edges of the window.
        """
        flags = ["disable_truncate_usage_time", "show_duplicates", *([] if steps else ["skip_steps"])]
        return {flag: "true" for flag in flags if self.session.served.has(self.session.version, flag)}

    @property
    def _cancelled(self) -> str:
        """The state CANCELLED: up to v0.0.37 a name is not understood, and the answer has all jobs."""
        return "4" if number_of(self.session.version) < 39 else "CANCELLED"

    def _past(
        self,
        path: str,
        query: QueryParameters | None,
        notes: list[str],
        once: tuple[type[SchedulerError], ...] = TOO_MUCH,
    ) -> list[Batch]:
        source = self._source("slurmdb", path)
        with self.session.get("slurmdb", path, query, once=once) as answer, _read_whole():
            batches = list(source.read(answer.body))
            notes += source.notes
            return batches

    # --- now ---------------------------------------------------------------------------------------

    def live_jobs(self) -> Iterator[Batch]:
        """Read the pending and running jobs."""
        # By default slurmrestd also collects what each node gives to each job: half again the cost.
        for batch in self._live("jobs", {"flags": "ALL"} if self._takes_lists else None):
            self._defaults.learn(batch.frame)
            yield batch

    def nodes(self) -> Iterator[Batch]:
        """Read the nodes."""
        return self._live("nodes")

    def partitions(self) -> Iterator[Batch]:
        """Read the partitions."""
        yield from map(self._defaults.fill, self._live("partitions"))

    def job(self, job_id: str) -> Iterator[Batch]:
        """Read one job, or the tasks of an array."""
        target = require_job_id(job_id)
        path = f"job/{target.number}"
        try:
            yield from only_job(self._live(path), target)
        except RefusedError as error:
            if error.code != UNKNOWN_JOB:
                raise
            try:
                yield from only_job(self._past(path, None, []), target)
            except NoAccountingError:
                pass  # then no one knows the job
            except RefusedError as other:
                if other.code != UNKNOWN_JOB:
                    raise

    def details(self, job_id: str) -> JobDetails:
        """Read the details of one job: output files, script, steps, estimated start."""
        return read_details(self.session, require_job_id(job_id))

    def _live(self, path: str, query: QueryParameters | None = None) -> Iterator[Batch]:
        source = self._source("slurm", path)
        with self.session.get("slurm", path, query) as answer, _read_whole():
            yield from source.read(answer.body, answer.at)

    def _source(self, area: str, path: str) -> SlurmrestdSource:
        version = self.session.version
        old = area == "slurm" and number_of(version) < 39  # names no cluster
        options = SourceOptions(cluster=self.cluster if old else self._cluster)
        return SlurmrestdSource(Path(area, version, path), options)

    def ping(self) -> bool:
        """Check whether the controller answers."""
        try:
            return any_up(self.session.get_json("slurm", "ping"))
        except ControllerDownError:  # the answer of 22.05
            return False

    def diag(self) -> Diagnosis:
        """Read the controller's diagnosis."""
        return read_diagnosis(self.session.get_json("slurm", "diag"))

    # --- changes -----------------------------------------------------------------------------------

    def submit(self, job: JobSubmission) -> str:
        """Submit a batch job."""
        request = submit_request(job, self.session.version)
        answer = self.session.change("POST", "job/submit", request, once=_UNCERTAIN)
        result = answer.get("result") or {}
        if result.get("error_code"):
            raise RefusedError(f"the job was not accepted: {result.get('error')}", result["error_code"])
        if not answer.get("job_id"):
            raise SchedulerError("the job was not accepted, and Slurm gives no reason")
        return str(answer["job_id"])

    def update(self, job_id: str, changes: JobUpdate) -> None:
        """Change a job."""
        assert changes.changes
        target = require_job_id(job_id)
        number = str(target.number) if target.task is None else self._number(job_id)
        request = update_request(changes, self.session.version)
        answer = self.session.change("POST", f"job/{number}", request, once=_UNCERTAIN)
        for one in answer.get("results") or ():
            if isinstance(one, dict) and one.get("error_code"):
                words = one.get("why") or one.get("error")
                raise RefusedError(f"job {job_id}: Slurm says: {words}", one["error_code"])

    def cancel(self, job_id: str) -> None:
        """Cancel a job."""
        target = require_job_id(job_id)
        number = str(target.number) if target.task is None else self._number(job_id)
        answer = self.session.change("DELETE", f"job/{number}", once=_UNCERTAIN)
        if "status" not in answer and number_of(self.session.version) >= 39:
            self._check_cancelled(job_id)

    def _number(self, job_id: str) -> str:
        """Return Slurm's own number of an array task: old versions accept no other."""
        rows = [row for batch in self.job(job_id) for row in batch.frame["raw_id"] if row is not None]
        if not rows:
            raise RefusedError(f"job {job_id}: unknown", UNKNOWN_JOB)
        return str(rows[0])

    def _check_cancelled(self, job_id: str) -> None:
        """Check that a job was cancelled: v0.0.39 to v0.0.41 report nothing when they refuse."""
        self.session.clock.sleep(_SETTLING)
        states = {state for batch in self.job(job_id) for state in batch.frame["state"]}
        if not states:
            raise RefusedError(f"job {job_id}: unknown", UNKNOWN_JOB)
        if left := states & _LIVE:
            raise RefusedError(
                f"job {job_id}: is still {', '.join(sorted(left))}: Slurm refused to cancel it"
            )

    def close(self) -> None:
        """Release connections and files."""
        self.session.transport.close()


@contextmanager
def _read_whole() -> Iterator[None]:
    """Turn an answer that is truncated, or not Slurm's, into an error after which it is requested again."""
    try:
        yield
    except SourceError as error:
        raise MalformedAnswerError(f"slurmrestd: {error}") from None
