"""Trackable resources in three forms: Slurm's text, slurmdb's list, and GRES."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from forewarn.job.units import format_tres, gpus_in_tres, parse_tres
from forewarn.sources.slurm.record_values import FieldReader, RawRecord, as_number, at, bounded

# Resources used, not requested or allocated, though slurmdb lists them with those allocated.
_USED = frozenset({"energy", "vmem", "pages"})
_GPU = re.compile(r"(?:gres[/:])?gpu(?::(?!\d+(?:\(|$))([^:=,()]+))?(?:[:=](\d+))?(?:\(.*)?")


class TresCounts(NamedTuple):
    """A TRES string in Slurm's form, sorted, and its counts."""

    text: str | None = None
    nodes: int | None = None
    cpus: int | None = None
    memory: int | None = None
    gpus: int | None = None


NOTHING = TresCounts()


def resources(path: str) -> FieldReader:
    """Build a reader of the resources at a path, text (slurm) or list (slurmdb)."""
    place = at(path)

    def read(record: RawRecord) -> TresCounts:
        value = place(record)
        if not value:
            return NOTHING
        if isinstance(value, str):
            return _of_text(value)
        return _of_list(tuple((item["type"], item["name"], as_number(item["count"])) for item in value))

    return read


@lru_cache(maxsize=1 << 14)
def _of_text(value: str) -> TresCounts:
    return _counted(parse_tres(value))


@lru_cache(maxsize=1 << 14)
def _of_list(items: tuple[tuple[str, str | None, float | None], ...]) -> TresCounts:
    return _counted(
        {
            # slurmdb counts memory in megabytes here (and in bytes where it lists what steps used).
            f"{resource}/{name}" if name else resource: bounded(
                int(count) << 20 if resource == "mem" else count
            )
            for resource, name, count in items
            if count is not None
        }
    )


def _counted(found: dict[str, int]) -> TresCounts:
    counts = {name: count for name, count in found.items() if name not in _USED}
    if not counts:
        return NOTHING
    return TresCounts(
        format_tres(counts), counts.get("node"), counts.get("cpu"), counts.get("mem"), gpus_in_tres(counts)
    )


def memory_asked(
    requested: tuple[int | None, str | None], whole: TresCounts
) -> tuple[int | None, str | None]:
    """Return the requested memory; for `--mem=0` (null up to v0.0.38) its amount, as sacct has only this.

    >>> memory_asked((0, "node"), TresCounts(nodes=2, memory=128_000))
    (64000, 'node')
    """
    amount, per = requested
    if not amount and per != "cpu" and whole.memory and whole.nodes:
        return whole.memory // whole.nodes, "node"
    return requested


@lru_cache(maxsize=1 << 12)
def gpus_in_gres(text: str) -> int | None:
    """Count the GPUs that a GRES text names.

    >>> gpus_in_gres("gpu:h100:4(IDX:0-3)"), gpus_in_gres("gres/gpu:2"), gpus_in_gres("gres/gpu=2,nvme:1")
    (4, 2, 2)
    >>> gpus_in_gres("gpu"), gpus_in_gres("gpu:a100"), gpus_in_gres("gpu:a:1,gpu:b:2"), gpus_in_gres("nvme:1")
    (1, 1, 3, None)
    """
    # Commas also appear inside: gpu:4(IDX:0,2).
    matches = [_GPU.fullmatch(part) for part in re.split(r",(?![^(]*\))", text)]
    counts = [int(match[2] or 1) for match in matches if match]
    return bounded(sum(counts)) if counts else None
