"""Scripts that were checked, here or by a service: reading them, their results, and the fixed files.

Nothing here needs a store or a model: `forewarn check` also uses it where a service assesses the job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forewarn.assess.advice.script_changes import applied
from forewarn.assess.assessment import Assessment, Change, Verdict
from forewarn.assess.script import repaired
from forewarn.errors import UsageError
from forewarn.files import whole_file
from forewarn.job.sbatch.script import read_script
from forewarn.progress import Note, log_note

STDIN = "-"
STDIN_JOB_NAME = "sbatch"  # Slurm's name of a job whose script came by standard input
LARGEST = 4 << 20  # bytes: Slurm's own limit of a script (max_script_size)
# Assesses the bytes of a script that was read from a path; the last is the job's name if it sets none.
AssessScript = Callable[[bytes, Path, str], Assessment]
# Verdicts by urgency, the least urgent first.
_BY_URGENCY = (Verdict.FINE, Verdict.CANNOT_SAY, Verdict.WARNING, Verdict.LIKELY_TO_FAIL)


@dataclass(frozen=True, slots=True)
class FixedScript:
    """A script written with the advice applied, and its own assessment."""

    path: str
    assessment: Assessment

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        from forewarn.assess import wording

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


def check_each(
    scripts: Sequence[str | Path],
    assess: AssessScript,
    *,
    fix: bool = False,
    standard_input: bytes | None = None,
    note: Note = log_note,
) -> CheckResult:
    """Check scripts one by one; of several, one that cannot be read does not stop the others."""
    results: list[CheckedScript] = []
    errors: dict[str, str] = {}
    for script in map(str, scripts):
        path, name = Path(script), STDIN_JOB_NAME if script == STDIN else Path(script).name
        try:
            raw = (standard_input or b"") if script == STDIN else read_bytes(path)
            assessment = assess(raw, path, name)
            fixed = _write_fixed(path, fixed_script(raw, name, assessment), assess, note) if fix else None
            results.append(CheckedScript(script, assessment, fixed))
        except UsageError as error:
            if len(scripts) == 1:
                raise
            errors[script] = str(error)
    return CheckResult(tuple(results), errors)


def read_bytes(path: Path) -> bytes:
    """Read a script's bytes, up to the size that sbatch accepts."""
    try:
        if not path.is_file():
            raise UsageError(f"{path}: {'no such file' if not path.exists() else 'not a plain file'}")
        size = path.stat().st_size
        if size > LARGEST:
            raise UsageError(f"{path}: {size:,} bytes; sbatch accepts at most {LARGEST:,}")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def fixed_script(raw: bytes, name: str, assessment: Assessment) -> bytes | None:
    """Return a script, repaired and with the first advice applied; None if nothing changes.

    The rest stays byte for byte. It sets the job name to the script's old file name, so that the job keeps
    the history of that name.
    """
    text = raw.decode("utf-8", "surrogateescape")
    script = read_script(repaired(text))
    changes = next((advice.changes for advice in assessment.advice if advice.changes), ())
    new = applied(script, changes).text
    if new == text:
        return None
    if "job-name" not in script.options and new.startswith("#!"):
        new = applied(read_script(new), [Change(option="job-name", before=None, after=name)]).text
    return new.encode("utf-8", "surrogateescape")


def _write_fixed(script: Path, raw: bytes | None, assess: AssessScript, note: Note) -> FixedScript | None:
    """Write the fixed script beside the script, over an earlier one, and check it."""
    if raw is None:
        note("nothing to fix automatically: no script written")
        return None
    beside = script.with_suffix(f".fixed{script.suffix}")
    with whole_file(beside) as partial:
        partial.write_bytes(raw)
        partial.chmod(script.stat().st_mode & 0o777)
    note(f"wrote {beside}")
    return FixedScript(str(beside), assess(raw, beside, beside.name))
