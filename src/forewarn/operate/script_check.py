"""Check one job script: read it as sbatch does, find its errors, assess the job it will be, advise changes.

`check_scripts.py` does this for files, with all that several scripts share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from forewarn.assess.advice.changed_job import ChangedJob
from forewarn.assess.advice.script_changes import Proposal, applied, for_script
from forewarn.assess.assessment import Assessment, Change, Finding
from forewarn.assess.assessor import Assessor
from forewarn.assess.codes import NoteCode
from forewarn.assess.defaults import with_defaults
from forewarn.assess.script import Host, repaired
from forewarn.assess.script.inspection import ScriptInspection, inspect_script
from forewarn.assess.script.sbatch_agreement import reconcile_findings, reconcile_oddness
from forewarn.assess.script.script_alone import assess_script_alone, fixes
from forewarn.assess.verdict import with_verdict
from forewarn.evidence import Statement
from forewarn.job.record import Job, Partition
from forewarn.job.sbatch.body import Body
from forewarn.job.sbatch.script import Script, read_script
from forewarn.job.units import expand_nodes
from forewarn.operate.checked_scripts import fixed_script

BEYOND_HEAP = 1.1  # a program needs so many times the heap that the script sets (java -Xmx)
OLD = 7 * 86400  # seconds after which the age of a history is worth a note


@dataclass(frozen=True, slots=True)
class CheckedSubmission:
    """The result of checking one script."""

    script: Script  # with the automatic repairs applied
    raw: bytes
    name: str  # the job's name if the script sets none
    assessment: Assessment

    def fixed(self) -> bytes | None:
        """Return the script, repaired and with the first advice applied; None if nothing changes."""
        return fixed_script(self.raw, self.name, self.assessment)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionContext:
    """How scripts will be submitted, and the assessor of their jobs: the same for many scripts."""

    host: Host
    cluster: str
    user: str
    at: int
    work_dir: Path
    command_line: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    assessor: Assessor | None = None  # None: only the script itself is checked
    # Opens an assessor for one script only, as an open one keeps the engine from updating.
    open_assessor: Callable[[], AbstractContextManager[Assessor]] | None = None
    ask_slurm: bool = True

    @contextmanager
    def with_assessor(self) -> Iterator[SubmissionContext]:
        """Yield this context with an open assessor."""
        if self.open_assessor is None:
            yield self
            return
        with self.open_assessor() as assessor:
            yield replace(self, assessor=assessor)

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The cluster's partitions, as far as they are known."""
        return self.assessor.machine.partitions if self.assessor else ()

    def read(self, text: str, command_line: Sequence[str] | None = None, body: Body | None = None) -> Script:
        """Read a script as sbatch will; `body` is that of a script with other options, if it was read."""
        arguments = self.command_line if command_line is None else command_line
        return read_script(text, command_line=arguments, environment=self.environment, body=body)

    def job(self, script: Script, name: str) -> Job:
        """Build the job that the script will become, with the defaults that Slurm will fill in."""
        job = script.job(self.cluster, self.user, self.at, str(self.work_dir), script_name=name, job_id="")
        history = self.assessor.histories.history_of(self.user) if self.assessor else None
        return with_defaults(job, self.partitions, history)


def check(
    raw: bytes,
    path: Path,
    submission: SubmissionContext,
    *,
    name: str | None = None,
    inspection: ScriptInspection | None = None,
) -> CheckedSubmission:
    """Check a script that was read from `path`.

    Parameters
    ----------
    name
        The job's name if the script sets none.
    inspection
        What the machine that it is submitted from tells about it; None: inspect it on the context's host.
    """
    # Bytes that are not UTF-8 matter to nobody but the shell.
    text, name = raw.decode("utf-8", "replace"), name or path.name
    script = submission.read(text)
    if inspection is None:
        inspection = inspect_script(
            raw,
            script,
            path,
            submission.host,
            work_dir=submission.work_dir,
            options=submission.command_line,
            environment=submission.environment,
            ask_slurm=submission.ask_slurm,
        )
    answer = inspection.answer
    script_findings = reconcile_findings(inspection.findings, answer)
    # Automatic repairs come before the assessment: the risk is that of the repaired script.
    if (better := repaired(text)) != text:
        script = submission.read(better)
    with submission.with_assessor() as context:
        job = context.job(script, name)
        if context.assessor is None:
            return CheckedSubmission(
                script, raw, name, assess_script_alone(job, script_findings, at=submission.at)
            )
        assessment = _assess(context, context.assessor, script, job, name, script_findings)
        notes = tuple(_notes(script, context.assessor, submission.at))
    is_script = script.text.startswith("#!")  # without that line there is no script to change yet

    def with_commands(advice: Sequence[Proposal]) -> tuple[Proposal, ...]:
        if not is_script:
            return ()
        return tuple(for_script(one, script, str(path), submission.command_line) for one in advice)

    assessment = with_verdict(
        assessment,
        oddness=reconcile_oddness(assessment.oddness, answer),
        advice=(*fixes(script_findings), *with_commands(assessment.advice)),
        savings=with_commands(assessment.savings),
        notes=(*assessment.notes, *notes),
    )
    return CheckedSubmission(script, raw, name, assessment)


def _assess(
    submission: SubmissionContext,
    assessor: Assessor,
    script: Script,
    job: Job,
    name: str,
    script_findings: Sequence[Finding],
) -> Assessment:
    def vary(changes: Sequence[Change]) -> ChangedJob:
        """Build the job of the changed script, as a check of that script would."""
        changed = applied(script, changes, submission.command_line)
        changed_script = submission.read(changed.text, changed.command_line, script.body)
        return ChangedJob(submission.job(changed_script, name), _excluded_nodes(changed_script))

    floor = script.memory_floor
    return assessor.assess(
        job,
        findings=script_findings,
        memory_floor=int(floor.bytes * BEYOND_HEAP) if floor else None,
        exclude=_excluded_nodes(script),
        vary=vary,
    )


def _excluded_nodes(script: Script) -> frozenset[str]:
    with suppress(ValueError):
        return frozenset(expand_nodes(script.options.value("exclude") or ""))
    return frozenset()


def _notes(script: Script, assessor: Assessor, at: int) -> Iterator[Statement]:
    """Yield notes on the limits of the assessment."""
    if len(script.components) > 1:
        yield Statement(NoteCode.FIRST_COMPONENT, {"components": len(script.components)})
    if script.request.array_tasks is not None:
        yield Statement(NoteCode.EACH_TASK)
    if at < assessor.at - 60:
        yield Statement(NoteCode.HISTORY_GOES_ON)
    elif at > assessor.known_until + OLD:
        yield Statement(NoteCode.HISTORY_IS_OLD, {"seconds": at - assessor.known_until})
