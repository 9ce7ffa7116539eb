"""A script checked before it is submitted: what is wrong with it, what will become of it, what to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
BESIDE = 1.1  # times what a program sizes itself to: it needs some beside its heap
OLD = 7 * 86400  # seconds after which a history is too old to say nothing about it
TOO_SHORT = 0.5  # probability of outrunning the limit from which it is a finding


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of a check."""

    script: Script
    assessment: Assessment

    def fixed(self, raw: bytes) -> bytes | None:
        """The script, byte for byte, with the first advice followed and its line ends mended.

        None where there is nothing to change.
        """
        text = raw.decode("utf-8", "surrogateescape")
        mended = text.replace("\r\n", "\n")
        changes = next((advice.changes for advice in self.assessment.advice if advice.changes), ())
        made = script_diff(mended, changes)[0] if changes else mended
        return made.encode("utf-8", "surrogateescape") if made != text else None


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
    # What is no UTF-8 is of no use to anything but the shell.
    text = read_bytes(path).decode("utf-8", "replace")
    script = read_script(text, command_line=command_line, environment=environment or {})
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
        memory_floor=int(floor.bytes * BESIDE) if floor else None,
    )
    made = replace(made, notes=(*made.notes, *_notes(script, assessor, at)))
    if made.run_time and (made.run_time.over_limit or 0.0) >= TOO_SHORT:
        finding = Finding(
            rule="limit-too-short",
            what=f"with {made.run_time.over_limit:.0%} it needs longer than its time limit",
            line=script.options.line("time"),
        )
        made = judged(replace(made, findings=(*made.findings, finding)))
    own = made.advice if text.startswith("#!") else ()  # else it is no script yet
    advice = (*_mended(made), *(for_script(one, script, str(path), command_line) for one in own))
    return Checked(script, replace(made, advice=advice))


def _notes(script: Script, assessor: Assessor, at: int) -> Iterator[str]:
    """What limits the answer."""
    if len(script.components) > 1:
        yield f"of the {len(script.components)} components of this job only the first is assessed"
    if script.request.array_tasks is not None:
        yield "it is an array: this is said of each of its tasks"
    if at < assessor.at - 60:
        yield "the history here goes on after that moment, and all of it counts"
    elif at > assessor.known_until + OLD:
        days = (at - assessor.known_until) // 86400
        yield f"the history here ends {days:,} days before: `forewarn collect` or `ingest` brings what is new"


def _mended(made: Assessment) -> tuple[Advice, ...]:
    """What is certain to go wrong comes first: mend it, and what is left is the model's risk."""
    left = made.failure.probability if made.failure else 0.0
    return tuple(
        Advice(
            what=f"mend line {finding.line}" if finding.line else "mend the script",
            why=f"{finding.what}; {finding.fix}",
            changes=(),
            risk_before=1.0,
            risk_after=left,
        )
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
