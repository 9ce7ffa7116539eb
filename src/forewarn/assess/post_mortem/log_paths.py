"""Find the output files of a job: as Slurm says, else by options of script and command, else the default."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from forewarn.assess.post_mortem.node_lists import names
from forewarn.job.record import Job
from forewarn.job.units import parse_job_id

DEFAULT, OF_ARRAYS = "slurm-%j.out", "slurm-%A_%a.out"
_PATTERN = re.compile(r"%(\d*)([%jJAaNnstuxbr])")
_LINE = re.compile(r"^#SBATCH\s+(.*)$")
_OPTIONS = {"-o": "out", "--output": "out", "-e": "err", "--error": "err", "-D": "dir", "--chdir": "dir"}


def filled(pattern: str, job: Job) -> str:
    """Fill a file name pattern of sbatch, as slurmd does for the batch step.

    >>> filled("%x-%A_%a.%4j.log", Job(cluster="c", job_id="7_3", submit=0, name="fit", raw_id=9))
    'fit-7_3.0009.log'
    """
    job_id = parse_job_id(job.job_id)
    array = job.array_job_id if job.array_job_id is not None else job_id.number
    task = job.array_task_id if job.array_task_id is not None else job_id.task
    # The record of an array task may lack Slurm's own number: then it is the array's.
    number = job.raw_id if job.raw_id is not None else job_id.number
    first = next(iter(names(job.nodes)), "")
    facts = {
        "j": str(number),
        "J": str(number),
        "A": str(array),
        "a": str(task) if task is not None else "4294967294",
        "N": first.partition(".")[0],
        "n": "0",
        "s": "batch",
        "t": "0",
        "u": job.user or "",
        "x": job.name or "",
        "b": str(task % 10) if task is not None else "0",
        "r": str(job.restarts or 0),
        "%": "%",
    }
    if "\\" in pattern:  # a backslash turns the patterns off
        return pattern.replace("\\", "")

    def fact(found: re.Match[str]) -> str:
        width, letter = found.groups()
        text = facts[letter]
        return text.zfill(min(int(width), 10)) if width and text.isdigit() else text

    return _PATTERN.sub(fact, pattern)


def log_paths(job: Job, *, script: str | None = None, outputs: Iterable[str | None] = ()) -> list[Path]:
    """Return where standard output and error went, the most certain places first.

    Parameters
    ----------
    script
        The batch script, where accounting keeps it.
    outputs
        Paths that Slurm gives (StdOut, StdErr), perhaps with patterns in them.
    """
    patterns = [path for path in outputs if path and path not in ("/dev/null", "(null)")]
    options: dict[str, str] = {}
    for words in (*_of_script(script or ""), *_of_command(job.submit_line or "")):
        options.update(_read(words))  # the command line comes last and overrides
    folder = job.work_dir or options.get("dir")  # includes --chdir already
    if not patterns:
        patterns = [options[name] for name in ("err", "out") if name in options]
        if "out" not in options:
            patterns.append(OF_ARRAYS if job.array_task_id is not None else DEFAULT)
    found = []
    for pattern in patterns:
        path = PurePosixPath(filled(pattern, job))
        if not path.is_absolute():
            if folder is None:
                continue
            path = PurePosixPath(folder) / path
        if str(path) != "/dev/null":
            found.append(Path(path))
    return list(dict.fromkeys(found))


def _of_script(script: str) -> Iterable[list[str]]:
    """Yield the options of a script, which end with its first command."""
    for line in script.splitlines():
        if found := _LINE.match(line):
            yield _words(found[1])
        elif line.strip() and not line.lstrip().startswith("#"):
            return


def _of_command(submit_line: str) -> Iterable[list[str]]:
    """Yield the options of the submit command; those after the script's name are the script's own."""
    words = _words(submit_line)
    if words and PurePosixPath(words[0]).name in ("sbatch", "srun", "salloc"):
        yield words[1:]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # quotes that do not close
        return text.split()


def _read(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            option = _OPTIONS.get(name)
            if option and equals:
                found[option] = value
            elif option and place + 1 < len(words):
                found[option] = words[place + 1]
        elif word[:2] in _OPTIONS:  # as one word (-oFILE) or two
            following = words[place + 1] if place + 1 < len(words) else ""
            found[_OPTIONS[word[:2]]] = word[2:].removeprefix("=") or following
    return {name: value for name, value in found.items() if value}
