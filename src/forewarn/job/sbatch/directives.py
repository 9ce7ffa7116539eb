"""Finder of the lines that hold options: those with #SBATCH before the first command."""

from __future__ import annotations

import re
from dataclasses import dataclass

from forewarn.job.sbatch.option_table import version_of
from forewarn.job.sbatch.problems import Problem, ProblemCode
from forewarn.job.sbatch.word_split import SPACE, Word, WordError, split_words

MAGIC = "#SBATCH"
OLD_MAGIC = "#SLURM"  # sbatch reads it as well, with a warning
_DIVIDER = re.compile("hetjob|packjob", re.IGNORECASE)
# Lines that a person meant as options. Bounded, since a line of blanks would take time in its length squared.
_LOOKALIKE = re.compile(
    r"\s{0,80}(?:#{2,80}\s{0,80}|#\s{1,80}|(?<=\s)#)SBATCH\b|#(?:sbatch|Sbatch|SBACTH|SBTACH|SABTCH|SBATH|SBACH)\b"
)


@dataclass(frozen=True, slots=True)
class Directive:
    """One line of options."""

    line: int  # from 1
    words: tuple[Word, ...]
    component: int = 0  # of a heterogeneous job


@dataclass(frozen=True, slots=True)
class Directives:
    """The lines of options of a script, and those that only look like some."""

    read: tuple[Directive, ...]
    ignored: tuple[int, ...]  # lines with #SBATCH after the first command
    lookalikes: tuple[int, ...]  # lines before it that look like options, but are not read
    first_command: int | None
    problems: tuple[Problem, ...]


def read_directives(script: str, slurm: str | None = None) -> Directives:
    r"""Find the lines of options, as a version of Slurm does.

    >>> found = read_directives("#!/bin/sh\n#SBATCH -n 2 # two\n\n# a comment\ntrue\n#SBATCH -n 3\n")
    >>> [(d.line, [word.text for word in d.words]) for d in found.read], found.ignored, found.first_command
    ([(2, ['-n', '2'])], (6,), 5)
    """
    read, ignored, lookalikes, problems = list[Directive](), list[int](), list[int](), list[Problem]()
    first_command, component = None, 0
    old = slurm is not None and version_of(slurm) < (23, 2)
    for number, line in enumerate(script.split("\n"), 1):
        magic = next((magic for magic in (MAGIC, OLD_MAGIC) if line.startswith(magic)), None)
        if first_command is not None:
            if magic == MAGIC:
                ignored.append(number)
            continue
        if magic is None:
            if line.partition("\0")[0].lstrip(SPACE)[:1] not in ("", "#"):
                first_command = number
            elif _LOOKALIKE.match(line):
                lookalikes.append(number)
            continue
        if _DIVIDER.search(line):
            component += 1
            line = _DIVIDER.sub(lambda match: " " * len(match[0]), line, count=1)
        try:
            read.append(Directive(number, tuple(split_words(line, len(magic), old=old)), component))
        except WordError as error:
            code, values = ProblemCode.UNREADABLE_LINE, {"error": str(error)}
            problems.append(Problem("unreadable-line", code, values, number))
    return Directives(tuple(read), tuple(ignored), tuple(lookalikes), first_command, tuple(problems))
