"""Readers and writers of Slurm's units: durations, memory, TRES strings, node lists, job ids.

Each reader raises ``ValueError`` with the text that it could not read; each writer writes what Slurm itself
would show, so that reading it back gives the same value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import prod

UNLIMITED = 0xFFFFFFFF  # seconds; Slurm's INFINITE, larger than any real limit
NO_LIMIT = frozenset({"UNLIMITED", "INFINITE"})
# Slurm's words for a missing value. `Partition_Limit` is sacct's word for a job that asked for no time limit
# and gets its partition's.
ABSENT = frozenset({"", "N/A", "NONE", "(NULL)", "UNKNOWN", "INVALID", "NOT_SET", "PARTITION_LIMIT"})
# Larger than any real count, and small enough that a few of them can be added and multiplied in 64 bits.
MOST_COUNT = 10**15  # seconds, CPUs, joules
MOST_BYTES = 1 << 60


# --- durations ---------------------------------------------------------------------------------

_DURATION = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(?:\.\d+)?", re.ASCII)


def parse_duration(text: str, *, bare: int = 60) -> int | None:
    """Read a Slurm duration as seconds; None where it is not set.

    Slurm's forms: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes,
    days-hours:minutes:seconds. `bare` is the unit of a lone number: minutes when a user writes it.

    >>> parse_duration("1-02:03:04"), parse_duration("30"), parse_duration("02:30"), parse_duration("1-02")
    (93784, 1800, 150, 93600)
    >>> parse_duration("UNLIMITED") == UNLIMITED
    True
    """
    text = text.strip()
    if text.upper() in ABSENT:
        return None
    if text.upper() in NO_LIMIT:
        return UNLIMITED
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"not a Slurm duration: {text!r}")
    days, a, b, c = match.groups()
    if days is not None:
        seconds = int(days) * 86400 + int(a) * 3600 + int(b or 0) * 60 + int(c or 0)
    elif c is not None:
        seconds = int(a) * 3600 + int(b) * 60 + int(c)
    elif b is not None:
        seconds = int(a) * 60 + int(b)
    else:
        seconds = int(a) * bare
    if seconds > MOST_COUNT:
        raise ValueError(f"a duration that is too large: {text!r}")
    return seconds


def format_duration(seconds: int) -> str:
    """Write a duration as Slurm shows it.

    >>> format_duration(93784), format_duration(1800), format_duration(UNLIMITED)
    ('1-02:03:04', '00:30:00', 'UNLIMITED')
    """
    if seconds < 0:
        raise ValueError(f"a duration cannot be negative: {seconds}")
    if seconds >= UNLIMITED:
        return "UNLIMITED"
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


# --- memory ------------------------------------------------------------------------------------

_SCALE = {"": 1 << 20, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([BKMGTP]?)(?:I?B)?([cn]?)", re.IGNORECASE | re.ASCII)
_PER = {"c": "cpu", "n": "node", "": None}


@dataclass(frozen=True, slots=True)
class Memory:
    """An amount of memory, and the unit it is requested per (cpu, node), where the text names one."""

    bytes: int
    per: str | None = None


def parse_memory(text: str, *, bare: str = "M") -> Memory | None:
    """Read an amount of memory; None where it is not set. A number without a unit is in `bare` units.

    Before 21.08, sacct marked a request with what it was counted per: ``4000Mc``, ``4Gn``.

    >>> parse_memory("4000Mc"), parse_memory("0n"), parse_memory("2.5G")
    (Memory(bytes=4194304000, per='cpu'), Memory(bytes=0, per='node'), Memory(bytes=2684354560, per=None))
    """
    text = text.strip()
    if text.upper() in ABSENT:
        return None
    if text.upper() in NO_LIMIT:
        return Memory(UNLIMITED << 20)
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise ValueError(f"not a Slurm memory size: {text!r}")
    amount, unit, per = match.groups()
    # Decimal, since a float cannot hold every count of bytes.
    size = Decimal(amount) * _SCALE[unit.upper() or bare]
    if size > MOST_BYTES:
        raise ValueError(f"a memory size that is too large: {text!r}")
    return Memory(round(size), _PER[per.lower()])


def format_memory(amount: int, per: str | None = None) -> str:
    """Write an amount of memory as Slurm shows it, in the largest unit that keeps it exact.

    >>> format_memory(4194304000, "cpu"), format_memory(0, "node"), format_memory(2 << 30)
    ('4000Mc', '0n', '2G')
    """
    if amount < 0:
        raise ValueError(f"memory cannot be negative: {amount}")
    suffix = {"cpu": "c", "node": "n", None: ""}[per]
    if amount == 0:
        return "0" + suffix
    for unit in "PTGMK":
        if amount % _SCALE[unit] == 0:
            return f"{amount // _SCALE[unit]}{unit}{suffix}"
    return f"{amount}B{suffix}"


# --- TRES --------------------------------------------------------------------------------------

# Slurm writes memory with a unit and the others as plain counts.
_TRES_MEMORY = frozenset({"mem", "vmem", "bb/cray", "fs/disk"})


def parse_tres(text: str) -> dict[str, int]:
    """Read trackable resources by name: memory in bytes, CPU time (as in TRESUsageInTot) in seconds.

    >>> parse_tres("cpu=2,mem=200M,node=1,gres/gpu:v100=1"), parse_tres("cpu=00:01:40,mem=1K")
    ({'cpu': 2, 'mem': 209715200, 'node': 1, 'gres/gpu:v100': 1}, {'cpu': 100, 'mem': 1024})
    """
    found: dict[str, int] = {}
    if text.strip().upper() in ABSENT:
        return found
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or not name:
            raise ValueError(f"not a TRES string: {text!r}")
        if value.endswith("?"):  # ``16?`` is Slurm's INFINITE64 bytes: no amount
            continue
        count = _tres_count(name, value)
        if count is None or count > MOST_BYTES:
            raise ValueError(f"not a TRES string: {text!r}: {name} cannot be {value!r}")
        found[name] = count
    return found


def _tres_count(name: str, value: str) -> int | None:
    if _is_number(value) and name not in {"mem", "vmem"}:
        return int(value)
    try:
        if ":" in value:
            return parse_duration(value, bare=1)
        amount = parse_memory(value)
    except ValueError:
        return None
    return None if amount is None or (name not in _TRES_MEMORY and _is_number(value[-1:])) else amount.bytes


def _is_number(text: str) -> bool:
    """Check for digits that `int` reads: `str.isdigit` accepts ``²``, too."""
    return text.isascii() and text.isdigit()


def format_tres(resources: Mapping[str, int]) -> str:
    """Write trackable resources as Slurm shows them, sorted by name so that equal requests are equal text.

    >>> format_tres({"node": 1, "mem": 209715200, "cpu": 2})
    'cpu=2,mem=200M,node=1'
    """
    return ",".join(
        f"{name}={format_memory(count) if name in _TRES_MEMORY else count}"
        for name, count in sorted(resources.items())
    )


def gpus_in_tres(resources: Mapping[str, int]) -> int | None:
    """Count the GPUs of a TRES mapping: the untyped count, else the sum of the typed ones.

    >>> gpus_in_tres({"gres/gpu": 4, "gres/gpu:v100": 4}), gpus_in_tres({"gres/gpu:a": 1, "gres/gpu:b": 2})
    (4, 3)
    """
    if "gres/gpu" in resources:
        return resources["gres/gpu"]
    typed = [count for name, count in resources.items() if name.startswith("gres/gpu:")]
    return sum(typed) if typed else None


# --- node lists --------------------------------------------------------------------------------


def expand_nodes(text: str) -> list[str]:
    """List the nodes of a Slurm node list, in its order.

    >>> expand_nodes("n[01-03,7],login"), expand_nodes("r[1-2]c[0-1]")
    (['n01', 'n02', 'n03', 'n7', 'login'], ['r1c0', 'r1c1', 'r2c0', 'r2c1'])
    """
    return [node for part in _parts(text) for node in _expand_one(part)]


def check_nodes(text: str) -> None:
    """Raise if a text is no node list, without expanding it."""
    for _ in _parts(text):
        pass


def _parts(text: str) -> Iterator[str]:
    """Split a node list into its parts and check each: valid ranges, no impossible number of nodes."""
    if text.strip().upper() in ABSENT or text.strip() == "None assigned":
        return
    nodes = 0
    for part in map(str.strip, _split_outside_brackets(text)):
        if not part:
            raise ValueError(f"not a node list: {text!r}: an empty name")
        nodes += prod(sum(map(_length, ranges.split(","))) for ranges in _RANGES.findall(part))
        if nodes > _MOST_NODES:
            raise ValueError(f"not a node list: {text!r:.200}: more than {_MOST_NODES:,} nodes")
        yield part


_RANGES = re.compile(r"\[([^\]]*)\]")


def _length(piece: str) -> int:
    """Count the numbers that ``7`` or ``01-03`` names."""
    low, dash, high = piece.partition("-")
    if not _is_number(low) or (dash and not _is_number(high)):
        raise ValueError(f"not a range in a node list: {piece!r}")
    length = int(high or low) - int(low) + 1
    if length < 1:
        raise ValueError(f"not a range in a node list: {piece!r} runs backwards")
    return length


def _split_outside_brackets(text: str) -> Iterator[str]:
    depth, begin = 0, 0
    for place, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise ValueError(f"not a node list: {text!r}")
        if char == "," and depth == 0:
            yield text[begin:place]
            begin = place + 1
    if depth:
        raise ValueError(f"not a node list: {text!r}")
    yield text[begin:]


_MOST_NODES = 1_000_000  # Slurm's own limit is 65,536; more is a broken field, not a machine


def _expand_one(part: str) -> Iterator[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        yield part
        return
    ranges, _, tail = rest.partition("]")
    tails = list(_expand_one(tail)) if tail else [""]
    for piece in ranges.split(","):
        low, _, high = piece.partition("-")
        for number in range(int(low), int(high or low) + 1):
            for end in tails:
                yield f"{head}{number:0{len(low)}}{end}"


_NUMBERED = re.compile(r"([^\[\],]*?)(\d+)", re.ASCII)


def compress_nodes(nodes: Iterable[str]) -> str:
    """Write nodes as Slurm lists them: sorted, in ranges, numbers of the same width together.

    >>> compress_nodes(["n02", "n01", "n03", "n7", "login"])
    'login,n[7,01-03]'
    """
    plain: set[str] = set()
    numbered: dict[str, set[tuple[int, int]]] = {}
    for node in nodes:
        match = _NUMBERED.fullmatch(node)
        if match is None:
            plain.add(node)
        else:
            prefix, digits = match.groups()
            numbered.setdefault(prefix, set()).add((len(digits), int(digits)))
    folded = {prefix: _fold(numbers) for prefix, numbers in numbered.items()}
    return ",".join(
        [
            *sorted(plain),
            *(
                f"{prefix}[{','.join(ranges)}]" if len(ranges) > 1 or "-" in ranges[0] else prefix + ranges[0]
                for prefix, ranges in sorted(folded.items())
            ),
        ]
    )


def _fold(numbers: set[tuple[int, int]]) -> list[str]:
    """Join numbers into ranges; 9 and 10 differ in width and stay apart, 09 and 10 do not."""
    ranges: list[tuple[int, int, int]] = []
    for width, n in sorted(numbers):
        if ranges and ranges[-1][0] == width and ranges[-1][2] == n - 1:
            ranges[-1] = (width, ranges[-1][1], n)
        else:
            ranges.append((width, n, n))
    return [f"{low:0{w}}" if low == high else f"{low:0{w}}-{high:0{w}}" for w, low, high in ranges]


# --- job ids -----------------------------------------------------------------------------------

_JOB_ID = re.compile(r"(\d+)(?:_(\d+)|_\[([^\]]+)\]|\+(\d+))?(?:\.(.+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobId:
    """A job id as people and sacct write it, split into its parts."""

    number: int
    task: int | None = None  # 123_4
    tasks: str | None = None  # 123_[0-9%2]: an array whose tasks have not been split off
    offset: int | None = None  # 123+1: a component of a het job
    step: str | None = None  # 123.batch

    def __str__(self) -> str:
        step = f".{self.step}" if self.step is not None else ""
        return self.job + step

    @property
    def job(self) -> str:
        """The id of the job, as records hold it: without the step, pending tasks in brackets."""
        if self.task is not None:
            return f"{self.number}_{self.task}"
        if self.tasks is not None:
            return f"{self.number}_[{self.tasks}]"
        if self.offset is not None:
            return f"{self.number}+{self.offset}"
        return str(self.number)


def parse_job_id(text: str) -> JobId:
    """Split a job id into its parts.

    >>> parse_job_id("123_4.batch")
    JobId(number=123, task=4, tasks=None, offset=None, step='batch')
    >>> str(parse_job_id("7_[0-9%2]")), str(parse_job_id("12+1.0"))
    ('7_[0-9%2]', '12+1.0')
    """
    match = _JOB_ID.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a Slurm job id: {text!r}")
    number, task, tasks, offset, step = match.groups()
    return JobId(int(number), _integer(task), tasks, _integer(offset), step)


def _integer(text: str | None) -> int | None:
    return None if text is None else int(text)
