"""The protocol by which rules look at the machine that a script is checked on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol


class Host(Protocol):
    """A machine to check a script on. Every answer may be None, for *not known*, which is never a finding."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables that the job will inherit."""

    @property
    def architecture(self) -> str | None:
        """The processor architecture, by its ELF name: x86_64, aarch64."""

    @property
    def slurm(self) -> tuple[int, int] | None:
        """The version of Slurm, such as (24, 11)."""

    def same_file_system(self, path: str, other: str) -> bool | None:
        """Check whether two paths, or their nearest existing parents, are on one file system."""

    def path_type(self, path: str) -> str | None:
        """Return ``file``, ``folder`` or ``nothing``; None where the path cannot be examined."""

    def may_access(self, path: str, mode: str) -> bool | None:
        """Check whether the user may read (r), write (w), or execute and enter (x) a path."""

    def head(self, path: str, length: int) -> bytes | None:
        """Read the first bytes of a file."""

    def which(self, program: str) -> str | None:
        """Return the path at which the shell finds a program."""

    def has_program(self, program: str) -> bool | None:
        """Check whether the shell finds a program."""

    def has_module(self, name: str, folders: Sequence[str]) -> bool | None:
        """Check whether a module exists in MODULEPATH or in `folders`."""

    def similar_modules(self, name: str, folders: Sequence[str]) -> Collection[str]:
        """Return modules that the name may stand for: other versions, or other names."""

    def conda_environment(self, name: str) -> str | None:
        """Return the folder of a conda environment, or where it would be; None without conda."""

    def missing_packages(self, python: str, names: Sequence[str]) -> Collection[str] | None:
        """Return the packages that a Python interpreter does not find."""

    def has_library(self, name: str, folders: Sequence[str]) -> bool | None:
        """Check whether the loader finds a shared library in `folders` or in its standard places."""
