"""A crafted log takes no longer than its length: every pattern on lines that were made to be slow."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.assess.post_mortem import log_matching
from forewarn.assess.post_mortem.log_matching import BUDGET, matches
from forewarn.assess.post_mortem.log_reading import WIDEST, Log, LogPart, read_log
from forewarn.assess.post_mortem.patterns import PATTERNS, Pattern

# Far enough apart that a square (16 times as long) is not mistaken for noise around a line (4 times).
SHORT, LONG = 4000, 16000
NOTICEABLE = 0.02  # seconds: below, the clock tells nothing; a square would be far above
FILLERS = ("a", "0", " ", "/", ":", "'", "_", ".", "A", "x:", "1,", "[0", "a ", " : ")


def unbounded(expression: str) -> list[str]:
    """Find the quantifiers without an upper bound, leaving out escapes and classes."""
    bare = re.sub(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", "x", expression)
    return re.findall(r"[*+](?![)]?\))|\{\d+,\}", bare)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_quantifiers_are_bounded(pattern: Pattern) -> None:
    assert unbounded(pattern.expression) == []


def seeds(pattern: Pattern) -> set[str]:
    """Texts that lead into the expression: its hints and its own words."""
    return {*pattern.hints, *re.findall(r"[A-Za-z][A-Za-z ]{3,}", pattern.expression)[:6]}


def crafted(pattern: Pattern) -> Iterator[tuple[str, str, str]]:
    """Begin, what is repeated, end."""
    for seed in sorted(seeds(pattern)):
        for filler in FILLERS:
            yield "", seed + filler, ""
            yield seed, filler, ""
            yield "", filler, seed


def seconds(pattern: Pattern, line: str) -> float:
    begun = time.thread_time()  # of this thread alone: other work of the machine does not count
    pattern.meaning(line)
    return time.thread_time() - begun


@pytest.mark.slow
def test_time_grows_with_the_length_and_no_faster() -> None:
    slow = []
    for pattern in PATTERNS:
        # The worst line of each pattern, found at a length at which even a square is quick.
        worst = max(
            crafted(pattern), key=lambda parts: seconds(pattern, parts[0] + parts[1] * 250 + parts[2])
        )

        def line(length: int, parts: tuple[str, str, str] = worst) -> str:
            return parts[0] + parts[1] * (length // len(parts[1])) + parts[2]

        long = min(seconds(pattern, line(LONG)) for _ in range(4))
        short = min(seconds(pattern, line(SHORT)) for _ in range(4))
        if long > NOTICEABLE and long > 9 * short:
            slow.append((pattern.name, worst, short, long))
        assert long < 1, (pattern.name, worst)
    assert slow == []


def test_a_crafted_log_is_done_within_the_budget(tmp_path: Path) -> None:
    """Ten such lines took 3.4 s; here is a megabyte of them."""
    rows = [
        "mmfs" * 1000, "Permission_" * 400, "0" * 4000 + " unbound variable", "ucp_" * 1000,
        "/bin/activate" * 300, "Permission denied" + "[0" * 2000, "x:" * 2000 + " No such file or directory",
    ]  # fmt: skip
    path = tmp_path / "slurm-1.out"
    path.write_text("\n".join(rows * 40) + "\n")
    begun = time.thread_time()
    matches(read_log(path))
    assert time.thread_time() - begun < BUDGET


def test_the_budget_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(Path("x"), 1, (LogPart(b"ModuleNotFoundError: No module named 'torch'\n"),))
    assert matches(log).lines
    assert matches(log).in_time
    monkeypatch.setattr(log_matching, "BUDGET", -1.0)
    assert matches(log) == log_matching.LogMatches((), in_time=False)


def test_a_cause_far_into_a_long_line_is_found() -> None:
    line = "x" * (WIDEST * 3 - 10) + " ModuleNotFoundError: No module named 'torch'"
    found, *_ = matches(Log(Path("x"), 1, (LogPart(line.encode()),))).lines
    assert found.pattern == "python-no-module"
