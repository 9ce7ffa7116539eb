"""Reader of shell scripts, which splits them into the commands that they run. Nothing is executed.

Not a shell: it understands quotes, comments, continued lines, here-documents, redirections, arrays,
arithmetic and the words that begin and end a block; substitutions stay in the text as they are, except for
variables that the script itself has set to something plain. A caller checks a word with `is_plain` before
using it.

Why no library: `docs/decisions/0006-bash-and-elf.md`. The time is proportional to the length of the
script, whatever it contains: the collector reads the scripts of all users.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

_OPENS = frozenset({"if", "for", "while", "until", "case", "select", "{"})
_CLOSES = frozenset({"fi", "done", "esac", "}"})
_SKIPPED = frozenset({"then", "else", "elif", "do", "!", "time", "in"})
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^=]*\])?(\+?)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_NOT_PLAIN = re.compile(r"[$`*?{}\[\]<>|&;()\x00-\x1f]")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([\w.+-]+)\1")
_FUNCTION = re.compile(r"[^()\s]+\(\)")
# Round brackets of one level inside suffice; two that open together end the attempt, so that many unclosed
# ones are not searched repeatedly.
_ARITHMETIC = re.compile(r"\(\((?:[^()]|\([^()]*\))*+\)\)")
_ARRAY = re.compile(r"(?:[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=)$")
_GOES_ON = frozenset({"&&", "||", "|", "|&"})  # at the end of a line: the next line belongs to it
_NEXT_PATTERN = frozenset({";;", ";&", ";;&"})
_LONGEST = 100_000  # characters of a line; real commands are shorter
_LONGEST_VALUE = 4096  # of a variable: one that doubles itself must not fill the memory


@dataclass(frozen=True, slots=True)
class Redirect:
    """A file that the shell opens for a command, to read or to write."""

    writes: bool
    target: str


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command."""

    line: int  # of the script, where the command begins
    words: tuple[str, ...]
    redirects: tuple[Redirect, ...] = ()
    depth: int = 0  # number of ifs and loops around it
    # After `if`, `!`, `||` or `&&`, or before `&`: it may fail, or not run, and the script goes on.
    tested: bool = False
    variables: tuple[tuple[str, str], ...] = ()  # set for this command only, or, without words, for all


def is_plain(word: str) -> bool:
    """Check whether a word in the text equals the word when the script runs."""
    return bool(word) and not _NOT_PLAIN.search(word)


def commands(script: str) -> Iterator[Command]:
    r"""Yield the commands of a script, in its order.

    >>> for command in commands("A=x\ncd /d && ./p -i $A.txt \\\n  >out # why\n"):
    ...     print(command.line, command.words, command.redirects)
    1 () ()
    2 ('cd', '/d') ()
    2 ('./p', '-i', 'x.txt') (Redirect(writes=True, target='out'),)
    """
    values: dict[str, str] = {}
    depth = 0
    cases = _Cases()
    groups = _Groups()
    tested = goes_on = False
    for line, text in _logical_lines(script):
        tested = tested and goes_on
        for tokens, divider in _simple(text):
            if not tokens and not divider:
                break  # the end of a line, after a divider or blank
            tokens = cases.without_pattern(tokens, divider, depth)
            subshells, ended_subshells = tokens.count(_OPEN), tokens.count(_CLOSE)
            tokens, opened, closed, is_condition = _blocks([t for t in tokens if t not in (_OPEN, _CLOSE)])
            groups.open(_OPEN, subshells)
            depth = max(0, depth - closed)
            if tokens and not cases.is_pattern:
                may_fail = tested or is_condition or divider in ("||", "&")
                for command in _command(line, tokens, depth, may_fail, values):
                    groups.found.append(command)
            groups.close(_OPEN, ended_subshells)
            groups.close(_BLOCK, closed)
            groups.open(_BLOCK, opened)
            depth += opened
            cases.after(divider, depth)
            tested = divider in ("&&", "||")
            goes_on = divider in _GOES_ON and not cases.is_pattern
            yield from groups.divided(divider)
        if not goes_on:
            yield from groups.divided("\n")
    yield from groups.found


_Token = tuple[str, bool]  # its text, and whether it is an operator of the shell
_OPEN, _CLOSE, _BLOCK = ("(", True), (")", True), ("{", True)
_DEEPEST = 100  # nested subshells and blocks; deeper ones are not distinguished


class _Cases:
    """The `case` blocks that are open, and whether a pattern comes next in the innermost one."""

    def __init__(self) -> None:
        self.is_pattern = False  # the last part read belongs to a pattern: `a |` of `a | b)`
        self._depths: list[int] = []  # of the commands in each
        self._expects_pattern = False

    def without_pattern(self, tokens: list[_Token], divider: str, depth: int) -> list[_Token]:
        """Drop the pattern `a | b)` before a command, and record a `case` that opens."""
        self.is_pattern = False
        if self._expects_pattern and tokens != [("esac", False)]:
            if _CLOSE in tokens:
                tokens = tokens[tokens.index(_CLOSE) + 1 :]
                self._expects_pattern = False
            else:
                self.is_pattern = divider == "|"
        if _is_case(tokens):
            self._depths.append(depth + 1)
            self._expects_pattern = True
        return tokens

    def after(self, divider: str, depth: int) -> None:
        """Record the divider after a command, and the depth after it."""
        while self._depths and self._depths[-1] > depth:
            self._depths.pop()
            self._expects_pattern = False
        if self._depths and divider in _NEXT_PATTERN:
            self._expects_pattern = True


def _is_case(tokens: list[_Token]) -> bool:
    """Check for the words `case … in`, after words such as `then`."""
    if len(tokens) < 3 or tokens[-3] != ("case", False) or tokens[-1] != ("in", False):
        return False
    return all(token == _OPEN or token[0] in _SKIPPED | _OPENS for token in tokens[:-3])


class _Groups:
    """Commands that wait for the end of their subshell, block or list.

    `( … ) &` and `{ …; } || true` show only after the last command that the first of them may fail, too.
    """

    def __init__(self) -> None:
        self.found: list[Command] = []
        self._open: list[tuple[_Token, int]] = []  # what opened it, and the number of commands before it
        self._list = 0  # the first command of the list of `&&` and `||`
        self._tested = 0  # commands before this one are marked already

    def open(self, sign: _Token, times: int) -> None:
        """Begin subshells or blocks."""
        self._open += [(sign, len(self.found))] * min(times, max(0, _DEEPEST - len(self._open)))

    def close(self, sign: _Token, times: int) -> None:
        """End them: they are part of the list that is divided next."""
        for _ in range(min(times, len(self._open))):
            # A closing bracket without an opening one belongs to a pattern; the end of a block closes what is
            # open in it.
            if sign == _OPEN and self._open[-1][0] != _OPEN:
                return
            while self._open:
                opened, begin = self._open.pop()
                self._list, self._tested = min(self._list, begin), min(self._tested, begin)
                if opened == sign:
                    break

    def divided(self, divider: str) -> Iterator[Command]:
        """Record the divider after a command, and yield the commands that are now complete."""
        if divider in ("&", "||"):
            begin = max(self._list, self._tested)  # in a chain of `||` each command is marked once
            self.found[begin:] = [replace(command, tested=True) for command in self.found[begin:]]
            self._tested = len(self.found)
        if divider == "" or divider in _GOES_ON:
            return  # a line end is a divider of its own; a list or pipeline continues
        self._list = len(self.found)
        if not self._open:
            yield from self.found
            self.found.clear()
            self._list = self._tested = 0


def _command(
    line: int, tokens: list[_Token], depth: int, tested: bool, values: dict[str, str]
) -> Iterator[Command]:
    words, redirects, variables = list[str](), list[Redirect](), list[tuple[str, str]]()
    at = 0
    while at < len(tokens):
        text, operator = tokens[at]
        if operator:
            if at + 1 < len(tokens) and not tokens[at + 1][1] and "<<" not in text and "&" not in text[-1:]:
                redirects.append(Redirect(">" in text, _filled(tokens[at + 1][0], values)))
            at += 2
            continue
        match = _ASSIGNMENT.fullmatch(text)
        if match and (not words or words[0] in ("export", "declare", "local", "readonly")):
            value = _filled(f"${{{match[1]}}}{match[4]}" if match[2] or match[3] else match[4], values)
            variables.append((match[1], value))
            if not words or words[0] != "local":
                has_command = not words and any(not op for _, op in tokens[at + 1 :])
                if not has_command:
                    _remember(values, match[1], value, depth)
        else:
            words.append(_filled(text, values))
        at += 1
    yield Command(line, tuple(words), tuple(redirects), depth, tested, tuple(variables))


def _remember(values: dict[str, str], name: str, value: str, depth: int) -> None:
    if depth == 0 and is_plain(value) and len(value) < _LONGEST_VALUE:
        values[name] = value
    else:
        values.pop(name, None)  # its value depends on how the script runs


def _filled(text: str, values: dict[str, str]) -> str:
    if "$" not in text or not values:
        return text
    return _VARIABLE.sub(lambda match: values.get(match[1] or match[2], match[0]), text)


def _blocks(tokens: list[_Token]) -> tuple[list[_Token], int, int, bool]:
    """Strip the shell's own words from the start of a command; count the blocks that it opens and closes."""
    opened = closed = at = 0
    is_condition = False
    while at < len(tokens) and not tokens[at][1]:
        word = tokens[at][0]
        if word in _OPENS:
            opened += 1
            is_condition = is_condition or word in ("if", "while", "until")
            if word in ("for", "case", "select"):
                return [], opened, closed, is_condition
        elif word in _CLOSES:
            closed += 1
        elif word in ("elif", "!"):
            is_condition = True
        elif word == "function" or tokens[at + 1 : at + 2] == [("()", False)]:  # function name, name ()
            at += 1
        elif word not in _SKIPPED and not _FUNCTION.fullmatch(word):
            break
        at += 1
    return tokens[at:], opened, closed, is_condition


def _logical_lines(script: str) -> Iterator[tuple[int, str]]:
    """Join lines continued by a backslash, an open quote or bracket; leave out here-documents."""
    lines = script.split("\n")
    at, brackets, ends = 0, True, _HeredocEnds(lines)
    while at < len(lines):
        begin, parts, still_open = at, [lines[at].rstrip("\r")[:_LONGEST]], list[str]()
        at += 1
        if parts[0].lstrip().startswith("#"):
            continue
        _follow(parts[0], still_open, brackets)
        length = len(parts[0])
        while at < len(lines) and (_continues(parts[-1]) or still_open) and length < _LONGEST:
            more = lines[at].rstrip("\r")
            _follow(more, still_open, brackets)
            parts[-1] = parts[-1][:-1] + " " if _continues(parts[-1]) else parts[-1] + "\n"
            parts.append(more)
            length += len(more) + 1
            at += 1
        if still_open[:1] == [")"]:  # never closed: from here on brackets join no lines
            at, brackets = begin, False
            continue
        text = "".join(parts)
        for match in _HEREDOC.finditer(text):
            at = ends.line_after(match[2], at)
        yield begin + 1, text


class _HeredocEnds:
    """The lines that may end a here-document, by word: a search for each would take quadratic time."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._places: dict[str, list[int]] | None = None  # filled on first use

    def line_after(self, word: str, at: int) -> int:
        """Return the line after the here-document that begins at a line; that line where nothing ends it."""
        if self._places is None:
            self._places = {}
            for place, line in enumerate(self._lines):
                self._places.setdefault(line.strip(), []).append(place)
        places = self._places.get(word, [])
        found = bisect_left(places, at)
        return places[found] + 1 if found < len(places) else at


def _continues(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


_OPENING = re.compile(r"[\"'(]")


def _follow(text: str, still_open: list[str], brackets: bool) -> None:
    """Update the quotes, and the brackets of arrays and substitutions, that are open after a text."""
    if not still_open and _OPENING.search(text) is None:
        return
    at = 0
    while at < len(text):
        sign, inner = text[at], still_open[-1] if still_open else ""
        if sign == "\\" and inner != "'":
            at += 1
        elif inner and sign == inner:
            still_open.pop()
        elif sign == "(" and inner != "'":
            behind = text[at - 1 : at]
            if brackets and (behind == "$" or (inner != '"' and (behind == "=" or inner))):
                still_open.append(")")
        elif inner in ("'", '"'):
            pass
        elif sign in "\"'":
            still_open.append(sign)
        elif sign == "#" and (at == 0 or text[at - 1] in " \t;&|("):
            break
        at += 1


def _simple(text: str) -> Iterator[tuple[list[_Token], str]]:
    """Yield the simple commands of a line, each as tokens, and the divider after it."""
    tokens = list[_Token]()
    for token_type, token in _tokens(text):
        if token_type == "divider":
            yield tokens, token
            tokens = []
        else:
            tokens.append((token, token_type != "word"))
            if token == "in" and _is_case(tokens):
                yield tokens, ";"
                tokens = []
    yield tokens, ""


_DIVIDER = re.compile(r"&&|\|\||\|&|;;&?|;&|[;&|\n]")
_REDIRECT = re.compile(r"(?:\d*|&)(?:<<<|<<-?|>>|>\||>&|<&|<>|[<>])")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, is_test, last_test = 0, False, text.rfind("]]")
    while at < len(text):
        sign = text[at]
        if sign in " \t\r" or (is_test and sign == "\n"):
            at += 1
        elif is_test and sign in "()|&<>;":  # operators of [[ … ]], not of the shell
            at += 1
            yield "word", sign
        elif sign == "(" and (match := _ARITHMETIC.match(text, at)) is not None:
            at = match.end()
            yield "word", match[0]
        elif sign in "()" and not text.startswith("()", at):
            at += 1
            yield "group", sign
        elif sign == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif (match := _REDIRECT.match(text, at)) is not None:
            at = match.end()
            if match[0][-1] == "&":  # 2>&1: no file
                rest = re.compile(r"[\d-]+").match(text, at)
                if rest:
                    at = rest.end()
                    continue
            yield "redirect", match[0]
        elif (match := _DIVIDER.match(text, at)) is not None:
            at = match.end()
            yield "divider", match[0]
        else:
            word, at = _word(text, at)
            is_test = at < last_test if word == "[[" else is_test and word != "]]"
            yield "word", word


_PLAIN_PART = re.compile(r"[^\\\"'`$<>()\s;&|]+")


def _word(text: str, at: int) -> tuple[str, int]:
    """Read one word without its quotes; return it and its end."""
    found, begin = list[str](), at
    while at < len(text):
        if (plain := _PLAIN_PART.match(text, at)) is not None:
            found.append(plain[0])
            at = plain.end()
            continue
        sign = text[at]
        if sign == "\\":
            found.append(text[at + 1 : at + 2])
            at += 2
        elif sign in "\"'":
            end = _closing(text, at)
            found.append(text[at + 1 : end])
            at = end + 1
        elif sign == "`":
            end = text.find("`", at + 1)
            end = len(text) if end < 0 else end
            found.append(text[at : end + 1])
            at = end + 1
        elif text.startswith(("$(", "<(", ">("), at) or text.startswith("${", at):
            end = _bracket(text, at + 1)
            found.append(text[at:end])
            at = end
        elif sign == "(" and at > begin and text[at - 1] == "=" and _ARRAY.match(text[begin:at]):
            end = _bracket(text, at)
            found.append(text[at:end])
            at = end
        elif sign in " \t\r\n;&|<>" or (sign in "()" and not text.startswith("()", at)):
            break
        elif text.startswith("()", at):
            found.append("()")
            at += 2
        else:
            found.append(sign)
            at += 1
    return "".join(found), max(at, begin + 1)


def _closing(text: str, at: int) -> int:
    quote, at = text[at], at + 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" and quote == '"' else 1
    return min(at, len(text))


def _bracket(text: str, at: int) -> int:
    """Find where the bracket at a position is closed."""
    opens = text[at]
    closes, depth = {"(": ")", "{": "}"}[opens], 0
    while at < len(text):
        if text[at] == opens:
            depth += 1
        elif text[at] == closes:
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return len(text)
