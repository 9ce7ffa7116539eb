"""The patterns: each knows its lines, none knows harmless ones, and causes come before what follows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.assess.post_mortem.cause_families import FAMILIES
from forewarn.assess.post_mortem.log_matching import matches
from forewarn.assess.post_mortem.log_reading import HEAD, TAIL, Log, LogPart, read_log, shortened
from forewarn.assess.post_mortem.patterns import PATTERNS
from forewarn.job.exit_codes import EXIT_CODES, SIGNALS
from tests.assess.log_samples import HARMLESS, SAMPLES

BY_NAME = {pattern.name: pattern for pattern in PATTERNS}


def log_of(text: str | bytes) -> Log:
    raw = text.encode() if isinstance(text, str) else text
    return Log(Path("job.out"), len(raw), (LogPart(raw),))


def test_every_pattern_has_a_sample_and_a_family() -> None:
    assert set(SAMPLES) == set(BY_NAME)
    assert len(BY_NAME) == len(PATTERNS) > 100, "no name twice"
    named = {pattern.family for pattern in PATTERNS}
    named |= {one.family for one in EXIT_CODES.values() if one.family}
    named |= {one.family for _, one in SIGNALS.values() if one.family}
    assert named <= set(FAMILIES)
    for pattern in PATTERNS:
        holes = set(re.findall(r"\{(\w+)\}", pattern.what))
        assert holes <= set(pattern.compiled.groupindex), pattern.name


@pytest.mark.parametrize("name", list(SAMPLES))
def test_a_pattern_knows_its_lines(name: str) -> None:
    pattern = BY_NAME[name]
    for sample in SAMPLES[name]:
        meaning = pattern.meaning(sample)
        assert meaning is not None, sample
        assert "\0" not in meaning
        assert any(hint in sample for hint in pattern.hints), sample
        (best, *_) = matches(log_of(f"step 1 done\n{sample}\nbye\n")).lines or [None]
        assert best is not None
        assert best.line == 2
        # Another pattern may say it better, of the same family or a narrower one.
        better = BY_NAME[best.pattern]
        assert best.pattern == name or better.worth >= pattern.worth or pattern.follow_up, (sample, best)


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_lines(line: str) -> None:
    assert matches(log_of(f"{line}\n")).lines == ()


def test_most_samples_match_their_own_pattern_best() -> None:
    others = {
        (name, best[0].pattern)
        for name, samples in SAMPLES.items()
        for sample in samples
        if (best := matches(log_of(sample)).lines) and best[0].pattern != name
    }
    assert len(others) <= 12, sorted(others)


def test_causes_come_before_what_follows_from_them() -> None:
    text = (
        "starting\n"
        "Traceback (most recent call last):\n"
        '  File "train.py", line 3, in <module>\n'
        "    import torch\n"
        "ModuleNotFoundError: No module named 'torch'\n"
        "srun: error: n1: task 0: Exited with exit code 1\n"
        "srun: Terminating StepId=12.0\n"
        "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2024-05-01T10:00:00 ***\n"
    )
    found = matches(log_of(text)).lines
    assert (found[0].pattern, found[0].line) == ("python-no-module", 5)
    assert "torch" in found[0].what
    assert all(line.follow_up for line in found[1:])


def test_an_early_cause_among_a_million_lines(tmp_path: Path) -> None:
    path = tmp_path / "huge.out"
    noise = b"epoch 1 of 100: everything is fine here, nothing to see\n" * 200_000
    path.write_bytes(b"Lmod: The following module(s) are unknown: gcc/99\n" + noise + b"\nKilled\n")
    log = read_log(path)
    assert log.size > HEAD + TAIL
    assert not log.whole
    assert sum(len(part.text) for part in log.parts) <= HEAD + TAIL
    first, last = matches(log).lines
    assert (first.pattern, first.line) == ("lmod-unknown-module", 1)
    assert (last.pattern, last.line) == ("shell-killed", -1)


def test_a_sparse_file_of_many_gigabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse.out"
    with path.open("wb") as file:
        file.write(b"begin\n")
        file.seek(20 << 30)
        file.write(b"\nNo space left on device\n")
    log = read_log(path)
    assert sum(len(part.text) for part in log.parts) <= HEAD + TAIL
    assert [line.pattern for line in matches(log).lines] == ["no-space-left"]


def test_what_is_no_plain_file_is_no_log(tmp_path: Path) -> None:
    import os

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a plain file"):
        read_log(pipe)
    with pytest.raises(OSError, match="No such file"):
        read_log(tmp_path / "nothing")


def test_repeated_lines_are_reported_once() -> None:
    text = "cat: /a/b: No such file or directory\n" * 5000 + "MemoryError\n"
    found = matches(log_of(text)).lines
    assert [line.pattern for line in found] == ["python-memory-error", "no-such-file"]
    assert found[1].line == 1


def test_progress_bars_and_colours() -> None:
    text = b" 10%\r 20%\r\x1b[31mMemoryError\x1b[0m\r\n\x00\xff\xfe\n"
    (found,) = matches(log_of(text)).lines
    assert (found.text, found.line) == ("MemoryError", 1)


def test_a_line_without_end() -> None:
    text = b"x" * 3_000_000 + b" Segmentation fault " + b"y" * 3_000_000
    (found,) = matches(log_of(text)).lines
    assert found.pattern == "segmentation-fault"
    assert len(found.text) < 400
    assert "Segmentation fault" in found.text


_WORDS = sorted({hint for pattern in PATTERNS for hint in pattern.hints})


@given(st.lists(st.one_of(st.binary(max_size=80), st.sampled_from(_WORDS).map(str.encode), st.just(b"\n"))))
def test_any_bytes_do_no_harm(parts: list[bytes]) -> None:
    log = log_of(b"".join(parts))
    numbered: dict[int, set[str]] = {}
    for number, line in log.parts[0].lines():
        numbered.setdefault(number, set()).add(shortened(line))
    for found in matches(log).lines:
        assert found.text in numbered[found.line] or "…" in found.text
        assert not any(ord(letter) < 32 for letter in found.text)
        found.text.encode()


@given(st.binary(max_size=400), st.integers(1, 50), st.integers(1, 50))
def test_reading_stays_within_bounds(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes, head: int, tail: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "a.out"
    path.write_bytes(raw)
    log = read_log(path, head=head, tail=tail)
    assert sum(len(part.text) for part in log.parts) <= head + tail
    if log.whole:
        assert log.parts[0].text == raw
    else:
        first, last = log.parts
        assert raw.startswith(first.text)
        assert raw.endswith(last.text)
    matches(log)
