"""A store of people's entries, a clock that a test turns, and keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from forewarn.sources.slurm.clock import Clock
from forewarn.store.people import PeopleStore
from forewarn.store.people_embedded import open_embedded_people


@dataclass
class TurnedClock:
    """A clock that a test turns."""

    now: float = 1_800_000_000.0

    def clock(self) -> Clock:
        return Clock(now=lambda: self.now, monotonic=lambda: self.now)


@pytest.fixture
def turned() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def people(tmp_path: Path) -> Iterator[PeopleStore]:
    with open_embedded_people(tmp_path) as store:
        yield store


@pytest.fixture(scope="session")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)
