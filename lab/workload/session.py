"""A few minutes in the life of the cluster: submissions, second thoughts, requeues, a node that fails."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lab.jobs import live_state, submit
from lab.nodes import fail_node, revive_node, wait_for_nodes
from lab.workload.people import Person, make_people

if TYPE_CHECKING:
    from lab.cluster import Lab

PROGRAMS = Path(__file__).parent / "programs"
LONGEST_WAIT = 120
"""Seconds after the last submission for what still runs: a TIMEOUT takes up to 90."""


class Session:
    """Runs the workload on one lab; the seed decides everything but the clock."""

    def __init__(self, lab: Lab, seed: int, *, jobs_per_minute: float, say: Callable[[str], None]) -> None:
        self._lab = lab
        self._luck = random.Random(seed)
        self._people = make_people(seed)
        self._pause = 60 / jobs_per_minute
        self._say = say
        self._watched: dict[int, tuple[Person, str]] = {}
        self._submitted = 0
        self._started = time.time()

    def run(self, minutes: float) -> Counter[str]:
        """Go on for so many minutes, wait for what runs, and count the endings of all that was submitted."""
        site = self._lab.state / "home/site"
        shutil.copytree(PROGRAMS, site, dirs_exist_ok=True)
        start, length = time.monotonic(), minutes * 60
        misfortunes = [(part * length, what) for part, what in self._misfortunes()]
        reported_at = start
        while (now := time.monotonic()) < start + length:
            while misfortunes and now >= start + misfortunes[0][0]:
                misfortunes.pop(0)[1]()
            self._somebody_submits()
            self._people_look()
            if now > reported_at + 30:
                reported_at = now
                self._say(f"{self._submitted} jobs submitted, {len(self._watched)} in flight")
            time.sleep(self._pause * self._luck.uniform(0.5, 1.5))
        self._say(f"{self._submitted} jobs submitted; waiting for those that run")
        wait_for_nodes(self._lab, timeout=LONGEST_WAIT)
        self._drain()
        return self._count()

    def _misfortunes(self) -> list[tuple[float, Callable[[], None]]]:
        """Return the faults and when they come, as a share of the session, in order of time."""
        return [
            (0.1, self._someone_holds),
            (0.2, self._someone_waits_for_another),
            (0.3, self._an_operator_requeues),
            (0.4, self._a_node_fails),
            (0.5, self._someone_needs_whole_nodes),
            (0.6, self._someone_waits_for_another),
            (0.7, self._an_operator_requeues),
            (0.8, self._a_node_fails),
            (0.9, self._someone_needs_whole_nodes),
        ]

    def _somebody_submits(self) -> None:
        person = self._luck.choice(self._people)
        program, request = person.next_request()
        job = self._submit(person.name, *request.options, script=request.script)
        self._watched[job] = (person, program)
        if self._luck.random() < 0.04:  # second thoughts, at once or a little later
            if self._luck.random() < 0.5:
                time.sleep(1)
            self._lab.try_run(person.name, "scancel", str(job))

    def _people_look(self) -> None:
        """Let people look at their jobs; each look is a request, so only the oldest few are looked at."""
        for job in list(self._watched)[:2]:
            state = live_state(self._lab, job)
            person, program = self._watched.pop(job)
            if state in ("PENDING", "RUNNING", "COMPLETING"):
                self._watched[job] = (person, program)  # to the end of the line
            else:
                person.hears_of(program, failed=state not in ("COMPLETED", "CANCELLED"))

    def _someone_holds(self) -> None:
        job = self._submit("alice", "-J", "held", "-H", "-t", "5", "--mem=50", script="true")
        self._lab.try_run("alice", "scontrol", "release" if self._luck.random() < 0.5 else "uhold", str(job))
        self._submit("bob", "-J", "held", "-H", "-t", "5", "--mem=50", script="true")

    def _someone_waits_for_another(self) -> None:
        for outcome in ("exit 5", "true"):
            first = self._submit(
                "carol", "-J", "prepare", "-t", "5", "--mem=50", script=f"sleep 2; {outcome}"
            )
            after = (f"--dependency=afterok:{first}", "--kill-on-invalid-dep=yes")
            self._submit("carol", "-J", "compute", "-t", "5", "--mem=50", *after, script="sleep 1")

    def _an_operator_requeues(self) -> None:
        running = self._lab.run("root", "squeue", "-h", "-t", "R", "-o", "%A").split()
        if running:
            self._lab.try_run("root", "scontrol", "requeue", running[0])

    def _a_node_fails(self) -> None:
        node = self._luck.choice(self._lab.settings.node_names[1:])
        options = ("-J", "unlucky", "-w", node, "--no-requeue", "-t", "5", "--mem=50")
        job = self._submit("dave", *options, script="sleep 100")
        deadline = time.monotonic() + 15
        while live_state(self._lab, job) != "RUNNING" and time.monotonic() < deadline:
            time.sleep(0.5)
        self._say(f"node {node} fails")
        fail_node(self._lab, node)
        revive_node(self._lab, node)

    def _someone_needs_whole_nodes(self) -> None:
        node = self._lab.settings.node_names[-1]
        # Two of the low partition fill the node, so that the next one has to push them away.
        for _ in range(2):
            options = ("-J", "scavenge", "-p", "low", "-w", node, "-c", "32", "-t", "10", "--mem=1000")
            self._submit("erin", *options, script="sleep 100")
        time.sleep(3)
        self._submit("bob", "-J", "urgent", "-w", node, "-c", "48", "-t", "5", "--mem=1000", script="sleep 3")

    def _submit(self, user: str, *options: str, script: str) -> int:
        self._submitted += 1
        account = ("-A", self._luck.choice(("science", "science", "teaching")))
        return submit(self._lab, user, "-o", "/dev/null", *account, *options, script=script)

    def _drain(self) -> None:
        deadline = time.monotonic() + LONGEST_WAIT
        while time.monotonic() < deadline:
            if not self._lab.run("root", "squeue", "-h", "-t", "R,CG", "-o", "%A").split():
                return
            time.sleep(1)

    def _count(self) -> Counter[str]:
        begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(self._started - 1))
        rows = self._lab.run(
            "root", "sacct", "-a", "-X", "-D", "-n", "-P", "-S", begin, "-E", "now", "-o", "State"
        )
        return Counter(row.split()[0] for row in rows.splitlines())
