"""Which Slurm versions there are, and which release of Debian carries each."""

from __future__ import annotations

from dataclasses import dataclass

from lab.errors import LabError


@dataclass(frozen=True, slots=True)
class SlurmVersion:
    """One version of Slurm, as Debian packages it."""

    name: str
    suite: str
    compiler: str
    """A package that can compile C, for the workload; tcc is a hundredth of gcc, where it is to be had."""


VERSIONS = {
    version.name: version
    for version in (
        SlurmVersion("22.05", "bookworm", compiler="tcc"),
        SlurmVersion("24.11", "trixie", compiler="tcc"),
        SlurmVersion("26.05", "forky", compiler="gcc"),
    )
}

DEFAULT = "24.11"


def version_named(name: str) -> SlurmVersion:
    """Return the version of that name, or raise an error that lists those there are."""
    try:
        return VERSIONS[name]
    except KeyError:
        raise LabError(f"no lab for Slurm {name}: there is {', '.join(VERSIONS)}") from None
