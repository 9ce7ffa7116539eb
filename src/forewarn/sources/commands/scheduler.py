"""`sacct`, `scontrol`, `sdiag`, `sbatch` and `scancel` as a `Scheduler`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import polars as pl

from forewarn.errors import CommandError, NoAccountingError, RefusedError, SchedulerError
from forewarn.job.sbatch.script_facts import ScriptFacts
from forewarn.job.sbatch.values import memory
from forewarn.sources.base import Batch, SourceOptions
from forewarn.sources.commands.changes import submit_options, update_fields
from forewarn.sources.commands.details import read_details
from forewarn.sources.commands.runner import Runner
from forewarn.sources.commands.sdiag import read_sdiag
from forewarn.sources.sacct import SacctSource
from forewarn.sources.sacct.scripts import Scripts, read_facts
from forewarn.sources.scontrol import ScontrolSource
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.job_requests import JobSubmission, JobUpdate
from forewarn.sources.slurm.one_job import only_job, only_users, require_job_id
from forewarn.sources.slurm.scheduler import Diagnosis, HistoryPart, JobDetails, RequestCounts
from forewarn.sources.slurm.windows import ENDED_STATES, TOO_MUCH, WindowAnswer, WindowLength, collect_windows

# Free text last, between fields of a fixed format: see docs/sources.md. Not every version has all of them.
FIELDS = (
    *("JobID", "JobIDRaw", "Cluster", "User", "UID", "Group", "Account", "Partition", "QOS", "QOSREQ"),
    *(
        "Reservation",
        "Constraints",
        "Submit",
        "Eligible",
        "Start",
        "End",
        "Timelimit",
        "Suspended",
        "Restarts",
    ),
    *(
        "State",
        "Reason",
        "ExitCode",
        "DerivedExitCode",
        "Priority",
        "ReqNodes",
        "ReqCPUS",
        "ReqMem",
        "ReqTRES",
    ),
    *("NNodes", "NCPUS", "AllocTRES", "NodeList", "NTasks", "TotalCPU", "MaxRSS", "TRESUsageInTot"),
    *("TRESUsageOutTot", "ConsumedEnergyRaw", "JobName", "WorkDir", "SubmitLine"),
)
_UNKNOWN_JOB = 2017
_MOST_IDS = 200  # jobs named in one command
# sacct prints while it reads: it can return more at a time than slurmrestd, and takes longer to start.
_SPAN = {"seconds": 6 * 3600, "longest": 24 * 3600, "rows": 20_000}


class CommandScheduler:
    """The Slurm whose commands are on PATH."""

    def __init__(
        self,
        runner: Runner | None = None,
        *,
        cluster: str | None = None,
        timezone: str | None = None,  # where the commands ignore the request for Unix seconds
        clock: Clock | None = None,
        span: WindowLength | None = None,
        user: str | None = None,  # only this user's jobs
        scripts: bool = True,  # read those of ended jobs, where accounting keeps them
    ) -> None:
        self._reads_scripts, self._scripts = scripts, Scripts(self._read_scripts)
        self._user = user
        self.runner = runner or Runner()
        self._cluster, self._timezone = cluster, timezone
        self._clock = clock or Clock()
        self._span = span or WindowLength(**_SPAN)

    @cached_property
    def cluster(self) -> str:
        """The configured name, else the controller's."""
        return self._cluster or self.setting("ClusterName")

    @property
    def request_counts(self) -> RequestCounts:
        """See `Scheduler`."""
        return RequestCounts(self.runner.runs, self.runner.received)

    @cached_property
    def _options(self) -> SourceOptions:
        return SourceOptions(cluster=self.cluster, timezone=self._timezone)

    def setting(self, name: str) -> str:
        """Return a value of the controller's configuration."""
        match = re.search(
            rf"^{name}\s*=\s*(\S+)", self.runner.text("scontrol", "show", "config"), re.MULTILINE
        )
        if match is None:
            raise CommandError(f"scontrol show config: no {name} in it")
        return match[1]

    @cached_property
    def _fields(self) -> str:
        printable = {name.lower() for name in self.runner.text("sacct", "--helpformat").split()}
        return ",".join(name for name in FIELDS if name.lower() in printable)

    # --- history -----------------------------------------------------------------------------------

    def history(self, since: int, until: int | None = None, *, steps: bool = True) -> Iterator[HistoryPart]:
        """Yield the history in windows of time."""
        now = int(self._clock.now())
        until = now if until is None else min(until, now)

        def ask(begin: int, end: int) -> WindowAnswer:
            times = ("-S", f"uts{begin}", "-E", f"uts{end}", *(() if steps else ("-X",)))
            notes: list[str] = []
            # Jobs that have not ended overlap every window: without them an answer holds only new ones.
            ended = self._accounts((*times, "-s", ",".join(ENDED_STATES)), notes)
            return WindowAnswer(ended, [], tuple(notes))

        for part in collect_windows(ask, since, until, self._span, self._clock):
            yield replace(part, batch=self._with_facts(part.batch))

    def accounting_records(self, job_ids: Sequence[str]) -> Iterator[Batch]:
        """Read the accounting records of some jobs."""
        for at in range(0, len(job_ids), _MOST_IDS):
            for batch in self._accounts(("-j", ",".join(job_ids[at : at + _MOST_IDS])), []):
                yield self._with_facts(batch)

    def _with_facts(self, batch: Batch) -> Batch:
        return replace(batch, frame=self._scripts.add_facts(batch.frame))

    def _read_scripts(self, jobs: Sequence[str]) -> Mapping[str, ScriptFacts]:
        """Return what accounting keeps of the scripts of some jobs, and shows to this user."""
        if not self._keeps_scripts:
            return {}
        try:
            return read_facts(self.runner.text("sacct", "-B", "-j", ",".join(jobs)))
        except CommandError:  # 20.11 has no -B; a history without scripts is still useful
            return {}

    @cached_property
    def _keeps_scripts(self) -> bool:
        try:
            return self._reads_scripts and "job_script" in self.setting("AccountingStoreFlags").lower()
        except SchedulerError:
            return False

    def _accounts(self, which: tuple[str, ...], notes: list[str]) -> list[Batch]:
        """Run sacct. -a: all users; -D: each run of a requeued job."""
        whose = ("-a",) if self._user is None else ("-u", self._user)
        command = ("sacct", *whose, "-P", "-D", *which, "-o", self._fields)
        with self.runner.output(*command, once=TOO_MUCH) as stream:
            source = SacctSource(Path("sacct"), self._options)
            batches = list(source.read(stream))
            notes += source.notes
            return batches

    # --- now ---------------------------------------------------------------------------------------

    def live_jobs(self) -> Iterator[Batch]:
        """Read the pending and running jobs."""
        return only_users(self._shown("job"), self._user)

    def nodes(self) -> Iterator[Batch]:
        """Read the nodes."""
        return self._shown("node")

    def partitions(self) -> Iterator[Batch]:
        """Read the partitions."""
        for batch in self._shown("partition"):
            frame = batch.frame
            if (default := self._memory_default) is not None:
                missing = pl.col("memory_default").is_null()
                frame = frame.with_columns(
                    memory_default=pl.when(missing).then(default[0]).otherwise("memory_default"),
                    memory_default_per=pl.when(missing)
                    .then(pl.lit(default[1]))
                    .otherwise("memory_default_per"),
                )
            yield replace(batch, frame=frame)

    @cached_property
    def _memory_default(self) -> tuple[int, str] | None:
        """The configured default memory in bytes, and what it is per."""
        for name, per in (("DefMemPerCPU", "cpu"), ("DefMemPerNode", "node")):
            try:
                return memory(self.setting(name)), per
            except (SchedulerError, ValueError):  # not set, or UNLIMITED
                continue
        return None

    def job(self, job_id: str) -> Iterator[Batch]:
        """Read one job, or the tasks of an array."""
        target = require_job_id(job_id)
        try:
            yield from only_job(self._shown("job", str(target.number)), target)
        except RefusedError as error:
            if error.code != _UNKNOWN_JOB:
                raise
            with suppress(NoAccountingError):  # then no one knows the job
                yield from only_job(self._accounts(("-j", str(target.number)), []), target)

    def details(self, job_id: str) -> JobDetails:
        """Read the details of one job: output files, script, steps, estimated start."""
        return read_details(self.runner, require_job_id(job_id))

    def _shown(self, *what: str) -> Iterator[Batch]:
        """Run scontrol. -a: hidden partitions too; -d -o: with allocated resources, one line each."""
        with self.runner.output("scontrol", "-a", "-d", "-o", "show", *what) as stream:
            seen_at = int(self._clock.now())
            first = stream.readline()
            # "No jobs in the system", "No nodes in the system"
            if not first.startswith(b"No "):
                stream.seek(0)
                source = ScontrolSource(Path("scontrol"), self._options)
                yield from source.read(stream, seen_at)

    def ping(self) -> bool:
        """Check whether the controller answers."""
        try:
            return bool(re.search(r"\bis UP\b", self.runner.text("scontrol", "ping")))
        except CommandError as error:
            if error.code is None:
                raise
            return False  # it fails when the controller is down

    def diag(self) -> Diagnosis:
        """Read the controller's diagnosis."""
        return read_sdiag(self.runner.text("sdiag"))

    # --- changes -----------------------------------------------------------------------------------

    def submit(self, job: JobSubmission) -> str:
        """Submit a batch job."""
        options = submit_options(job)
        output = self.runner.change("sbatch", "--parsable", *options, stdin=job.script)
        return output.strip().splitlines()[-1].partition(";")[0]  # 12;cluster in a federation

    def update(self, job_id: str, changes: JobUpdate) -> None:
        """Change a job: its fields first, then whether it is held."""
        assert changes.changes
        target = require_job_id(job_id)
        if fields := update_fields(changes):
            self.runner.change("scontrol", "update", f"JobId={target.job}", *fields)
        if changes.held is not None:
            self.runner.change("scontrol", "hold" if changes.held else "release", target.job)

    def cancel(self, job_id: str) -> None:
        """Cancel a job."""
        target = require_job_id(job_id)
        next(self._shown("job", target.job), None)
        self.runner.change("scancel", target.job)

    def close(self) -> None:
        """Release connections and files."""
