"""Planning of notices, against plain writes to the store of people's entries in the same run.

    python bench/notices.py

Nothing is sent. The records are the samples of the tests; the outbox is on the disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from forewarn.config import Config, NoticesConfig
from forewarn.job.outcomes import POLICIES
from forewarn.operate.notices.notifier import Notifier
from forewarn.operate.notices.planning import Planner
from forewarn.operate.notices.rules import RuleSetting, SiteChanges
from forewarn.operate.workspace import Workspace
from forewarn.store.opening import open_people_store
from tests.operate.notices.samples import NOON, ended, warning

WRITES = 1000
ROUNDS = 500  # that the collector's thread passes on: fewer than fit into the queue


def seconds(act: Callable[[], object]) -> float:
    """Measure one call."""
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def main(home: Path) -> None:
    """Print the ratios."""
    notices = NoticesConfig(
        smtp="127.0.0.1:9", smtp_tls="none", sender="f@example.org", user_address="{user}@example.org"
    )
    config = Config(home=home, notices=notices)
    with open_people_store(config) as people, Workspace(config) as workspace:
        planner = Planner(RuleSetting(notices, POLICIES["wasted"], lambda _: None), people)
        value = {"text": "x" * 1000}
        base = seconds(lambda: [people.put("feedback", str(n), value, at=n) for n in range(WRITES)])
        tasks = [ended(f"7_{n}", array_job_id="7") for n in range(10_000)]
        warnings = [warning(str(100 + n), user=f"user{n}") for n in range(WRITES)]
        notifier = Notifier(config, people, workspace)
        few = warnings[:10]
        measured = {
            "an array of 10,000 failed tasks": lambda: planner.take(SiteChanges(ended=tasks), NOON),
            "1,000 warnings of 1,000 users": lambda: planner.take(SiteChanges(assessments=warnings), NOON),
            "the same once more": lambda: planner.take(SiteChanges(assessments=list(warnings)), NOON),
        }
        print(f"baseline: {WRITES:,} plain writes, {base:.2f} s")
        for name, act in measured.items():
            before = len(list(planner.notices))
            took = seconds(act)
            print(f"{name}: {took / base:.2g} of it, {len(list(planner.notices)) - before:,} new notices")
        begin = time.perf_counter()
        for _ in range(ROUNDS):
            notifier.on_assessments(few)
        passing = (time.perf_counter() - begin) / ROUNDS
        print(
            f"the collector's thread passes on 10 assessments: {passing / base:.2g} ({passing * 1e6:.1f} µs)"
        )


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(Path(folder))
