"""A backup or a restore that says how far it is and waits there, to be killed.

python -m tests.operate.upkeep.killed backup|restore HOME FILE
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forewarn.config import Config
from forewarn.operate.upkeep import backup, restore
from forewarn.progress import StageProgress


def pause(text: str) -> None:
    """Say where it is, and give the one who listens the time to kill it."""
    print(text, flush=True)
    time.sleep(0.3)


@contextmanager
def slowly(what: str) -> Iterator[StageProgress]:
    """Pause at the begin of each stage, at its first report, and at its end."""
    pause(f"begin {what}")
    reports = iter([what])

    def report(done: int, total: int | None = None, also: str = "") -> None:
        del done, total, also
        for name in reports:
            pause(f"in {name}")

    yield report
    pause(f"end {what}")


if __name__ == "__main__":
    what, home, file = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if what == "backup":
        backup.backup(Config(home=home), file, watch=slowly)
    else:
        restore.restore(Config(home=home), file, replace=True, watch=slowly)
    print("done", flush=True)
