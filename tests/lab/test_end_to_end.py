"""From a real Slurm to a prediction: collect every ending, learn from a history, predict a job that waits."""

from __future__ import annotations

import subprocess
from typing import Any

from forewarn.job.outcomes import Outcome
from forewarn.store.embedded import FILE
from lab.endings import Ending
from lab.jobs import submit, wait_ended, wait_running, wait_until
from lab.synthetic import FIRST_JOB, delete_jobs, load_jobs
from tests.lab.conftest import one_version
from tests.lab.kills import kill_again_and_again
from tests.lab.site import EXECUTABLE, Site, by_sacct


def test_every_ending_is_collected(site: Site, endings: dict[str, Ending]) -> None:
    jobs = [ending.job_id for ending in endings.values()]
    by_accounting = by_sacct(site.lab, jobs)
    assert max(by_accounting.values()) == 1
    site.run("collect", "--once", "--since", "now-1day")
    assert site.has(jobs) == by_accounting, "none missing, none twice, each with its outcome"
    before = site.observations()
    again = site.json("collect", "--once")
    assert (again["new_jobs"], again["changed_jobs"], again["bad"]) == (0, 0, 0), changes(
        before, site.observations()
    )
    assert again["lag"] == 0
    outcomes = {outcome for _, _, outcome in by_accounting}
    assert outcomes >= {Outcome.COMPLETED, Outcome.FAILED, Outcome.TIMEOUT, Outcome.CANCELLED, ""}


def changes(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[Any]:
    """What the observations that are new say otherwise than each earlier one of the same job."""
    found = []
    for row in after:
        if row not in before:
            earlier = [one for one in before if one["job_id"] == row["job_id"]]
            new_rows = {name: value for name, value in row.items() if value not in [o[name] for o in earlier]}
            found.append((row["job_id"], row["source"], new_rows))
    return found


def test_killed_again_and_again(site: Site) -> None:
    jobs = kill_again_and_again(site, 8)
    assert site.has(jobs) == by_sacct(site.lab, jobs), "none is missing, none is there twice"


def test_an_ending_while_slurmdbd_is_away(site: Site) -> None:
    site.run("collect", "--once", "--since", "now-1hour")
    site.lab.daemons.kill("slurmdbd")
    try:
        jobs = [submit(site.lab, "dave", script="exit 3"), submit(site.lab, "dave", "--hold", script="true")]
        assert "slurmdbd" in site.run("collect", "--once", code=8)
        assert {job for job, _, _ in site.has(jobs)} == set(map(str, jobs)), "live jobs are seen all the same"
    finally:
        site.lab.daemons.start("slurmdbd")
    wait_ended(site.lab, jobs[:1])
    site.run("collect", "--once")
    assert site.has(jobs) == by_sacct(site.lab, jobs)
    site.lab.run("dave", "scancel", str(jobs[1]))


@one_version
def test_endings_while_mariadb_alone_is_away(site: Site) -> None:
    """slurmdbd stays and takes what slurmctld tells it, but has nowhere to keep it."""
    lab = site.lab
    log = site.home / "collector.log"
    with log.open("w") as by_accounting:
        collector = subprocess.Popen(
            [EXECUTABLE, "collect", "--since", "now-1hour", "--interval", "1"],
            env=site.environment,
            stderr=by_accounting,
        )
    try:
        wait_until(lambda: (site.home / FILE).exists(), 30, "it collects")
        lab.daemons.kill("mariadb")
        try:
            jobs = [submit(lab, "erin", script=f"exit {code}") for code in (0, 4)]
            held = submit(lab, "erin", "--hold", script="true")
            wait_until(lambda: bool(site.has([held])), 60, "live jobs are seen all the same")
            wait_until(lambda: "cannot read history" in log.read_text(), 60, "it says what is away")
        finally:
            lab.daemons.start("mariadb")
        wait_ended(lab, jobs)
        jobs.append(held)
        wait_until(lambda: site.has(jobs) == by_sacct(lab, jobs), 60, "what ended meanwhile is there")
        wait_until(lambda: "reading again" in log.read_text(), 60, "it says that it is back")
        assert collector.poll() is None, "it is the same collector all the time"
    finally:
        collector.terminate()
        collector.wait(20)
    lab.run("erin", "scancel", str(held))


def test_from_history_to_a_prediction(site: Site) -> None:
    lab = site.lab
    load_jobs(lab, 2500, days=14)
    # Made-up endings are chance: let something be learnt of them.
    mine = f"WHERE id_job > {FIRST_JOB} AND job_name"
    lab.sql(f"UPDATE lab_job_table SET state = 5, exit_code = 256 {mine} = 'fft';")
    lab.sql(f"UPDATE lab_job_table SET state = 3, exit_code = 0 {mine} = 'sim';")
    held: list[int] = []
    try:
        site.run("collect", "--once", "--since", "now-17days")
        trained = site.json("train", "--family", "online")
        assert trained["aliases"] == ["champion"], trained["verdict"]
        asked = ("-p", "main", "-t", "60", "-c", "4", "--mem=1000")
        held = [
            submit(lab, "alice", "-J", name, "--hold", *asked, "-D", f"/home/alice/p{n}", script="true")
            for n, name in enumerate(("fft", "sim"))
        ]
        running = submit(lab, "bob", "-J", "sim", script="sleep 60")
        held.append(running)
        wait_running(lab, running)
        bad, good, late = site.json("predict", *held)
        assert bad["failure"]["probability"] > good["failure"]["probability"]
        assert bad["failure"]["warns"]
        assert not good["failure"]["warns"]
        route = bad["route"]
        assert (route["model"], route["version"], route["phase"]) == ("lab.submit.generic", 1, "submit")
        assert bad["failure"]["causes"][0]["outcome"] == "failed"
        assert "no model for phase start" in late["notes"][0]
        waiting = {
            by_accounting["job_id"]: by_accounting
            for by_accounting in site.json("predict", "--pending", "-u", "alice")
        }
        assert waiting[str(held[0])]["failure"]["warns"]
        assert str(running) not in waiting
    finally:
        lab.try_run("root", "scancel", *map(str, held))
        delete_jobs(lab)


def test_learning_straight_from_accounting(site: Site) -> None:
    load_jobs(site.lab, 1000, days=4)
    try:
        benched = site.json("bench", "slurm:now-7days", "--family", "online", "--phases", "submit")
    finally:
        delete_jobs(site.lab)
    assert benched["log"] == "lab"
    assert benched["phases"]["submit"]["n"] > 150
