"""All options of a submission: the script's, overridden by the environment's, then by the command line's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from forewarn.job.sbatch.directives import Directive
from forewarn.job.sbatch.environment import VARIABLES
from forewarn.job.sbatch.getopt import GivenOption, PlacedWord, read_options
from forewarn.job.sbatch.option_table import OPTIONS, Argument
from forewarn.job.sbatch.problems import Problem, ProblemCode, ProblemFix
from forewarn.job.sbatch.word_split import Word


@dataclass(frozen=True)
class SbatchOptions:
    """The options as given, in the order in which sbatch takes them: the last of an option counts."""

    entries: tuple[GivenOption, ...]
    problems: tuple[Problem, ...] = ()
    arguments: tuple[str, ...] = ()  # of the command line: the script and what it is called with

    @cached_property
    def _counting(self) -> Mapping[str, GivenOption]:
        """The one that counts of each option."""
        return {entry.option: entry for entry in self.entries}

    def __getitem__(self, option: str) -> GivenOption:
        """Return the one that counts; `KeyError` where the option was not given."""
        return self._counting[option]

    def __contains__(self, option: str) -> bool:
        return option in self._counting

    def __iter__(self) -> Iterator[str]:
        return iter(self._counting)

    def get(self, option: str) -> GivenOption | None:
        """Return the one that counts, or None where the option was not given."""
        return self._counting.get(option)

    def value(self, option: str) -> str | None:
        """Return the value of an option."""
        return self[option].value if option in self else None

    def line(self, option: str) -> int | None:
        """Return the line of the script that holds an option."""
        return self[option].line if option in self else None


def collect_options(
    directives: Sequence[Directive],
    *,
    command_line: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    slurm: str | None = None,
) -> SbatchOptions:
    """Combine the options of script, environment and command line, for one component of the job."""
    words = [PlacedWord(word, directive.line) for directive in directives for word in directive.words]
    entries, problems, rest = read_options(words, "script", slurm)
    if rest:
        code, fix = ProblemCode.NOT_AN_OPTION, ProblemFix.OPTION_BEGINS_WITH_DASH
        problems.append(Problem("not-an-option", code, {"word": rest[0].word.text}, rest[0].line, fix))
    for variable, option in VARIABLES.items():
        if (variable_value := (environment or {}).get(variable)) is not None:
            value = None if OPTIONS[option].argument is Argument.NONE else variable_value
            entries.append(GivenOption(option, value, "environment", spelled=variable))
    typed = [PlacedWord(Word(text, 0, len(text), plain=True), None) for text in command_line]
    more, wrong, arguments = read_options(typed, "command line", slurm)
    return SbatchOptions(
        (*entries, *more),
        (*problems, *wrong),
        tuple(placed.word.text for placed in arguments),
    )
