"""Reader of command-line options, as GNU getopt_long reads them for sbatch.

Long options may be shortened as long as no other begins the same; a value follows ``=`` or is the next word,
on whatever line that is, since sbatch joins all lines. Short options may be joined to their value and to each
other. An optional value is always joined to its option, never the next word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from forewarn.evidence import Values
from forewarn.job.sbatch.option_table import OPTIONS, PYXIS, SHORT, Argument, Option, options_of
from forewarn.job.sbatch.problems import Problem, ProblemCode, ProblemFix
from forewarn.job.sbatch.word_split import Word

_MOST_SUGGESTIONS = 20  # problems with a similar option: the search for one takes a millisecond


@dataclass(frozen=True, slots=True)
class GivenOption:
    """One option as the script, the environment or the command line gives it."""

    option: str  # its full name, without dashes
    value: str | None
    origin: str  # script, environment, command line
    line: int | None = None  # of the script
    spelled: str = ""  # as written: --mem, -N, --out
    span: tuple[int, int] | None = None  # columns of the value in its line, where they are known
    value_line: int | None = None  # line of the value: mostly the option's own


@dataclass(frozen=True, slots=True)
class PlacedWord:
    """A word and the line that it is in."""

    word: Word
    line: int | None


def read_options(
    words: Iterable[PlacedWord], origin: str, slurm: str | None = None
) -> tuple[list[GivenOption], list[Problem], list[PlacedWord]]:
    """Read options; return them, the problems found, and the words from the first that is no option on."""
    reader = _OptionReader(list(words), origin, options_of(slurm), any_version=slurm is None)
    reader.read()
    return reader.options, reader.problems, reader.words[reader.place :]


class _OptionReader:
    """The state of one pass over the words."""

    def __init__(
        self, words: list[PlacedWord], origin: str, available: Mapping[str, Option], *, any_version: bool
    ) -> None:
        self.words, self.place, self.origin, self.available = words, 0, origin, available
        self.any_version = any_version
        self.options: list[GivenOption] = []
        self.problems: list[Problem] = []

    def read(self) -> None:
        while self.place < len(self.words):
            text = self.words[self.place].word.text
            if text == "--":
                self.place += 1
                return
            if len(text) < 2 or text[0] != "-":
                return
            self.place += 1
            if text.startswith("--"):
                self._long(self.words[self.place - 1])
            else:
                self._short(self.words[self.place - 1])

    def _long(self, placed: PlacedWord) -> None:
        name, equals, value = placed.word.text[2:].partition("=")
        option = self._named(name, placed)
        if option is None:
            return
        span = None
        if equals and placed.word.plain:
            span = (placed.word.begin + len(name) + 3, placed.word.end)
        elif equals and (cut := _raw_equals(placed.word, name)) is not None:
            span = (cut, placed.word.end)
        if option.argument is Argument.NONE and equals:
            self._wrong("unexpected-value", ProblemCode.UNEXPECTED_VALUE, {"option": option.name}, placed)
        elif option.argument is Argument.REQUIRED and not equals:
            self._next_word(option, f"--{name}", placed)
        else:
            self._add(option, value if equals else None, f"--{name}", placed, span)

    def _named(self, name: str, placed: PlacedWord) -> Option | None:
        if name in self.available:
            return self.available[name]
        if name in PYXIS:
            named = {"option": name, "plugin": "pyxis"}
            code = ProblemCode.PLUGIN_OPTION
            self.problems.append(Problem("plugin-option", code, named, placed.line, refused=False))
            return PYXIS[name]
        found = [option for full, option in self.available.items() if full.startswith(name)]
        if len(found) > 1 and self.any_version:
            # Newer options make abbreviations ambiguous, and the version of sbatch is not known here.
            found = [option for option in found if option.since is option.until is None] or found
        if found and all(o.means == found[0].means and o.argument == found[0].argument for o in found):
            return found[0]
        if found:
            values: Values = {"option": name, "could_be": tuple(option.name for option in found[:6])}
            self._wrong("ambiguous-option", ProblemCode.AMBIGUOUS_OPTION, values, placed)
        elif name in OPTIONS:
            since = OPTIONS[name].since
            code = ProblemCode.NEWER_OPTION if since else ProblemCode.FORMER_OPTION
            self._wrong("unknown-option", code, {"option": name, "since": since}, placed)
        else:
            near = self._similar(name, 0.6)
            self._wrong("unknown-option", ProblemCode.UNKNOWN_OPTION, {"option": name}, placed, near)
        return None

    def _short(self, placed: PlacedWord) -> None:
        text = placed.word.text
        for at in range(1, len(text)):
            letter = text[at]
            option = self.available.get(SHORT.get(letter, ""))
            if option is None:
                near = self._similar(text.lstrip("-"), 0.8)
                self._wrong("unknown-option", ProblemCode.UNKNOWN_LETTER, {"letter": letter}, placed, near)
                continue
            rest = text[at + 1 :]
            if option.argument is Argument.NONE:
                self._add(option, None, f"-{letter}", placed, None)
                continue
            if rest or option.argument is Argument.OPTIONAL:
                span = (placed.word.begin + at + 1, placed.word.end) if rest and placed.word.plain else None
                self._add(option, rest or None, f"-{letter}", placed, span)
            else:
                self._next_word(option, f"-{letter}", placed)
            return

    def _similar(self, name: str, cutoff: float) -> Sequence[str]:
        if len(self.problems) >= _MOST_SUGGESTIONS:
            return ()
        return get_close_matches(name[:100], self.available, n=1, cutoff=cutoff)

    def _next_word(self, option: Option, spelled: str, placed: PlacedWord) -> None:
        if self.place >= len(self.words):
            self._wrong("missing-value", ProblemCode.MISSING_VALUE, {"spelled": spelled}, placed)
            return
        value = self.words[self.place]
        self.place += 1
        span = (value.word.begin, value.word.end)
        self._add(option, value.word.text, spelled, placed, span, value.line)

    def _add(
        self,
        option: Option,
        value: str | None,
        spelled: str,
        placed: PlacedWord,
        span: tuple[int, int] | None,
        value_line: int | None = None,
    ) -> None:
        line = placed.line if value_line is None else value_line
        self.options.append(GivenOption(option.means, value, self.origin, placed.line, spelled, span, line))

    def _wrong(
        self, rule: str, code: ProblemCode, values: Values, placed: PlacedWord, near: Sequence[str] = ()
    ) -> None:
        """Record a problem; `near` holds the option that may have been meant."""
        more = ({"near": near[0]} if near else {}) | (
            {"origin": self.origin} if self.origin != "script" else {}
        )
        fix = ProblemFix.SIMILAR_OPTION if near else None
        self.problems.append(Problem(rule, code, {**values, **more}, placed.line, fix))


def _raw_equals(word: Word, name: str) -> int | None:
    """Find where the value of a quoted word begins, if the quotes begin after the ``=``: --job-name="a b"."""
    begin = word.begin + len(name) + 3
    # Without quotes in the name the word up to there is as long in the line as it is in the text.
    return begin if begin <= word.end and len(word.text) + word.begin < word.end + 1 else None
