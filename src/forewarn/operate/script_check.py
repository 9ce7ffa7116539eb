"""A script checked before it is submitted: what is wrong with it, what will become of it, what to change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from forewarn.assess.advice import ChangedJob
from forewarn.assess.advice.script_changes import Kind, applied, for_script
from forewarn.assess.assessment import Advice, Assessment, Change, Finding, Route
from forewarn.assess.assessor import Assessor
from forewarn.assess.codes import NoteCode, PassCode, StepCode
from forewarn.assess.defaults import with_defaults
from forewarn.assess.script import Host, ask_sbatch, findings, repaired
from forewarn.assess.script.repair import is_repaired
from forewarn.assess.script.sbatch_agreement import agreed, agreed_oddness
from forewarn.assess.verdict import judged
from forewarn.errors import UsageError
from forewarn.evidence import Statement
from forewarn.job.phase import Phase
from forewarn.job.record import Job, Partition
from forewarn.job.sbatch.script import Script, read_script
from forewarn.job.units import expand_nodes

LARGEST = 4 << 20  # bytes: Slurm's own limit of a script (max_script_size)
BESIDE = 1.1  # times what a program sizes itself to: it needs some beside its heap
OLD = 7 * 86400  # seconds after which a history is too old to say nothing about it


@dataclass(frozen=True, slots=True)
class CheckedSubmission:
    """What came of a check."""

    script: Script  # with what can be put right by itself put right
    raw: bytes
    name: str  # of the job, where the script does not say one
    assessment: Assessment

    def fixed(self) -> bytes | None:
        """The script, byte for byte, repaired and with the first advice followed; None: nothing to change.

        It names the job as the script's own name did: the history of that name goes on.
        """
        text = self.raw.decode("utf-8", "surrogateescape")
        script = read_script(repaired(text))
        changes = next((advice.changes for advice in self.assessment.advice if advice.changes), ())
        made = applied(script, changes).text
        if made == text:
            return None
        if "job-name" not in script.options and made.startswith("#!"):
            made = applied(read_script(made), [Change(option="job-name", before=None, after=self.name)]).text
        return made.encode("utf-8", "surrogateescape")


def read_bytes(path: Path) -> bytes:
    """A script as it lies there."""
    try:
        if not path.is_file():
            raise UsageError(f"{path}: {'no such file' if not path.exists() else 'not a plain file'}")
        size = path.stat().st_size
        if size > LARGEST:
            raise UsageError(f"{path}: {size:,} bytes; sbatch takes {LARGEST:,} at most")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionContext:
    """How scripts are to be submitted, and by what they are judged: one for many scripts."""

    surroundings: Host
    cluster: str
    user: str
    at: int
    work_dir: Path
    command_line: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    assessor: Assessor | None = None  # without one only what the script itself shows is said
    # Gives an assessor in its place, only while it is needed: others wait for an engine that is asked.
    asking: Callable[[], AbstractContextManager[Assessor]] | None = None
    ask_slurm: bool = True

    @contextmanager
    def with_assessor(self) -> Iterator[SubmissionContext]:
        """The same with an assessor to ask within the block."""
        if self.asking is None:
            yield self
            return
        with self.asking() as assessor:
            yield replace(self, assessor=assessor)

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """Those of the cluster, as far as they are known."""
        return self.assessor.machine.partitions if self.assessor else ()

    def read(self, text: str, command_line: Sequence[str] | None = None) -> Script:
        """A script as sbatch will read it."""
        typed = self.command_line if command_line is None else command_line
        return read_script(text, command_line=typed, environment=self.environment)

    def job(self, script: Script, name: str) -> Job:
        """The job that it will be, as its record will have it."""
        job = script.job(self.cluster, self.user, self.at, str(self.work_dir), script_name=name, job_id="")
        past = self.assessor.pasts.past_of(self.user) if self.assessor else None
        return with_defaults(job, self.partitions, past)


def check(
    raw: bytes, path: Path, submission: SubmissionContext, *, name: str | None = None
) -> CheckedSubmission:
    """Check a script that was read from `path`, and that `name` names the job of where it does not itself."""
    # What is no UTF-8 is of no use to anything but the shell.
    text, name = raw.decode("utf-8", "replace"), name or path.name
    script = submission.read(text)
    found = findings(script, path, submission.surroundings, work_dir=submission.work_dir)
    answer = None
    if submission.ask_slurm:
        answer = ask_sbatch(
            raw, submission.command_line, environment=submission.environment, folder=submission.work_dir
        )
    found = agreed(found, answer)
    # What can be put right by itself is, before the job is assessed: the risk is that of the script repaired.
    script = submission.read(repaired(text))
    with submission.with_assessor() as asked:
        job = asked.job(script, name)
        if asked.assessor is None:
            return CheckedSubmission(script, raw, name, _of_the_script_alone(submission, found, job))
        made = _assessed(asked, asked.assessor, script, job, name, found)
        limits = tuple(_notes(script, asked.assessor, submission.at))
    is_script = script.text.startswith("#!")  # else it is none yet, and nothing can be changed in it

    def typed(some: Sequence[Kind]) -> tuple[Kind, ...]:
        return tuple(for_script(one, script, str(path), submission.command_line) for one in some if is_script)

    made = judged(
        made,
        oddness=agreed_oddness(made.oddness, answer),
        advice=(*_fixes(found), *typed(made.advice)),
        savings=typed(made.savings),
        notes=(*made.notes, *limits),
    )
    return CheckedSubmission(script, raw, name, made)


def _assessed(
    submission: SubmissionContext,
    assessor: Assessor,
    script: Script,
    job: Job,
    name: str,
    found: Sequence[Finding],
) -> Assessment:
    def vary(changes: Sequence[Change]) -> ChangedJob:
        """The job of the script with changes made, read as a check of that script would."""
        made = applied(script, changes, submission.command_line)
        other = submission.read(made.text, made.command_line)
        return ChangedJob(submission.job(other, name), _kept_off(other))

    floor = script.memory_floor
    return assessor.assess(
        job,
        findings=found,
        memory_floor=int(floor.bytes * BESIDE) if floor else None,
        exclude=_kept_off(script),
        vary=vary,
    )


def _kept_off(script: Script) -> frozenset[str]:
    with suppress(ValueError):
        return frozenset(expand_nodes(script.options.value("exclude") or ""))
    return frozenset()


def _notes(script: Script, assessor: Assessor, at: int) -> Iterator[Statement]:
    """What limits the answer."""
    if len(script.components) > 1:
        yield Statement(NoteCode.FIRST_COMPONENT, {"components": len(script.components)})
    if script.request.array_tasks is not None:
        yield Statement(NoteCode.EACH_TASK)
    if at < assessor.at - 60:
        yield Statement(NoteCode.HISTORY_GOES_ON)
    elif at > assessor.known_until + OLD:
        yield Statement(NoteCode.HISTORY_IS_OLD, {"seconds": at - assessor.known_until})


def _fixes(found: Sequence[Finding]) -> Iterator[Advice]:
    """What keeps the job from running comes first; without a risk, as fixing one of two gains nothing."""
    for finding in found:
        if finding.severity == "error" and finding.fix:
            line, more = finding.line, {"by_itself": True} if is_repaired(finding) else {}
            step = Statement(StepCode.FIX_LINE, {"line": line}) if line else Statement(StepCode.FIX_SCRIPT)
            fix = Statement(finding.fix, {**finding.values, **more})
            yield Advice(
                steps=(step,),
                because=(Statement(finding.code, finding.values), fix),
                changes=(),
                risk_before=None,
                risk_after=None,
            )


def _of_the_script_alone(submission: SubmissionContext, found: Sequence[Finding], job: Job) -> Assessment:
    passed = (Statement(PassCode.SCRIPT_ALONE),)
    return judged(
        Assessment(
            cluster=submission.cluster,
            job_id=None,
            submit=None,
            user=submission.user,
            name=job.name,
            partition=job.partition,
            made_at=submission.at,
            phase=Phase.SUBMIT,
            route=Route(model=None, version=None, phase=Phase.SUBMIT, feature_set=None, passed=passed),
            findings=tuple(found),
            advice=tuple(_fixes(found)),
        )
    )
