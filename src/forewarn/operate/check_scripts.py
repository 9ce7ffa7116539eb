"""Scripts checked before they are submitted: one or many, perhaps with a better one written beside each."""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forewarn.assess import wording
from forewarn.assess.assessment import Assessment, Verdict
from forewarn.assess.assessor import Assessor
from forewarn.assess.script import LocalHost
from forewarn.errors import ForewarnError, UsageError
from forewarn.files import whole_file
from forewarn.job.moments import Moment, unix_seconds
from forewarn.operate.assess_jobs import asking
from forewarn.operate.script_check import CheckedSubmission, SubmissionContext, check, read_bytes
from forewarn.operate.workspace import Workspace
from forewarn.progress import Note, Working, logged

STDIN = "-"
NAMELESS = "sbatch"  # as Slurm calls a job whose script came by standard input
# Verdicts by what they ask of a person, the least first.
_BY_URGENCY = (Verdict.FINE, Verdict.CANNOT_SAY, Verdict.WARNING, Verdict.LIKELY_TO_FAIL)


@dataclass(frozen=True, slots=True)
class FixedScript:
    """A script that was written with advice followed, and what a check of it says."""

    path: str
    assessment: Assessment

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        made = self.assessment
        return {
            "path": self.path,
            "verdict": str(made.verdict),
            "summary": wording.summary(made),
            "risk": made.failure.probability if made.failure else None,
        }


@dataclass(frozen=True, slots=True)
class CheckedScript:
    """One script, what is said of it, and the better one where one was written."""

    script: str
    assessment: Assessment
    fixed: FixedScript | None = None

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        fixed = self.fixed.to_json() if self.fixed else None
        return {"script": self.script, **self.assessment.to_json(), "fixed": fixed}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What came of checking some scripts."""

    checked: tuple[CheckedScript, ...]
    errors: Mapping[str, str] = field(default_factory=dict)  # scripts that could not be checked, and why

    @property
    def worst(self) -> Verdict | None:
        """The worst verdict; None where a script that could not be checked is worse news."""
        found = max((one.assessment.verdict for one in self.checked), key=_BY_URGENCY.index, default=None)
        is_urgent = found in (Verdict.WARNING, Verdict.LIKELY_TO_FAIL)
        return found if is_urgent or not self.errors else None


def check_scripts(
    workspace: Workspace,
    *scripts: str | Path,
    user: str | None = None,
    cluster: str | None = None,
    at: Moment | None = None,
    options: Sequence[str] = (),
    ask_slurm: bool = True,
    fix: bool = False,
    standard_input: bytes | None = None,
    working: Working = nullcontext,
    note: Note = logged,
) -> CheckResult:
    """Check scripts: will they fail, why, and what to change.

    Parameters
    ----------
    user
        Whose jobs they will be; None: of whoever asks.
    at
        As if they were submitted then; None: now.
    options
        What sbatch would be given on its command line.
    ask_slurm
        Whether `sbatch --test-only` is asked too, where it is.
    fix
        Whether the advised script is written beside each, and checked as it was written.
    standard_input
        The script that is named ``-``.
    """
    config, who = workspace.config, user or getpass.getuser()
    zone = config.of_cluster(cluster).timezone or "UTC"
    moment = int(time.time()) if at is None else unix_seconds(at, zone)
    with ExitStack() as stack:
        assessor = _assessor(stack, workspace, cluster, who, moment, working, note)
        if assessor is not None and workspace.lives:
            stack.close()  # each script asks for itself

        def ask() -> AbstractContextManager[Assessor]:
            return asking(workspace, cluster=cluster, user=who, at=moment, working=working)

        submission = SubmissionContext(
            surroundings=LocalHost(),
            cluster=assessor.cluster if assessor else cluster or config.cluster or "",
            user=who,
            at=moment,
            work_dir=Path.cwd(),
            command_line=options,
            environment=os.environ,
            assessor=assessor,
            asking=ask if assessor is not None and workspace.lives else None,
            ask_slurm=ask_slurm,
        )
        made: list[CheckedScript] = []
        errors: dict[str, str] = {}
        for script in map(str, scripts):
            try:
                checked = _checked(script, submission, standard_input)
                fixed = _fixed(Path(script), checked, submission, note) if fix else None
                made.append(CheckedScript(script, checked.assessment, fixed))
            except UsageError as error:
                if len(scripts) == 1:
                    raise
                errors[script] = str(error)
    return CheckResult(tuple(made), errors)


def _assessor(
    stack: ExitStack,
    workspace: Workspace,
    cluster: str | None,
    user: str,
    at: int,
    working: Working,
    note: Note,
) -> Assessor | None:
    """Who can say what became of jobs like these; nobody where nothing is known."""
    try:
        return stack.enter_context(asking(workspace, cluster=cluster, user=user, at=at, working=working))
    except UsageError:
        raise
    except ForewarnError as error:
        note(f"only the script is checked: {error}")
        return None


def _checked(script: str, submission: SubmissionContext, standard_input: bytes | None) -> CheckedSubmission:
    if script == STDIN:
        return check(standard_input or b"", Path(STDIN), submission, name=NAMELESS)
    return check(read_bytes(Path(script)), Path(script), submission)


def _fixed(
    script: Path, checked: CheckedSubmission, submission: SubmissionContext, note: Note
) -> FixedScript | None:
    """Write it beside the script, in the place of one that was written there before."""
    raw = checked.fixed()
    if raw is None:
        note("there is nothing that could be fixed for you: no script written")
        return None
    beside = script.with_suffix(f".fixed{script.suffix}")
    with whole_file(beside) as partial:
        partial.write_bytes(raw)
        partial.chmod(script.stat().st_mode & 0o777)
    note(f"wrote {beside}")
    return FixedScript(str(beside), check(raw, beside, submission).assessment)
