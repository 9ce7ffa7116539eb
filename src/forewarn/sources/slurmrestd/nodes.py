"""The fields of nodes in answers of the controller."""

from __future__ import annotations

from types import MappingProxyType

from forewarn.sources.slurm.record_values import MB, Fields, RawRecord, as_number, moment, number, text, words
from forewarn.sources.slurm.tres import gpus_in_gres


def _state(record: RawRecord) -> str | None:
    """Join base state and flags: a list, or up to v0.0.38 a word in lower case and a list of flags."""
    state = record.get("state")
    parts = state if isinstance(state, list) else [state] if state else []
    return "+".join([*parts, *(record.get("state_flags") or ())]).upper() or None


def _gpus(record: RawRecord) -> int | None:
    gres = record.get("gres")
    return gpus_in_gres(gres) if gres else None


def _load(record: RawRecord) -> float | None:
    """Read the load, which Slurm keeps in hundredths."""
    load = as_number(record.get("cpu_load"))
    return None if load is None else load / 100


NODE: Fields = MappingProxyType(
    {
        "cluster": text("cluster_name"),
        "name": text("name"),
        "state": _state,
        "reason": text("reason"),
        "reason_at": moment("reason_changed_at"),
        "boot": moment("boot_time"),
        "slurmd_start": moment("slurmd_start_time"),
        "last_busy": moment("last_busy"),
        "cpus": number("cpus"),
        "cpus_given": number("alloc_cpus"),
        "memory": number("real_memory", scale=MB),
        "memory_given": number("alloc_memory", scale=MB),
        "memory_free": number("free_mem", "free_memory", scale=MB),
        "cpu_load": _load,
        "gpus": _gpus,
        "gres": text("gres"),
        "features": words("features"),
        "partitions": words("partitions"),
        "architecture": text("architecture"),
        "version": text("version", "slurmd_version"),
    }
)
