"""Check a script that a caller sends as text, from a machine that this process cannot see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from forewarn.assess.assessor import Assessor
from forewarn.assess.script.inspection import ScriptInspection
from forewarn.assess.script.unknown_host import UnknownHost
from forewarn.errors import ForewarnError, UsageError
from forewarn.job.sbatch.directives import MAGIC, OLD_MAGIC
from forewarn.operate.assess_jobs import open_assessor
from forewarn.operate.checked_scripts import STDIN_JOB_NAME
from forewarn.operate.script_check import CheckedSubmission, SubmissionContext, check
from forewarn.operate.workspace import Workspace

# Less than sbatch accepts (4 MB): a line costs a shared process some tenths of a millisecond. Options cost
# more, as they are read again for each change that is tried.
MOST_BYTES, MOST_LINES, MOST_OPTION_BYTES = 1_000_000, 20_000, 1 << 16
_OTHERWISE = "a script sent as text has at most {}; check a larger one with `forewarn check FILE`"


def check_text(
    workspace: Workspace,
    script: str,
    *,
    user: str,
    cluster: str | None = None,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    file_name: str | None = None,
    work_dir: str = "/",
    inspection: ScriptInspection | None = None,
) -> CheckedSubmission:
    """Check a script before it is submitted; nothing of this machine is looked at.

    Parameters
    ----------
    options
        Arguments of sbatch, as on its command line.
    environment
        Variables that set options of sbatch, such as SBATCH_PARTITION.
    file_name
        The script's file name, which is the job's name if it sets none.
    inspection
        What the caller's machine tells about the script; None: only its text is judged.
    """
    raw = script.encode("utf-8", "surrogatepass")
    if len(raw) > MOST_BYTES:
        raise UsageError(f"the script has {len(raw)} bytes; {_OTHERWISE.format(f'{MOST_BYTES} bytes')}")
    lines = raw.count(b"\n") + 1
    if lines > MOST_LINES:
        raise UsageError(f"the script has {lines} lines; {_OTHERWISE.format(f'{MOST_LINES} lines')}")
    if (options_size := _option_bytes(raw)) > MOST_OPTION_BYTES:
        most = _OTHERWISE.format(f"{MOST_OPTION_BYTES} bytes of them")
        raise UsageError(f"the script has {options_size} bytes of options (#SBATCH lines); {most}")
    if not script.strip():
        raise UsageError("the script is empty")
    if "\0" in script:
        raise UsageError("the script contains NUL bytes: sbatch accepts only text")

    def open_own() -> AbstractContextManager[Assessor]:
        return open_assessor(workspace, cluster=cluster, user=user)

    has_history = True
    name = cluster or workspace.config.cluster or ""
    try:
        with open_own() as assessor:
            name = assessor.cluster
    except UsageError:
        raise
    except ForewarnError:  # no history yet: the script alone is judged
        has_history = False
    submission = SubmissionContext(
        host=UnknownHost(),
        cluster=name,
        user=user,
        at=workspace.now(),
        work_dir=Path(work_dir),
        command_line=tuple(options),
        environment=environment or {},
        open_assessor=open_own if has_history else None,
        ask_slurm=False,
    )
    return check(
        raw, Path(file_name or "-"), submission, name=file_name or STDIN_JOB_NAME, inspection=inspection
    )


def _option_bytes(raw: bytes) -> int:
    size = 0
    for line in raw.split(b"\n"):
        if line.startswith((MAGIC.encode(), OLD_MAGIC.encode())):
            size += len(line)
        elif line.strip() and not line.lstrip().startswith(b"#"):
            break  # the first command: sbatch reads no options after it
    return size
