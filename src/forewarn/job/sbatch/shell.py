"""A shell script split into commands, well enough to tell what it will run. Nothing is executed.

Not a shell: quotes, comments, continued lines, here-documents, redirections and the words that begin and
end a block are understood; substitutions are left in the text as they stand, but for variables that the
script itself has set to something plain. Whoever reads a word asks `is_plain` before trusting it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

_OPENS = frozenset({"if", "for", "while", "until", "case", "select", "{"})
_CLOSES = frozenset({"fi", "done", "esac", "}"})
_SKIPPED = frozenset({"then", "else", "elif", "do", "!", "time", "in"})
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_NOT_PLAIN = re.compile(r"[$`*?{}\[\]<>|&;()\x00-\x1f]")
_CASE = re.compile(r"\s*\(?[^()#'\"$`\s|]+(?:\s*\|\s*[^()#'\"$`\s|]+)*\)")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([\w.+-]+)\1")
_LONGEST = 100_000  # characters of a line; nobody's commands are longer
_LONGEST_VALUE = 4096  # of a variable: one that doubles itself must not fill the memory


@dataclass(frozen=True, slots=True)
class Redirect:
    """A file that a command reads or writes by the shell's doing."""

    writes: bool
    target: str


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command."""

    line: int  # of the script, where the command begins
    words: tuple[str, ...]
    redirects: tuple[Redirect, ...] = ()
    depth: int = 0  # how many ifs and loops it stands in
    # Behind `if`, `!`, `||` or `&&`, or before `&`: it may fail, or not run, and the script goes on.
    tested: bool = False
    variables: tuple[tuple[str, str], ...] = ()  # set for this command only, or, without words, for all


def is_plain(word: str) -> bool:
    """Whether a word is what it will be when the script runs."""
    return bool(word) and not _NOT_PLAIN.search(word)


def commands(script: str) -> Iterator[Command]:
    r"""The commands of a script, in its order.

    >>> for command in commands("A=x\ncd /d && ./p -i $A.txt \\\n  >out # why\n"):
    ...     print(command.line, command.words, command.redirects)
    1 () ()
    2 ('cd', '/d') ()
    2 ('./p', '-i', 'x.txt') (Redirect(writes=True, target='out'),)
    """
    known: dict[str, str] = {}
    depth = 0
    groups = _Groups()
    for line, text in _logical_lines(script):
        tested = False
        if depth and (pattern := _CASE.match(text)):  # `a|b) command` in a case: no command a
            text = text[pattern.end() :]
        for tokens, divider in _simple(text):
            subshells, ended_subshells = tokens.count(_OPEN), tokens.count(_CLOSE)
            tokens, opened, closed, asks = _blocks([t for t in tokens if t not in (_OPEN, _CLOSE)])
            groups.open(_OPEN, subshells)
            depth = max(0, depth - closed)
            if tokens:
                tests = tested or asks or divider in ("||", "&")
                for command in _command(line, tokens, depth, tests, known):
                    groups.found.append(command)
            groups.close(_OPEN, ended_subshells)
            groups.close(_BLOCK, closed)
            groups.open(_BLOCK, opened)
            depth += opened
            tested = divider in ("&&", "||")
            yield from groups.divided(divider)
        yield from groups.divided("\n")
    yield from groups.found


_OPEN, _CLOSE, _BLOCK = ("(", True), (")", True), ("{", True)
_DEEPEST = 100  # subshells and blocks in each other; deeper ones are not told apart


class _Groups:
    """Commands that wait for the end of the subshell, block or list that they stand in.

    `( … ) &` and `{ …; } || true` say behind the last command that the first of them may fail, too.
    """

    def __init__(self) -> None:
        self.found: list[Command] = []
        self._open: list[tuple[tuple[str, bool], int]] = []  # what opened it, and how many were found before
        self._list = self._pipeline = 0  # where the list of `&&` and `||`, and the pipeline, began

    def open(self, sign: tuple[str, bool], times: int) -> None:
        """Begin subshells or blocks."""
        self._open += [(sign, len(self.found))] * min(times, max(0, _DEEPEST - len(self._open)))

    def close(self, sign: tuple[str, bool], times: int) -> None:
        """End them: they are part of the list that is divided next."""
        for _ in range(min(times, len(self._open))):
            # A bracket without its fellow is one of a pattern; a block ends what was left open in it.
            if sign == _OPEN and self._open[-1][0] != _OPEN:
                return
            while self._open:
                opened, begin = self._open.pop()
                self._list, self._pipeline = min(self._list, begin), min(self._pipeline, begin)
                if opened == sign:
                    break

    def divided(self, divider: str) -> Iterator[Command]:
        """Take in what stands behind a command, and give what is now known."""
        if divider in ("&", "||"):
            begin = self._list if divider == "&" else self._pipeline
            self.found[begin:] = [replace(command, tested=True) for command in self.found[begin:]]
        if divider == "" or (divider.startswith("|") and divider != "||"):
            return  # a line's end is told by itself; a pipeline goes on
        self._pipeline = len(self.found)
        if divider not in ("&&", "||"):
            self._list = len(self.found)
            if not self._open:
                yield from self.found
                self.found.clear()
                self._list = self._pipeline = 0


def _command(
    line: int, tokens: list[tuple[str, bool]], depth: int, tested: bool, known: dict[str, str]
) -> Iterator[Command]:
    words, redirects, variables = list[str](), list[Redirect](), list[tuple[str, str]]()
    at = 0
    while at < len(tokens):
        text, operator = tokens[at]
        if operator:
            if at + 1 < len(tokens) and not tokens[at + 1][1] and "<<" not in text and "&" not in text[-1:]:
                redirects.append(Redirect(">" in text, _filled(tokens[at + 1][0], known)))
            at += 2
            continue
        match = _ASSIGNMENT.fullmatch(text)
        if match and not match[2] and (not words or words[0] in ("export", "declare", "local", "readonly")):
            value = _filled(match[3], known)
            variables.append((match[1], value))
            if not words or words[0] != "local":
                words_follow = not words and any(not op for _, op in tokens[at + 1 :])
                if not words_follow:
                    _remember(known, match[1], value, depth)
        else:
            words.append(_filled(text, known))
        at += 1
    yield Command(line, tuple(words), tuple(redirects), depth, tested, tuple(variables))


def _remember(known: dict[str, str], name: str, value: str, depth: int) -> None:
    if depth == 0 and is_plain(value) and len(value) < _LONGEST_VALUE:
        known[name] = value
    else:
        known.pop(name, None)  # what it holds depends on what happened


def _filled(text: str, known: dict[str, str]) -> str:
    if "$" not in text or not known:
        return text
    return _VARIABLE.sub(lambda match: known.get(match[1] or match[2], match[0]), text)


def _blocks(tokens: list[tuple[str, bool]]) -> tuple[list[tuple[str, bool]], int, int, bool]:
    """A command without the words of the shell before it; blocks that it opens and closes."""
    opened = closed = 0
    asks = False
    while tokens and not tokens[0][1]:
        word = tokens[0][0]
        if word in _OPENS:
            opened += 1
            asks = asks or word in ("if", "while", "until")
            if word in ("for", "case", "select"):
                return [], opened, closed, asks
        elif word in _CLOSES:
            closed += 1
        elif word in ("elif", "!"):
            asks = True
        elif word == "function":
            tokens = tokens[1:]
        elif word not in _SKIPPED and not re.fullmatch(r"[^()\s]+\(\)", word):
            break
        tokens = tokens[1:]
    return tokens, opened, closed, asks


def _logical_lines(script: str) -> Iterator[tuple[int, str]]:
    """Lines joined where a backslash or an open quote continues them; here-documents left out."""
    lines = script.split("\n")
    at = 0
    while at < len(lines):
        begin, text = at, lines[at].rstrip("\r")[:_LONGEST]
        at += 1
        if text.lstrip().startswith("#"):
            continue
        quote = _open_quote(text, "")
        while at < len(lines) and (_continues(text) or quote) and len(text) < _LONGEST:
            more = lines[at].rstrip("\r")
            quote = _open_quote(more, quote)
            text = (text[:-1] + " " if _continues(text) else text + "\n") + more
            at += 1
        for match in _HEREDOC.finditer(text):
            end = next((n for n in range(at, len(lines)) if lines[n].strip() == match[2]), None)
            if end is not None:
                at = end + 1
        yield begin + 1, text


def _continues(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _open_quote(text: str, quote: str) -> str:
    """The quote that is open at a text's end, empty for none; `quote` is the one that is open before it."""
    at = 0
    while at < len(text):
        sign = text[at]
        if sign == "\\" and quote != "'":
            at += 1
        elif quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign == "#" and (at == 0 or text[at - 1] in " \t;&|("):
            break
        at += 1
    return quote


def _simple(text: str) -> Iterator[tuple[list[tuple[str, bool]], str]]:
    """The simple commands of a line, each as tokens (a redirection's sign is marked), and what divides."""
    tokens = list[tuple[str, bool]]()
    for kind, token in _tokens(text):
        if kind == "divider":
            yield tokens, token
            tokens = []
        else:
            tokens.append((token, kind != "word"))
    yield tokens, ""


_DIVIDER = re.compile(r"&&|\|\||\|&|;;|[;&|\n]")
_REDIRECT = re.compile(r"(?:\d*|&)(?:<<<|<<-?|>>|>\||>&|<&|<>|[<>])")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        sign = text[at]
        if sign in " \t\r":
            at += 1
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
            yield "word", word


def _word(text: str, at: int) -> tuple[str, int]:
    """One word without its quotes, and where it ends."""
    found, begin = list[str](), at
    while at < len(text):
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
    """Where the bracket that stands at a place is closed."""
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
