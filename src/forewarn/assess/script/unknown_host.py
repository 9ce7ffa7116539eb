"""A host of which nothing is known: that of a caller who sends a script over the network."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


class UnknownHost:
    """A `Host` that cannot be examined: the caller's files, programs and packages are not on this machine."""

    @property
    def environment(self) -> Mapping[str, str]:
        """No variables are known."""
        return {}

    @property
    def architecture(self) -> str | None:
        """Not known."""
        return None

    @property
    def slurm(self) -> tuple[int, int] | None:
        """Not known."""
        return None

    def same_file_system(self, path: str, other: str) -> bool | None:  # noqa: ARG002
        """Return None: not known."""
        return None

    def path_type(self, path: str) -> str | None:  # noqa: ARG002
        """Return None: not known."""
        return None

    def may_access(self, path: str, mode: str) -> bool | None:  # noqa: ARG002
        """Return None: not known."""
        return None

    def head(self, path: str, length: int) -> bytes | None:  # noqa: ARG002
        """Return None: not known."""
        return None

    def which(self, program: str) -> str | None:  # noqa: ARG002
        """Return None: not known."""
        return None

    def has_program(self, program: str) -> bool | None:  # noqa: ARG002
        """Return None: not known."""
        return None

    def has_module(self, name: str, folders: Sequence[str]) -> bool | None:  # noqa: ARG002
        """Return None: not known."""
        return None

    def similar_modules(self, name: str, folders: Sequence[str]) -> Collection[str]:  # noqa: ARG002
        """Return no module."""
        return ()

    def conda_environment(self, name: str) -> str | None:  # noqa: ARG002
        """Return None: not known."""
        return None

    def missing_packages(self, python: str, names: Sequence[str]) -> Collection[str] | None:  # noqa: ARG002
        """Return None: not known."""
        return None

    def has_library(self, name: str, folders: Sequence[str]) -> bool | None:  # noqa: ARG002
        """Return None: not known."""
        return None
