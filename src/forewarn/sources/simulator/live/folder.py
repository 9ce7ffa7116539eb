"""What is kept of a simulated cluster in the home folder, so that a restart and other processes continue it.

`world.json` has the scenario, the seed and how simulated time follows the wall clock; `actions.jsonl` what
users did, one line each, never changed. The cluster itself is computed from them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from forewarn.errors import StoreError, UsageError
from forewarn.files import open_no_link, write_file
from forewarn.sources.simulator.live.actions import UserAction
from forewarn.sources.simulator.scenario import Scenario, load_scenario
from forewarn.sources.slurm.clock import Clock

FOLDER = "simulator"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTime:
    """How simulated time follows the wall clock: from one moment of both on, at one speed."""

    wall: float
    simulated: float
    speed: float

    def at(self, wall: float) -> float:
        """Return the simulated time of a moment of the wall clock.

        >>> SimulatedTime(wall=100.0, simulated=1000.0, speed=60.0).at(101.0)
        1060.0
        """
        return self.simulated + max(0.0, wall - self.wall) * self.speed


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSettings:
    """The content of `world.json`."""

    scenario: str
    digest: str  # of the scenario, which a file may change
    seed: int
    first_day: date
    time: SimulatedTime


class WorldFolder:
    """The files of one simulated cluster."""

    def __init__(self, path: Path, *, wall: Callable[[], float] = time.time) -> None:
        self.path = path
        self._wall = wall
        self._read: tuple[int, WorldSettings] | None = None

    @property
    def _settings_file(self) -> Path:
        return self.path / "world.json"

    @property
    def _actions_file(self) -> Path:
        return self.path / "actions.jsonl"

    def exists(self) -> bool:
        """Check whether a cluster has been created here."""
        return self._settings_file.exists()

    def open(self, scenario: str, *, seed: int, speed: float, days: int) -> Scenario:
        """Create the cluster with `days` of history before now, or continue the one that is there.

        Another speed holds from now on; another scenario or seed is an error, as it is another cluster.
        """
        loaded = load_scenario(scenario)
        digest = hashlib.sha256(repr(loaded).encode()).hexdigest()[:16]
        now = self._wall()
        if not self._settings_file.exists():
            self._create(scenario, loaded, digest, seed, speed, days, now)
        found = self.settings
        if (found.digest, found.seed) != (digest, seed):
            raise UsageError(
                f"{self.path}: holds another simulated cluster (scenario {found.scenario}, seed "
                f"{found.seed}) than configured (scenario {scenario}, seed {seed}); name that one, or delete "
                "this folder and the store to start again"
            )
        if found.time.speed != speed and os.access(self.path, os.W_OK):
            with self.locked():
                at = self._wall()
                self._write(found, SimulatedTime(wall=at, simulated=found.time.at(at), speed=speed))
        return loaded

    def _create(
        self, name: str, scenario: Scenario, digest: str, seed: int, speed: float, days: int, now: float
    ) -> None:
        zone = ZoneInfo(scenario.cluster.timezone)
        first_day = datetime.fromtimestamp(now, zone).date() - timedelta(days=days)
        begun = SimulatedTime(wall=now, simulated=float(int(now)), speed=speed)
        settings = WorldSettings(scenario=name, digest=digest, seed=seed, first_day=first_day, time=begun)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be created: {error.strerror}") from None
        with self.locked():
            if not self._settings_file.exists():
                self._write(settings, begun)

    @property
    def settings(self) -> WorldSettings:
        """The settings, read again when the file has changed."""
        try:
            stamp = self._settings_file.stat().st_mtime_ns
            if self._read is None or self._read[0] != stamp:
                self._read = (stamp, self._parse(self._settings_file.read_bytes()))
        except OSError as error:
            raise StoreError(f"{self._settings_file}: cannot be read: {error.strerror}") from None
        return self._read[1]

    def _parse(self, content: bytes) -> WorldSettings:
        try:
            found = json.loads(content)
            if found["version"] != _VERSION:
                raise ValueError(f"version {found['version']} is not known here")
            return WorldSettings(
                scenario=str(found["scenario"]),
                digest=str(found["digest"]),
                seed=int(found["seed"]),
                first_day=date.fromisoformat(found["first_day"]),
                time=SimulatedTime(**{name: float(found[name]) for name in ("wall", "simulated", "speed")}),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{self._settings_file}: is not readable ({error}); delete {self.path}"
            ) from None

    def _write(self, settings: WorldSettings, at: SimulatedTime) -> None:
        content = {
            "version": _VERSION,
            "scenario": settings.scenario,
            "digest": settings.digest,
            "seed": settings.seed,
            "first_day": settings.first_day.isoformat(),
            "wall": at.wall,
            "simulated": at.simulated,
            "speed": at.speed,
        }
        write_file(self._settings_file, json.dumps(content, indent=1) + "\n", private=True)

    # --- time -------------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the simulated time."""
        return self.settings.time.at(self._wall())

    def clock(self) -> Clock:
        """Return a clock of simulated time; its `sleep` is the wall clock's, see `Clock.speed`."""
        return Clock(
            now=self.now,
            monotonic=lambda: time.monotonic() * self.settings.time.speed,
            speed=self.settings.time.speed,
        )

    # --- actions ----------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude other processes; readers without write permission share the lock."""
        writable = os.access(self.path, os.W_OK)
        flags = os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY
        try:
            handle = open_no_link(str(self.path / "lock"), flags)
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be locked: {error.strerror}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if writable else fcntl.LOCK_SH)
            yield
        finally:
            os.close(handle)

    def actions_after(self, offset: int) -> tuple[list[UserAction], int]:
        """Return the actions from a place in the file on, and the next place; a line cut short is none."""
        try:
            with self._actions_file.open("rb") as file:
                if os.fstat(file.fileno()).st_size < offset:
                    raise StoreError(f"{self._actions_file}: was cut or replaced; restart this process")
                file.seek(offset)
                content = file.read()
        except FileNotFoundError:
            if offset:
                raise StoreError(f"{self._actions_file}: is gone; restart this process") from None
            return [], offset
        whole = content[: content.rfind(b"\n") + 1]
        return [UserAction.from_line(line) for line in whole.splitlines()], offset + len(whole)

    def append(self, action: UserAction, offset: int) -> int:
        """Add an action at a place in the file, which is the end of its last whole line; return the next."""
        line = action.to_line().encode()
        try:
            with open(
                self._actions_file, "r+b" if self._actions_file.exists() else "w+b", opener=open_no_link
            ) as file:
                file.truncate(offset)
                file.seek(offset)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"{self._actions_file}: cannot be written: {error.strerror}") from None
        return offset + len(line)
