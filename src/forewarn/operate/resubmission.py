"""The request of a job that is to be submitted again: its script, and what was requested beside it.

What stands on the command line of sbatch is in accounting (and in the controller's record since Slurm 25.05).
A job that was submitted over slurmrestd has no command line, nor has one whose Slurm keeps no accounting:
then its record shows what was requested otherwise than the script says.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from forewarn.assess.advice.script_changes import applied
from forewarn.assess.assessment import Change
from forewarn.errors import SchedulerError
from forewarn.job.columns import to_records
from forewarn.job.record import Job
from forewarn.job.sbatch.getopt import PlacedWord, read_options
from forewarn.job.sbatch.script import Script, read_script
from forewarn.job.sbatch.word_split import Word
from forewarn.job.units import format_duration, format_memory
from forewarn.sources.slurm.job_requests import LOGIN_ENVIRONMENT, JobSubmission
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.sources.slurm.script_submission import submission_from_script

_MEMORY = {"node": "mem", "cpu": "mem-per-cpu"}
# What the client did, and not the job; the cluster is the one that is asked, the script is Slurm's copy.
_NOT_THE_JOB = frozenset({"clusters", "parsable", "quiet", "test-only", "verbose", "wait", "wrap"})


def repeated_submission(
    jobs: Sequence[Job], script: str, changes: Sequence[Change], *, tasks: str | None
) -> JobSubmission:
    """Return what submits a job again with changes; of an array all, or the `tasks` named.

    `jobs` are its records: one, or those of an array's tasks.
    """
    job = jobs[0]
    options = () if job.submit_line is None else options_of_line(job.submit_line)
    read = read_script(script, command_line=options)
    own = [] if job.submit_line is not None else list(recorded_changes(jobs, read))
    if tasks is not None:
        own = [change for change in own if change.option != "array"]
        own.append(Change(option="array", before=None, after=tasks))
    changed_options = {change.option for change in changes}
    if changed_options & set(_MEMORY.values()):  # sbatch refuses two kinds
        options = tuple(word for word in options if not word.startswith("--mem"))
        read = read_script(script, command_line=options)
        changed_options |= set(_MEMORY.values())
    kept = [change for change in own if change.option not in changed_options]
    changed = applied(read, [*kept, *changes], options)
    folder = () if job.work_dir is None else (f"--chdir={job.work_dir}",)  # a relative one would count twice
    return submission_from_script(
        changed.text,
        (*changed.command_line, *folder),
        work_dir=job.work_dir or "/",
        name=job.name,
        environment=LOGIN_ENVIRONMENT,  # that of the first submission is not known
    )


def with_submit_line(scheduler: Scheduler, jobs: Sequence[Job]) -> list[Job]:
    """Add the command line of sbatch from accounting, where the controller does not report it."""
    if jobs[0].submit_line is not None:
        return list(jobs)
    try:
        records = [
            record
            for batch in scheduler.accounting_records([jobs[0].job_id])
            for record in to_records(batch.frame, Job)
        ]
    except SchedulerError:  # no accounting, or it is away: the record has to do
        return list(jobs)
    lines = {record.submit: record.submit_line for record in records if record.job_id == jobs[0].job_id}
    return [replace(job, submit_line=lines.get(job.submit)) for job in jobs]


def options_of_line(line: str) -> tuple[str, ...]:
    """Return the options of a command line of sbatch that concern the job, without the script.

    >>> options_of_line("sbatch --parsable -p long --mem=4G --exclusive job.sh a b")
    ('--partition=long', '--mem=4G', '--exclusive')
    """
    try:
        words = shlex.split(line)[1:]
    except ValueError:  # quotes that do not close
        return ()
    placed = [PlacedWord(Word(word, 0, len(word), plain=True), None) for word in words]
    given, problems, rest = read_options(placed, "command line")
    if problems:  # whoever reads these words will name them
        return tuple(words[: len(words) - len(rest)])
    return tuple(
        f"--{one.option}" if one.value is None else f"--{one.option}={one.value}"
        for one in given
        if one.option not in _NOT_THE_JOB
    )


def recorded_changes(jobs: Sequence[Job], script: Script) -> Iterator[Change]:
    """Yield what a job's record shows otherwise than its script requests.

    What Slurm keeps no record of (`--exclude`, the kind of GPUs) is as in the script.
    """
    job = jobs[0]
    wanted = script.job(job.cluster, job.user, job.submit)
    left_to_site = set((job.defaulted or "").split(","))
    for name in ("partition", "account", "qos", "reservation", "constraint"):
        value = getattr(job, name)
        if value is not None and name not in left_to_site and value != getattr(wanted, name):
            yield Change(option=name, before=None, after=value)
    formatted: tuple[tuple[str, int | None, int | None, Callable[[int], str]], ...] = (
        ("time", job.time_limit, wanted.time_limit, format_duration),
        ("nodes", job.nodes_asked, wanted.nodes_asked, str),
        ("ntasks", job.tasks_asked, wanted.tasks_asked, str),
        ("cpus-per-task", _cpus_per_task(job), _cpus_per_task(wanted), str),
        ("gpus", job.gpus_asked, wanted.gpus_asked, str),
    )
    for option, recorded, in_script, write in formatted:
        if recorded is not None and recorded != in_script:
            yield Change(option=option, before=None, after=write(recorded))
    memory = (job.memory_asked, job.memory_per)
    if memory[0] is not None and memory[1] in _MEMORY and memory != (wanted.memory_asked, wanted.memory_per):
        yield Change(option=_MEMORY[memory[1]], before=None, after=format_memory(memory[0]))
    if "array" not in script.options and (tasks := _tasks(jobs)):
        yield Change(option="array", before=None, after=tasks)


def _cpus_per_task(job: Job) -> int | None:
    """Return the CPUs of each task; None where they do not divide."""
    cpus, tasks = job.cpus_asked, job.tasks_asked or 1
    return None if cpus is None or cpus % tasks else cpus // tasks


def _tasks(jobs: Sequence[Job]) -> str | None:
    """Return the tasks of an array, as ``--array`` takes them."""
    listed = [job.array_tasks for job in jobs if job.array_tasks]
    listed += [str(job.array_task_id) for job in jobs if job.array_task_id is not None]
    return ",".join(dict.fromkeys(listed)) or None
