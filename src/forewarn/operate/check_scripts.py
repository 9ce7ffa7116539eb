"""Check one or many job scripts, and write a fixed script beside each on request.

Each script is checked by `script_check.py`; here are the parts that all of them share: the assessor, the
environment, the errors, the files.
"""

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
from forewarn.operate.assess_jobs import open_assessor
from forewarn.operate.script_check import CheckedSubmission, SubmissionContext, check, read_bytes
from forewarn.operate.workspace import Workspace
from forewarn.progress import Note, ShowActivity, log_note

STDIN = "-"
STDIN_JOB_NAME = "sbatch"  # Slurm's name of a job whose script came by standard input
# Verdicts by urgency, the least urgent first.
_BY_URGENCY = (Verdict.FINE, Verdict.CANNOT_SAY, Verdict.WARNING, Verdict.LIKELY_TO_FAIL)


@dataclass(frozen=True, slots=True)
class FixedScript:
    """A script written with the advice applied, and its own assessment."""

    path: str
    assessment: Assessment

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        assessment = self.assessment
        return {
            "path": self.path,
            "verdict": str(assessment.verdict),
            "summary": wording.summary(assessment),
            "risk": assessment.failure.probability if assessment.failure else None,
        }


@dataclass(frozen=True, slots=True)
class CheckedScript:
    """One script, its assessment, and the fixed script where one was written."""

    script: str
    assessment: Assessment
    fixed: FixedScript | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        fixed = self.fixed.to_json() if self.fixed else None
        return {"script": self.script, **self.assessment.to_json(), "fixed": fixed}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The results of checking some scripts."""

    checked: tuple[CheckedScript, ...]
    errors: Mapping[str, str] = field(default_factory=dict)  # scripts that could not be checked, and why

    @property
    def worst(self) -> Verdict | None:
        """The most urgent verdict; None where none is urgent and a script could not be checked."""
        worst = max((one.assessment.verdict for one in self.checked), key=_BY_URGENCY.index, default=None)
        is_urgent = worst in (Verdict.WARNING, Verdict.LIKELY_TO_FAIL)
        return worst if is_urgent or not self.errors else None


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
    working: ShowActivity = nullcontext,
    note: Note = log_note,
) -> CheckResult:
    """Check scripts before they are submitted: whether they will fail, why, and what to change.

    Parameters
    ----------
    user
        Who will submit them; None: the user who runs this process.
    at
        When they will be submitted; None: now.
    options
        Arguments of sbatch, as on its command line.
    ask_slurm
        Whether to run `sbatch --test-only` too, where there is an sbatch.
    fix
        Whether to write a fixed script beside each, and to check that one too.
    standard_input
        The content of the script named ``-``.
    """
    config, submitter = workspace.config, user or getpass.getuser()
    zone = config.of_cluster(cluster).timezone or "UTC"
    submit = int(time.time()) if at is None else unix_seconds(at, zone)
    with ExitStack() as stack:
        assessor = _assessor(stack, workspace, cluster, submitter, submit, working, note)
        if assessor is not None and workspace.long_lived:
            stack.close()  # each script opens its own: an open one keeps the engine from updating

        def open_for_script() -> AbstractContextManager[Assessor]:
            return open_assessor(workspace, cluster=cluster, user=submitter, at=submit, working=working)

        submission = SubmissionContext(
            host=LocalHost(),
            cluster=assessor.cluster if assessor else cluster or config.cluster or "",
            user=submitter,
            at=submit,
            work_dir=Path.cwd(),
            command_line=options,
            environment=os.environ,
            assessor=assessor,
            open_assessor=open_for_script if assessor is not None and workspace.long_lived else None,
            ask_slurm=ask_slurm,
        )
        results: list[CheckedScript] = []
        errors: dict[str, str] = {}
        for script in map(str, scripts):
            try:
                checked = _check(script, submission, standard_input)
                fixed = _write_fixed(Path(script), checked, submission, note) if fix else None
                results.append(CheckedScript(script, checked.assessment, fixed))
            except UsageError as error:
                if len(scripts) == 1:
                    raise
                errors[script] = str(error)
    return CheckResult(tuple(results), errors)


def _assessor(
    stack: ExitStack,
    workspace: Workspace,
    cluster: str | None,
    user: str,
    at: int,
    working: ShowActivity,
    note: Note,
) -> Assessor | None:
    """Open an assessor for as long as the stack is open; None where there is no history to assess by."""
    try:
        return stack.enter_context(
            open_assessor(workspace, cluster=cluster, user=user, at=at, working=working)
        )
    except UsageError:
        raise
    except ForewarnError as error:
        note(f"checking only the script, without history: {error}")
        return None


def _check(script: str, submission: SubmissionContext, standard_input: bytes | None) -> CheckedSubmission:
    if script == STDIN:
        return check(standard_input or b"", Path(STDIN), submission, name=STDIN_JOB_NAME)
    return check(read_bytes(Path(script)), Path(script), submission)


def _write_fixed(
    script: Path, checked: CheckedSubmission, submission: SubmissionContext, note: Note
) -> FixedScript | None:
    """Write the fixed script beside the script, over an earlier one, and check it."""
    raw = checked.fixed()
    if raw is None:
        note("nothing to fix automatically: no script written")
        return None
    beside = script.with_suffix(f".fixed{script.suffix}")
    with whole_file(beside) as partial:
        partial.write_bytes(raw)
        partial.chmod(script.stat().st_mode & 0o777)
    note(f"wrote {beside}")
    return FixedScript(str(beside), check(raw, beside, submission).assessment)
