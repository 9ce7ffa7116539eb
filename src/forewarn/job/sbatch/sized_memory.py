"""The memory that options in a script set for its programs: the least that its job must request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from forewarn.job.sbatch.calls import Call
from forewarn.job.units import MOST_BYTES

K, M, G = 1 << 10, 1 << 20, 1 << 30
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*\.?\s*([kKmMgGtT]?)(?:i?[bB])?", re.ASCII)
_UNITS = {"": 1, "k": K, "m": M, "g": G, "t": 1 << 40}
_JAVA = re.compile(r"-Xmx(\d{1,15}[kKmMgGtT]?)|-XX:MaxHeapSize=(\d{1,15}[kKmMgGtT]?)", re.ASCII)

# Options that many programs have for it. A number without a unit is ignored: bytes, or gigabytes?
_ANYBODYS_WORDS = """
    --max-mem --max-memory --max_mem --max_memory --maxmem --memory --mem --mem-limit --mem_limit
    --memory-limit --memory_limit --maxMem --max-mem-size --heap-size-hint --driver-memory
    --executor-memory --ram --max-ram --max_ram --memory-budget -mem --javamem --object-store-memory
    --buffer-size
"""
_ANYBODYS = frozenset(_ANYBODYS_WORDS.split())
# Options of one program, with the unit of a bare number.
_OWN: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "node": {"--max-old-space-size": M},
        "spades.py": {"-m": G, "--memory": G},
        "metaspades.py": {"-m": G, "--memory": G},
        "cellranger": {"--localmem": G},
        "spaceranger": {"--localmem": G},
        "megahit": {"-m": 1, "--memory": 1},
        "STAR": {"--limitBAMsortRAM": 1, "--limitGenomeGenerateRAM": 1},
        "plink": {"--memory": M},
        "plink2": {"--memory": M},
        "sort": {"-S": K, "--buffer-size": K},
        "samtools": {"-m": 1},
        "sambamba": {"-m": 1, "--memory-limit": 1},
        "Trinity": {"--max_memory": 1, "--bflyHeapSpaceMax": 1},
        "jellyfish": {},
    }
)
_SLURMS = frozenset({"srun", "sbatch", "salloc"})


@dataclass(frozen=True, slots=True)
class SizedMemory:
    """An amount of memory that the script itself names."""

    bytes: int
    line: int
    text: str  # as written


def sized_memory(calls: Sequence[Call]) -> SizedMemory | None:
    """Find the largest amount of memory that a call in the script sets for itself.

    >>> from forewarn.job.sbatch.shell import commands
    >>> from forewarn.job.sbatch.calls import call_of
    >>> text = "java -Xmx8g -jar a.jar\\nsrun --mem 9G samtools sort -@ 4 -m 3G x.bam"
    >>> found = sized_memory([call for command in commands(text) if (call := call_of(command))])
    >>> found.bytes >> 30, found.line, found.text
    (12, 2, '-m 3G for each of 4 threads')
    """
    found = [amount for call in calls for amount in _of_call(call)]
    return max(found, key=lambda amount: (amount.bytes, -amount.line), default=None)


def sized_by_variables(variables: Sequence[tuple[int, str, str]]) -> Iterator[SizedMemory]:
    """Find the amounts in JAVA_OPTS and similar variables: (line, variable, value)."""
    for line, name, value in variables:
        if name.startswith(("JAVA", "_JAVA", "JDK", "NXF_OPTS", "SBT_OPTS", "MAVEN_OPTS", "SPARK")):
            yield from _java(value, line)


def _of_call(call: Call) -> Iterator[SizedMemory]:
    name, words = call.name, call.arguments
    if name == "ulimit":
        yield from _limit(call)
        return
    for word in words:
        if "-Xmx" in word or "-XX:MaxHeapSize" in word:
            yield from _java(word, call.line)
    if name in _SLURMS:
        return
    own = _OWN.get(name, {})
    for at, word in enumerate(words):
        option, equals, value = word.partition("=")
        written = value if equals else "".join(words[at + 1 : at + 2])
        # `-S4G`: a short option joined to its value.
        if not equals and word[:2] in own and len(word) > 2 and not word.startswith("--"):
            option, written = word[:2], word[2:]
        if option in own:
            amount = _amount(written, own[option])
        elif option in _ANYBODYS:
            amount = _amount(written, None)
        else:
            continue
        if amount is not None:
            each = _threads(words) if name in ("samtools", "sambamba") and option == "-m" else 1
            text = f"{option} {written}" + (f" for each of {each} threads" if each > 1 else "")
            yield SizedMemory(min(amount * each, MOST_BYTES), call.line, text)


def _limit(call: Call) -> Iterator[SizedMemory]:
    words = call.arguments
    for at, word in enumerate(words[:-1]):
        if word in ("-v", "-Sv", "-Hv", "-m", "-d") and (amount := _amount(words[at + 1], K)) is not None:
            yield SizedMemory(amount, call.line, f"ulimit {word} {words[at + 1]}")


def _java(text: str, line: int) -> Iterator[SizedMemory]:
    for match in _JAVA.finditer(text):
        if (amount := _amount(match[1] or match[2], 1)) is not None:
            yield SizedMemory(amount, line, match[0])


def _threads(words: Sequence[str]) -> int:
    for at, word in enumerate(words):
        number = words[at + 1] if word in ("-@", "--threads") and at + 1 < len(words) else ""
        number = number or (word[2:] if word.startswith("-@") else word.removeprefix("--threads="))
        if number.isascii() and number.isdecimal() and len(number) < 5:
            return max(1, int(number))
    return 1


def _amount(text: str, bare: int | None) -> int | None:
    """Read an amount as bytes; None for what is no amount, or lacks a unit where `bare` is None."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or (not match[2] and bare is None):
        return None
    scale: Callable[[str], int] = lambda unit: _UNITS[unit.lower()] if unit else (bare or 1)  # noqa: E731
    return min(round(float(match[1]) * scale(match[2])), MOST_BYTES) or None
