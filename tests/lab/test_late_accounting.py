"""slurmdbd answers, and writes nothing for a while: what it hears late is collected all the same."""

from __future__ import annotations

import threading

from forewarn.config import Config
from forewarn.store.opening import open_store
from lab.cluster import Lab
from lab.jobs import submit, wait_until
from tests.lab.conftest import one_version
from tests.lab.site import Site

SECONDS = 25  # for which the table of jobs takes no row


@one_version
def test_ends_that_slurmdbd_hears_late(site: Site) -> None:
    lab, cluster = site.lab, site.lab.settings.cluster
    site.run("collect", "--once")
    lock = f"LOCK TABLES {cluster}_job_table READ; SELECT SLEEP({SECONDS});"
    locked = threading.Thread(target=lab.sql, args=(lock,))
    locked.start()
    wait_until(lambda: "SLEEP" in lab.sql("SHOW PROCESSLIST"), 20, "it is locked")
    job = submit(lab, "alice", script="exit 3")
    wait_until(lambda: _state(lab, job) == "FAILED", 20, "the job has ended")
    done = site.json("collect", "--once")
    assert done["troubles"] == {}, "slurmdbd answers"
    assert _held(site) is not None, "slurmctld says that it has more to tell: the cursor is held"
    assert _cpu_time(site, job) is None
    locked.join()
    wait_until(lambda: "queue size: 0" in lab.run("root", "sdiag"), 60, "slurmctld has told all")

    def is_collected() -> bool:
        site.run("collect", "--once")
        return _cpu_time(site, job) is not None

    # slurmdbd commits up to a second after it has thanked for a message: one round may come too early.
    wait_until(is_collected, 30, "what slurmdbd heard late is collected")
    assert _held(site) is None


def _state(lab: Lab, job: int) -> str:
    return lab.run("root", "squeue", "-h", "-t", "all", "-o", "%T", "-j", str(job)).strip()


def _held(site: Site) -> str | None:
    with open_store(Config(home=site.home), read_only=True) as store:
        return store.cursor(f"collect {site.lab.settings.cluster} gap") or None


def _cpu_time(site: Site, job: int) -> float | None:
    """What only accounting tells."""
    with open_store(Config(home=site.home), read_only=True) as store:
        (jobs,) = store.scan(job_ids=[str(job)])
    found: float | None = jobs["cpu_time"].item()
    return found
