"""What a script will find around it, as far as the machine of the check can tell."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol


class Host(Protocol):
    """The contract: every answer may be None, which is *cannot say* and never becomes a finding."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that the job will inherit."""

    @property
    def architecture(self) -> str | None:
        """What processors there are, as ELF's number of it has a name: x86_64, aarch64."""

    @property
    def slurm(self) -> tuple[int, int] | None:
        """The version of Slurm: (24, 11)."""

    def same_disk(self, path: str, other: str) -> bool | None:
        """Whether two places, or what there is above them, lie on one file system."""

    def kind(self, path: str) -> str | None:
        """``file``, ``folder``, ``nothing``; None where it cannot be looked at."""

    def may(self, path: str, how: str) -> bool | None:
        """Whether the user may read (r), write (w) or run and enter (x) it."""

    def head(self, path: str, length: int) -> bytes | None:
        """The first bytes of a file."""

    def which(self, program: str) -> str | None:
        """Where the shell would find a program."""

    def has_module(self, name: str, folders: Sequence[str]) -> bool | None:
        """Whether a module can be loaded; `folders` besides MODULEPATH."""

    def modules_beside(self, name: str, folders: Sequence[str]) -> Collection[str]:
        """Modules that one could have meant: other versions of it, other names."""

    def environments(self, name: str) -> str | None:
        """The folder of a conda environment of that name, or where it would be; None without a conda."""

    def missing_packages(self, python: str, names: Sequence[str]) -> Collection[str] | None:
        """Which packages that Python does not find."""

    def has_library(self, name: str, folders: Sequence[str]) -> bool | None:
        """Whether the loader would find a library, in these folders or where it looks always."""
