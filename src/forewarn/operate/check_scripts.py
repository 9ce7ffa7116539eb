"""Check one or many job scripts, and write a fixed script beside each on request.

Each script is checked by `script_check.py`; here are the parts that all of them share: the assessor, the
environment, the errors, the files.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

from forewarn.assess.assessment import Assessment
from forewarn.assess.assessor import Assessor
from forewarn.assess.script import LocalHost
from forewarn.errors import ForewarnError, UsageError
from forewarn.job.moments import Moment, unix_seconds
from forewarn.operate.assess_jobs import open_assessor
from forewarn.operate.checked_scripts import CheckResult, check_each
from forewarn.operate.script_check import SubmissionContext, check
from forewarn.operate.workspace import Workspace
from forewarn.progress import Note, ShowActivity, log_note


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
    submit = workspace.now() if at is None else unix_seconds(at, zone)
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

        def assess(raw: bytes, path: Path, name: str) -> Assessment:
            return check(raw, path, submission, name=name).assessment

        return check_each(scripts, assess, fix=fix, standard_input=standard_input, note=note)


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
