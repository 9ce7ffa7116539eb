"""The client: slurmrestd as a `Scheduler`."""

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
from forewarn.sources.slurm.one_job import parse_asked_id, only_job
from forewarn.sources.slurm.record_values import text
from forewarn.sources.slurm.scheduler import Diagnosis, HistoryPart, JobDetails, JobSubmission, RequestCounts
from forewarn.sources.slurm.windows import ENDED_STATES, TOO_MUCH, WindowAnswer, WindowLength, collect_windows
from forewarn.sources.slurmrestd import SlurmrestdSource
from forewarn.sources.slurmrestd.details import read_details
from forewarn.sources.slurmrestd.diagnosis import any_up, read_diagnosis
from forewarn.sources.slurmrestd.refusals import UNKNOWN_JOB
from forewarn.sources.slurmrestd.session import SHOW_SCRIPTS, Query, RestSession
from forewarn.sources.slurmrestd.site_defaults import SiteDefaults
from forewarn.sources.slurmrestd.submit_request import submit_request
from forewarn.sources.slurmrestd.versions import number_of

# Where nobody knows whether the controller got it, a job may not be submitted again.
_UNCERTAIN = (LostAnswerError, SlowAnswerError, ControllerDownError, DatabaseDownError)
_LIVE = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
_NO_SCRIPTS = 3600.0  # seconds until a site that told no script is asked for some again
_MOST_IDS = 100  # jobs that one question names: a URL has a longest length
_SETTLING = 1.0  # seconds in which a cancelled job shows that it is


class SlurmrestdScheduler:
    """One slurmrestd. `cluster` is the name that the site gives it, where it does not say it itself."""

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
        self._shows_scripts = False  # whether any has been seen
        self._no_scripts_until = 0.0
        self._cluster = cluster
        self._span = span or WindowLength()
        self._defaults = SiteDefaults()

    @cached_property
    def cluster(self) -> str:
        """The name configured, else what answers say (since v0.0.39), else the only one in accounting."""
        if self._cluster is not None:
            return self._cluster
        named = text("meta.slurm.cluster")(self.session.get_json("slurm", "ping"))
        if named is not None:
            return str(named)
        clusters = [one.get("name") for one in self.session.get_json("slurmdb", "clusters").get("clusters") or ()]
        if len(clusters) != 1:
            raise UsageError(f"which cluster is it? Accounting knows {clusters}: set `cluster`")
        return str(clusters[0])

    @property
    def request_counts(self) -> RequestCounts:
        """See `Scheduler`."""
        return RequestCounts(self.session.transport.requests, self.session.transport.received)

    # --- history -----------------------------------------------------------------------------------

    def history(self, since: int, until: int | None = None, *, steps: bool = True) -> Iterator[HistoryPart]:
        """See `Scheduler`."""
        clock = self.session.clock
        # What ends while we collect is not past yet: it comes with the last window, or next time.
        until = int(clock.now()) if until is None else min(until, int(clock.now()))

        def ask(begin: int, end: int) -> WindowAnswer:
            # Bare Unix seconds are refused up to v0.0.41; this form of them all versions take.
            query: Query = {"start_time": f"uts{begin}", "end_time": f"uts{end}", **self._flags(steps)}
            notes: list[str] = []
            if self._takes_lists:
                # Those that have not ended overlap every window: without them an answer holds what is new.
                ended = self._past("jobs", {**query, "state": ENDED_STATES}, notes)
                return WindowAnswer(ended, [], tuple(notes))
            overlapping = self._past("jobs", query, notes)
            cancelled = self._past("jobs", {**query, "state": self._cancelled}, notes)
            return WindowAnswer(overlapping, cancelled, tuple(notes))

        for piece in collect_windows(ask, since, until, self._span, clock):
            yield replace(piece, batch=self._added(piece.batch))

    def _added(self, batch: Batch) -> Batch:
        """With the facts of scripts."""
        if self._scripts is None or not self.session.served.has(self.session.version, SHOW_SCRIPTS):
            return batch
        return replace(batch, frame=self._scripts.added(batch.frame))

    def _read_scripts(self, jobs: Sequence[str]) -> Mapping[str, ScriptFacts] | None:
        """What accounting keeps of the scripts of some jobs, and shows us.

        They are told only of jobs that are named: with a window of time the answer is empty, and the answer
        about one job (`job/7`) leaves its script out. Whether the site keeps scripts is not told: where none
        has been seen yet and not one of some jobs has any, it is tried again later.
        """
        if self.session.clock.now() < self._no_scripts_until:
            return None
        query: Query = {"step": list(jobs), SHOW_SCRIPTS: "true", **self._flags(steps=False)}
        frames = self._frames(query) or self._frames(query)
        if frames is None:  # a history without scripts is one, too
            return None
        rows = [row for frame in frames for row in frame.select("job_id", *SCRIPT_FIELDS).iter_rows()]
        found = {job: ScriptFacts(*facts) for job, *facts in rows if facts[0] is not None}
        self._shows_scripts |= bool(found)
        if not self._shows_scripts:
            self._no_scripts_until = self.session.clock.now() + _NO_SCRIPTS
        return found

    def _frames(self, query: Query) -> list[pl.DataFrame] | None:
        """Jobs of accounting; None where it fails, which keeps nothing else from being asked."""
        try:
            return [batch.frame for batch in self._past("jobs", query, [], once=(SchedulerError,))]
        except SchedulerError:
            return None

    def accounting_records(self, job_ids: Sequence[str]) -> Iterator[Batch]:
        """See `Scheduler`."""
        if self._takes_lists:
            for at in range(0, len(job_ids), _MOST_IDS):
                query: Query = {"step": job_ids[at : at + _MOST_IDS], **self._flags(True)}
                yield from map(self._added, self._past("jobs", query, []))
            return
        # Up to v0.0.38 one at a time, an array as a whole.
        for number in dict.fromkeys(parse_asked_id(job_id).number for job_id in job_ids):
            try:
                yield from self._past(f"job/{number}", None, [])
            except RefusedError as error:
                if error.code != UNKNOWN_JOB:
                    raise

    @property
    def _takes_lists(self) -> bool:
        """Whether accounting can be asked for several states, or jobs, at once: by naming each."""
        return number_of(self.session.version) >= 40

    def _flags(self, steps: bool) -> dict[str, str]:
        """As far as the version knows them.

        All of them, or none: a server that is told one flag no longer sets the others, and cuts the times
        of jobs at the edges of the window.
        """
        flags = ["disable_truncate_usage_time", "show_duplicates", *([] if steps else ["skip_steps"])]
        return {flag: "true" for flag in flags if self.session.served.has(self.session.version, flag)}

    @property
    def _cancelled(self) -> str:
        """The state: up to v0.0.37 a name is not understood, and all jobs are the answer."""
        return "4" if number_of(self.session.version) < 39 else "CANCELLED"

    def _past(
        self,
        path: str,
        query: Query | None,
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
        """See `Scheduler`."""
        # Left to itself slurmrestd asks for what each node gives to each job too: half again the cost.
        for batch in self._present("jobs", {"flags": "ALL"} if self._takes_lists else None):
            self._defaults.learn(batch.frame)
            yield batch

    def nodes(self) -> Iterator[Batch]:
        """See `Scheduler`."""
        return self._present("nodes")

    def partitions(self) -> Iterator[Batch]:
        """See `Scheduler`. What their answer leaves out is known once live jobs have been looked at."""
        yield from map(self._defaults.fill, self._present("partitions"))

    def job(self, job_id: str) -> Iterator[Batch]:
        """See `Scheduler`."""
        asked = parse_asked_id(job_id)
        path = f"job/{asked.number}"
        try:
            yield from only_job(self._present(path), asked)
        except RefusedError as error:
            if error.code != UNKNOWN_JOB:
                raise
            try:
                yield from only_job(self._past(path, None, []), asked)
            except NoAccountingError:
                pass  # then nobody knows it
            except RefusedError as other:
                if other.code != UNKNOWN_JOB:
                    raise

    def details(self, job_id: str) -> JobDetails:
        """See `Scheduler`."""
        return read_details(self.session, parse_asked_id(job_id))

    def _present(self, path: str, query: Query | None = None) -> Iterator[Batch]:
        source = self._source("slurm", path)
        with self.session.get("slurm", path, query) as answer, _read_whole():
            yield from source.read(answer.body, answer.at)

    def _source(self, area: str, path: str) -> SlurmrestdSource:
        version = self.session.version
        old = area == "slurm" and number_of(version) < 39  # names no cluster
        options = SourceOptions(cluster=self.cluster if old else self._cluster)
        return SlurmrestdSource(Path(area, version, path), options)

    def ping(self) -> bool:
        """See `Scheduler`. slurmrestd says "down" of a controller that refuses the token, too."""
        try:
            return any_up(self.session.get_json("slurm", "ping"))
        except ControllerDownError:  # as 22.05 says it
            return False

    def diag(self) -> Diagnosis:
        """See `Scheduler`."""
        return read_diagnosis(self.session.get_json("slurm", "diag"))

    # --- changes -----------------------------------------------------------------------------------

    def submit(self, job: JobSubmission) -> str:
        """See `Scheduler`."""
        request = submit_request(job, self.session.version)
        answer = self.session.change("POST", "job/submit", request, once=_UNCERTAIN)
        result = answer.get("result") or {}
        if result.get("error_code"):
            raise RefusedError(f"the job was not taken: {result.get('error')}", result["error_code"])
        if not answer.get("job_id"):
            raise SchedulerError("the job was not taken, and Slurm does not say why")
        return str(answer["job_id"])

    def cancel(self, job_id: str) -> None:
        """See `Scheduler`."""
        asked = parse_asked_id(job_id)
        number = str(asked.number) if asked.task is None else self._number(job_id)
        answer = self.session.change("DELETE", f"job/{number}", once=_UNCERTAIN)
        if "status" not in answer and number_of(self.session.version) >= 39:
            self._check_cancelled(job_id)

    def _number(self, job_id: str) -> str:
        """Slurm's own number of an array's task: old versions take no other."""
        rows = [row for batch in self.job(job_id) for row in batch.frame["raw_id"] if row is not None]
        if not rows:
            raise RefusedError(f"job {job_id}: unknown", UNKNOWN_JOB)
        return str(rows[0])

    def _check_cancelled(self, job_id: str) -> None:
        """v0.0.39 to v0.0.41 say nothing when they refuse: the job itself shows it."""
        self.session.clock.sleep(_SETTLING)
        states = {state for batch in self.job(job_id) for state in batch.frame["state"]}
        if not states:
            raise RefusedError(f"job {job_id}: unknown", UNKNOWN_JOB)
        if left := states & _LIVE:
            raise RefusedError(
                f"job {job_id}: is still {', '.join(sorted(left))}: Slurm refused to cancel it"
            )

    def close(self) -> None:
        """See `Scheduler`."""
        self.session.transport.close()


@contextmanager
def _read_whole() -> Iterator[None]:
    """An answer that turns out to be cut short, or not to be one of Slurm's, may be whole next time."""
    try:
        yield
    except SourceError as error:
        raise MalformedAnswerError(f"slurmrestd: {error}") from None
