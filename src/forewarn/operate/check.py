"""A script checked before it is submitted: what is wrong with it, what will become of it, what to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forewarn.assess.advice.written import for_script
from forewarn.assess.assessment import Advice, Assessment, Finding, Route
from forewarn.assess.assessor import Assessor
from forewarn.assess.defaults import with_defaults
from forewarn.assess.script import Surroundings, findings, script_diff, test_only
from forewarn.assess.verdict import judged
from forewarn.errors import UsageError
from forewarn.job.record import Partition
from forewarn.job.sbatch.script import Script, read_script
from forewarn.store.base import Store

LARGEST = 4 << 20  # bytes: Slurm's own limit of a script (max_script_size)
TOO_SHORT = 0.5  # probability of outrunning the limit from which it is a finding


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of a check."""

    script: Script
    assessment: Assessment

    @property
    def fixed(self) -> str | None:
        """The script that follows the first advice on what it asks for; None where there is none."""
        changes = next((advice.changes for advice in self.assessment.advice if advice.changes), None)
        return script_diff(self.script.text, changes)[0] if changes else None


def read_text(path: Path) -> str:
    """A script's text. What is no UTF-8 in it stays readable: sbatch takes any bytes but NUL."""
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise UsageError(f"{path}: {size:,} bytes; sbatch takes {LARGEST:,} at most")
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def check(
    path: Path,
    surroundings: Surroundings,
    *,
    cluster: str,
    user: str,
    at: int,
    work_dir: Path,
    command_line: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    store: Store | None = None,
    assessor: Assessor | None = None,
    ask_slurm: bool = True,
) -> Checked:
    """Check a script that is to be submitted from `work_dir`.

    Without an assessor only what the script itself shows is said.
    """
    script = read_script(read_text(path), command_line=command_line, environment=environment or {})
    partitions: tuple[Partition, ...] = assessor.machine.partitions if assessor else ()
    job = script.job(
        cluster,
        user,
        at,
        str(work_dir),
        script_name=path.name,
        job_id="",
        partitions=partitions,
    )
    found = [*findings(script, path, surroundings, work_dir=work_dir)]
    if ask_slurm and (told := test_only(path, command_line, environment=environment)):
        found.append(told)
    if assessor is None:
        return Checked(script, _of_the_script_alone(cluster, user, at, found, job.name, job.partition))
    floor = script.memory_floor
    made = assessor.assess(
        with_defaults(job, partitions, store),
        findings=found,
        memory_floor=floor.bytes if floor else None,
    )
    if made.run_time and (made.run_time.over_limit or 0.0) >= TOO_SHORT:
        finding = Finding(
            rule="limit-too-short",
            what=f"with {made.run_time.over_limit:.0%} it needs longer than its time limit",
            line=script.options.line("time"),
        )
        made = judged(replace(made, findings=(*made.findings, finding)))
    mended = _mended(made)
    advice = (*mended, *(for_script(one, script.text, path.name) for one in made.advice))
    return Checked(script, replace(made, advice=advice))


def _mended(made: Assessment) -> tuple[Advice, ...]:
    """What is certain to go wrong comes first: mend it, and what is left is the model's risk."""
    left = made.failure.probability if made.failure else 0.0
    return tuple(
        Advice(what=finding.fix, why=finding.what, changes=(), risk_before=1.0, risk_after=left)
        for finding in made.findings
        if finding.severity == "error" and finding.fix
    )


def _of_the_script_alone(
    cluster: str, user: str, at: int, found: Sequence[Finding], name: str | None, partition: str | None
) -> Assessment:
    passed = ("nothing is known of earlier jobs here: only the script was looked at",)
    return judged(
        Assessment(
            cluster=cluster,
            job_id=None,
            submit=None,
            user=user,
            name=name,
            partition=partition,
            made_at=at,
            phase="submit",
            route=Route(model=None, version=None, phase="submit", feature_set=None, passed=passed),
            findings=tuple(found),
        )
    )
