"""The versions of the API that a slurmrestd serves, and the one to use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forewarn.errors import VersionGoneError

OLDEST, NEWEST = 36, 45  # of v0.0.N: those whose answers are tested
_JOBS = re.compile(r"/slurm(?:db)?/(v0\.0\.(\d+))/jobs/?")


@dataclass(frozen=True, slots=True)
class ServedVersions:
    """The versions that a server offers, best first."""

    versions: tuple[str, ...]
    parameters: Mapping[str, frozenset[str]]  # of the history's jobs, by version

    @classmethod
    def read(cls, openapi: Any) -> ServedVersions:
        """Read a server's OpenAPI description.

        The newest tested version comes before newer ones, which are used where there is no other.

        >>> jobs = {"get": {"parameters": [{"name": "skip_steps"}]}}
        >>> paths = {f"/slurmdb/v0.0.{n}/jobs/": jobs for n in (44, 46, 45, 30)}
        >>> served = ServedVersions.read({"paths": paths})
        >>> served.versions, served.has("v0.0.45", "skip_steps")
        (('v0.0.45', 'v0.0.44', 'v0.0.46'), True)
        """
        paths = openapi.get("paths") if isinstance(openapi, dict) else None
        found: dict[int, set[str]] = {}
        for path, methods in (paths or {}).items():
            match = _JOBS.fullmatch(path)
            if match is None or int(match[2]) < OLDEST:
                continue
            names = found.setdefault(int(match[2]), set())
            if path.startswith("/slurmdb/"):
                names |= {p.get("name", "") for p in (methods.get("get") or {}).get("parameters") or ()}
        order = sorted(found, key=lambda n: (n > NEWEST, -n if n <= NEWEST else n))
        return cls(tuple(f"v0.0.{n}" for n in order), {f"v0.0.{n}": frozenset(found[n]) for n in order})

    def has(self, version: str, parameter: str) -> bool:
        """Check whether the history of a version has a parameter."""
        return parameter in self.parameters.get(version, frozenset())

    @property
    def has_accounting(self) -> bool:
        """Whether it offers the accounting database, in any version."""
        return any(self.parameters.values())

    def without(self, version: str) -> ServedVersions:
        """Return the same without a version that is listed but not served."""
        return ServedVersions(tuple(v for v in self.versions if v != version), self.parameters)

    def best(self, address: str) -> str:
        """Return the version to use."""
        if not self.versions:
            raise VersionGoneError(
                f"{address}: serves no version of Slurm's API from v0.0.{OLDEST} on: slurmrestd needs its "
                "plugins openapi/slurmctld and openapi/slurmdbd (before 23.11 openapi/v0.0.N and dbv0.0.N); "
                "`slurmrestd -s list` shows them"
            )
        return self.versions[0]


def number_of(version: str) -> int:
    """Return the last number of a version.

    >>> number_of("v0.0.42")
    42
    """
    return int(version.rpartition(".")[2])
