"""Readers of the values of options, as strict or as lenient as sbatch.

Each reader raises ``ValueError`` where sbatch would end with an error.
"""

from __future__ import annotations

import re

from forewarn.job.units import MOST_COUNT, UNLIMITED, expand_nodes, parse_duration, parse_memory

_COUNT = re.compile(r"[ \t]*\+?(\d{1,18})", re.ASCII)  # strtol's: blanks before it, a sign
_NODES = re.compile(r"(\d{1,12})([kKmM]?)(?:-(\d{1,12})([kKmM]?))?(?::\d+)?", re.ASCII)
_MEMORY = re.compile(r"\+?\d{1,18}(?:[kKmMgGtTpP][bB]?)?", re.ASCII)
_THOUSANDS = {"": 1, "k": 1 << 10, "m": 1 << 20}
_GRES = re.compile(
    r"(?:gres[:/])?([^:=/,]+)(?::([^:=,]*[^\d:=,][^:=,]*))?(?:[:=](\d{1,12})([kKmM]?))?", re.ASCII
)
_DEPENDENCY = re.compile(r"([a-zA-Z]+)((?::[^:,?]+)*)")
MEGABYTE = 1 << 20


def count(text: str) -> int:
    """Read a number of something, at least one.

    >>> count("4"), count(" +4")
    (4, 4)
    """
    match = _COUNT.fullmatch(text)
    if match is None or not 0 < int(match[1]) <= MOST_COUNT:
        raise ValueError(f"not a number above zero: {text!r}")
    return int(match[1])


def nodes(text: str) -> tuple[int, int]:
    """Read the fewest and most nodes: ``2``, ``1-4``, ``2k``, from 24.05 on also ``1,3`` and ``2-8:2``.

    >>> nodes("2"), nodes("1-4"), nodes("1,3"), nodes("2k")
    ((2, 2), (1, 4), (1, 3), (2048, 2048))
    """
    found = list[int]()
    for part in text.split(","):
        match = _NODES.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"not a number of nodes: {text!r}")
        low = int(match[1]) * _THOUSANDS[match[2].lower()]
        high = low if match[3] is None else int(match[3]) * _THOUSANDS[match[4].lower()]
        found += [low, high]
    if min(found) != found[0] or found[-1] < found[0]:
        raise ValueError(f"not a number of nodes: {text!r}")
    return found[0], max(found)


def time_limit(text: str) -> int:
    """Read a time limit as seconds, rounded up to whole minutes as Slurm does. 0 and -1 ask for no limit.

    >>> time_limit("30"), time_limit("00:30"), time_limit("1-00"), time_limit("0") == UNLIMITED
    (1800, 60, 86400, True)
    """
    seconds = UNLIMITED if text.strip() == "-1" else parse_duration(text)
    if seconds is None or "." in text:
        raise ValueError(f"not a time limit: {text!r}")
    return UNLIMITED if seconds == 0 or seconds >= UNLIMITED else -(-seconds // 60) * 60


def memory(text: str) -> int:
    """Read memory as bytes, rounded up to whole megabytes; a bare number is megabytes. No decimals.

    >>> memory("4000") == 4000 << 20, memory("1G") == 1 << 30, memory("1000K") == 1 << 20, memory("0")
    (True, True, True, 0)
    """
    if not _MEMORY.fullmatch(text.strip()):
        raise ValueError(f"not an amount of memory in whole K, M, G or T: {text!r}")
    found = parse_memory(text.strip().lstrip("+"))
    assert found is not None
    return -(-found.bytes // MEGABYTE) * MEGABYTE


def gres_count(text: str, name: str) -> int | None:
    """Count how many of a generic resource a list requests; None where it is not in it.

    >>> gres_count("gpu:v100:2,nvme:100", "gpu"), gres_count("gpu", "gpu"), gres_count("nvme:1", "gpu")
    (2, 1, None)
    """
    if text.strip().lower() == "none":
        return None
    counts = list[int]()
    for part in text.split(","):
        match = _GRES.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"not a list of generic resources: {text!r}")
        if match[1] == name:
            counts.append(int(match[3] or 1) * _THOUSANDS[(match[4] or "").lower()])
    return sum(counts) if counts else None


def gpu_count(text: str) -> int:
    """Read a number of GPUs, with a type or without: ``2``, ``v100:2``, ``a100:1,v100:1``, ``a100``.

    >>> gpu_count("2"), gpu_count("v100:2"), gpu_count("a:1,b:2"), gpu_count("a100")
    (2, 2, 3, 1)
    """
    total = 0
    for part in text.split(","):
        gpu_type, colon, number = part.strip().rpartition(":")
        if not colon and not number.isdecimal():
            gpu_type, number = number, "1"
        if not (number.isascii() and number.isdecimal() and len(number) < 10) or (colon and not gpu_type):
            raise ValueError(f"not a number of GPUs: {text!r}")
        total += int(number)
    return total


def array_tasks(text: str) -> str:
    """Write the tasks of an array as Slurm shows them: in order, in ranges, the limit at the end.

    >>> array_tasks("3,1,2"), array_tasks("0-15:4"), array_tasks("1-10%2"), array_tasks("7")
    ('1-3', '0,4,8,12', '1-10%2', '7')
    """
    tasks, percent, most = text.strip().strip("[]").partition("%")
    found = list[tuple[int, int]]()  # first and last of neighbours
    for part in tasks.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", part.strip(), re.ASCII)
        if match is None:
            raise ValueError(f"not a list of tasks: {text!r}")
        low, high, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        # MaxArraySize is 4,000,001 at most.
        if high < low or step == 0 or high > 4_000_001:
            raise ValueError(f"not a list of tasks: {text!r}")
        found += [(low, high)] if step == 1 else [(n, n) for n in range(low, high + 1, step)]
    if percent and not most.isdecimal():
        raise ValueError(f"not a list of tasks: {text!r}")
    return _joined(sorted(found)) + (f"%{int(most)}" if percent and int(most) else "")


def _joined(ranges: list[tuple[int, int]]) -> str:
    joined = list[tuple[int, int]]()
    for low, high in ranges:
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in joined)


def dependency(text: str) -> str:
    """Write a dependency as Slurm shows it: each job with its own type.

    >>> dependency("afterok:1:2,singleton"), dependency("afterany:7?after:8+5")
    ('afterok:1,afterok:2,singleton', 'afterany:7?after:8+5')
    """
    parts = re.split(r"([,?])", text.strip())
    for place in range(0, len(parts), 2):
        match = _DEPENDENCY.fullmatch(parts[place])
        if match is None:
            raise ValueError(f"not a dependency: {text!r}")
        divider = parts[1] if len(parts) > 1 else ","
        ids = match[2].split(":")[1:]
        parts[place] = divider.join(f"{match[1]}:{job}" for job in dict.fromkeys(ids)) if ids else match[1]
    return "".join(parts)


def node_list(text: str) -> int:
    """Count the different nodes that a list names.

    >>> node_list("n[1-3],n2")
    3
    """
    return len(set(expand_nodes(text)))
