"""One world for all schedulers of a process, kept in step with the folder that other processes share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import RLock

from forewarn.errors import RefusedError
from forewarn.sources.simulator.live.actions import UserAction
from forewarn.sources.simulator.live.changes import apply_action
from forewarn.sources.simulator.live.folder import WorldFolder
from forewarn.sources.simulator.live.world import LiveWorld
from forewarn.sources.simulator.scenario import Scenario

_MOST = 2  # worlds kept by one process


class SharedWorld:
    """A world that is computed when it is first asked for, then moved on."""

    def __init__(self, folder: WorldFolder, scenario: Scenario) -> None:
        self.folder, self.scenario = folder, scenario
        self._lock = RLock()
        self._world: LiveWorld | None = None
        self._offset = 0

    @contextmanager
    def now(self) -> Iterator[LiveWorld]:
        """Yield the world as it is now; other threads wait meanwhile."""
        with self._lock:
            with self.folder.locked():
                # No action of another process can come before this moment any more.
                moment = int(self.folder.now())
                actions, offset = self.folder.actions_after(self._offset)
            world = self._replayed(actions, offset)
            world.advance_to(moment)
            yield world

    def act(self, action: UserAction) -> str:
        """Apply an action now and keep it; return the job's id. What is refused changes nothing."""
        with self._lock, self.folder.locked():
            actions, offset = self.folder.actions_after(self._offset)
            world = self._replayed(actions, offset)
            action = replace(action, at=max(int(self.folder.now()), world.now))
            world.advance_to(action.at)
            try:
                job_id = apply_action(world, action)
                self._offset = self.folder.append(action, self._offset)
            except RefusedError:
                raise
            except BaseException:
                self._world, self._offset = None, 0  # half applied: compute it again
                raise
            return job_id

    def _replayed(self, actions: list[UserAction], offset: int) -> LiveWorld:
        """Apply the actions of other processes; where the world is already past one, compute it again."""
        world, settings = self._world, self.folder.settings
        is_same = world is not None and (world.seed, world.first_day) == (settings.seed, settings.first_day)
        if world is None or not is_same or any(action.at < world.now for action in actions):
            world = self._world = LiveWorld(self.scenario, settings.seed, settings.first_day)
            actions, offset = self.folder.actions_after(0)
        for action in actions:
            world.advance_to(action.at)
            apply_action(world, action)
        self._offset = offset
        return world


_worlds: dict[Path, tuple[tuple[str, int, float], SharedWorld]] = {}
_opening = RLock()


def open_world(path: Path, scenario: str, *, seed: int, speed: float, days: int) -> SharedWorld:
    """Return this process's world of a folder; it is created where there is none."""
    asked = (scenario, seed, speed)
    with _opening:
        folder = WorldFolder(path.resolve())
        kept, found = _worlds.pop(folder.path, (None, None))
        if found is None or kept != asked or not folder.exists():
            loaded = folder.open(scenario, seed=seed, speed=speed, days=days)
            if found is None or found.scenario != loaded:
                found = SharedWorld(folder, loaded)
        _worlds[folder.path] = asked, found
        while len(_worlds) > _MOST:
            del _worlds[next(iter(_worlds))]
        return found
