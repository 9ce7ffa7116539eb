"""Measure upkeep on a simulated history: prune, erase-user, backup, restore, beside a writer.

python -m bench.upkeep --jobs 300000
"""

from __future__ import annotations

import argparse
import shutil
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import forewarn
from forewarn.config import Config
from forewarn.operate.upkeep.backup import backup
from forewarn.operate.upkeep.erase import erase_user
from forewarn.operate.upkeep.prune import prune
from forewarn.operate.upkeep.restore import restore
from forewarn.operate.workspace import Workspace
from forewarn.store.opening import open_store

DAY = 86400


class Writer:
    """A process beside it that writes a little, often, and notes the longest wait."""

    def __init__(self, config: Config) -> None:
        self._config, self._stopped = config, threading.Event()
        self.longest, self.writes = 0.0, 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        with open_store(self._config) as store:
            while not self._stopped.wait(0.05):
                begin = time.monotonic()
                with store.writing() as writer:
                    writer.set_cursor("bench", str(self.writes))
                self.longest = max(self.longest, time.monotonic() - begin)
                self.writes += 1


def measure(folder: Path, jobs: int) -> None:
    """Print one line for each operation."""
    home = folder / "home"
    config = Config(home=home)
    with forewarn.open(home) as site:
        site.ingest(*site.simulate("default", jobs=jobs).sources)
    database = home / "forewarn.db"
    shutil.rmtree(home / "simulated")
    size = database.stat().st_size
    begin = time.monotonic()
    shutil.copyfile(database, folder / "copy.db")
    copied = time.monotonic() - begin
    print(f"{jobs:,} jobs, store of {size / 2**20:.1f} MiB; a plain copy of it takes {copied:.2f} s")
    begin = time.monotonic()
    with Writer(config) as beside:
        saved = backup(config, folder / "b.tar.gz")
    took = time.monotonic() - begin
    print(f"backup   {took:6.2f} s, {saved.size / size:.2f} of the size, longest wait {beside.longest:.2f} s")
    begin = time.monotonic()
    restore(Config(home=folder / "other"), saved.file)
    print(f"restore  {time.monotonic() - begin:6.2f} s")
    with Workspace(config) as workspace:
        store = workspace.writing()
        submits = [frame["submit"] for frame in store.scan(columns=["submit"])]
        first, last = int(submits[0][0]), int(submits[-1][-1])
        user = next(iter(store.scan(columns=["user"])))["user"].mode()[0]
        begin = time.monotonic()
        with Writer(config) as beside:
            erased = erase_user(workspace, user)
        took = time.monotonic() - begin
        print(
            f"erase    {took:6.2f} s, {sum(erased.jobs.values()):,} jobs, longest wait {beside.longest:.2f} s"
        )
        size = database.stat().st_size
        days = max(1, (last - first) // 2 // DAY)
        begin = time.monotonic()
        with Writer(config) as beside:
            pruned = prune(workspace, history_kept=days, at=last)
        took = time.monotonic() - begin
        share = sum(pruned.jobs.values()) / jobs
        print(
            f"prune    {took:6.2f} s, {share:.2f} of the jobs, {1 - database.stat().st_size / size:.2f} of "
            f"the file freed, longest wait {beside.longest:.2f} s of {beside.writes} writes"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=300_000)
    asked = parser.parse_args()
    with TemporaryDirectory() as scratch:
        measure(Path(scratch), asked.jobs)
