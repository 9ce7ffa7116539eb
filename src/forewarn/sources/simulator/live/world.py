"""The simulated cluster between two moments: time moves on, users act, jobs can be looked up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import TypeVar

import numpy as np

from forewarn.job.sbatch.script_facts import ScriptFacts
from forewarn.job.units import JobId
from forewarn.sources.simulator.columns import Numbers
from forewarn.sources.simulator.kernel import endings, engine
from forewarn.sources.simulator.kernel.events import WHO
from forewarn.sources.simulator.kernel.layout import ENDED, PENDING, Records
from forewarn.sources.simulator.live.admission import Admission, AdmittedRequest, refused
from forewarn.sources.simulator.live.dependencies import Condition, Dependency
from forewarn.sources.simulator.live.ended_jobs import EndedJobs, KernelJobs, joined
from forewarn.sources.simulator.live.programs import ProgramNeeds
from forewarn.sources.simulator.scenario import Scenario
from forewarn.sources.simulator.world import grown, make_world, start_of
from forewarn.sources.slurm.job_requests import JobSubmission

T = TypeVar("T")
VISITORS = 64  # shares of the queue for users from outside; more users than that have a share in common
EXCLUSIONS = 256  # jobs at a time that may not use some nodes
KEPT = 60 * 86400  # seconds for which ended jobs stay in the simulated accounting
_DAY = 86400
_NOBODY = -1  # number of a place in the order that its job has left


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitorJob:
    """What is known of a job from outside beyond the kernel's numbers."""

    submission: JobSubmission
    user: str
    facts: ScriptFacts
    of_cluster: bool = False  # a job of this cluster again: named as that one


class LiveWorld:
    """A scenario's cluster from its first second to `now`."""

    def __init__(self, scenario: Scenario, seed: int, first_day: date) -> None:
        self.scenario = replace(scenario, cluster=replace(scenario.cluster, start=first_day))
        self.seed, self.first_day = seed, first_day
        self.begin = self.now = start_of(self.scenario)
        self._day_ends = self.begin + _DAY
        self.admission = Admission(self.scenario)
        self.kernel = make_world(
            self.scenario, seed, engine.FOREVER, visitors=VISITORS, exclusions=EXCLUSIONS
        )
        engine.populate(self.kernel)
        self.ended = EndedJobs(self.begin)
        self.submitted: dict[int, VisitorJob] = {}  # by place in the order of submission
        self.comments: dict[int, str] = {}
        self.cancelled_by: dict[int, str] = {}
        self.held: set[int] = set()
        self.waiting: dict[int, Dependency] = {}
        self._visitors: dict[str, int] = {}

    # --- time -------------------------------------------------------------------------------------

    def advance_to(self, moment: int) -> None:
        """Let everything happen up to a moment, that second included.

        At the end of each day jobs leave the kernel, however long this takes at once: its memory stays small.
        """
        while self._day_ends <= moment:
            self._run_to(self._day_ends)
            self._move_up(self._day_ends)
            self._archive()
            self._day_ends += _DAY
        self._run_to(moment)
        self.now = max(self.now, moment)

    def _run_to(self, moment: int) -> None:
        while True:
            result = engine.advance(self.kernel, engine.FOREVER, moment)
            if result == engine.NO_ROOM:
                self._archive()
                self._make_room(0)
            elif result == engine.AWAITED:
                self.release_dependents(self._clock("now"))
            else:
                return

    def _move_up(self, moment: int) -> None:
        """Give jobs that have waited for a day without being queued a new place at the end of the order.

        They may wait for ever, and jobs leave the kernel in order. This happens at fixed moments, since what
        becomes of a job depends on its place.
        """
        for seq in sorted({*self.held, *self.waiting}):
            old = self.record(seq)
            if int(old["state"][0]) != PENDING or int(old["submit"][0]) > moment - _DAY:
                continue
            self._make_room(1)
            old, new = self.record(seq), self._clock("tail")
            self.kernel.clock[0]["tail"] += 1
            self.record(new)[...] = old
            for name in ("number", "array", "task", "campaign", "end"):
                old[name] = _NOBODY
            old["state"] = ENDED
            _rename(self.submitted, seq, new)
            _rename(self.comments, seq, new)
            _rename(self.waiting, seq, new)
            if seq in self.held:
                self.held.remove(seq)
                self.held.add(new)
            # Count the place that was left as ended.
            self.act(engine.SERVE, new, moment)

    def _clock(self, name: str) -> int:
        return int(self.kernel.clock[0][name])

    def _archive(self) -> None:
        """Move ended jobs out of the kernel, and drop those that ended long ago."""
        head, ready = self._clock("head"), self._clock("ready")
        leaving = self._at(np.arange(head, ready))
        self.ended.add(leaving.where(leaving.jobs["number"] != _NOBODY))
        self.kernel.clock[0]["head"] = ready
        self.ended.drop_before(self.now - KEPT)
        for kept in (self.submitted, self.comments, self.cancelled_by):
            for seq in [seq for seq in kept if seq < self.ended.first_seq(ready)]:
                del kept[seq]

    def _make_room(self, jobs: int) -> None:
        """Let the kernel grow until it has room for so many more jobs."""
        while self._lacks_room(jobs):
            self.kernel = grown(self.kernel)

    def _lacks_room(self, jobs: int) -> bool:
        kernel, largest = self.kernel, self.kernel.todo.shape[1]
        in_flight = self._clock("tail") - self._clock("head") + jobs
        return bool(
            in_flight > len(kernel.jobs) - 2 * largest
            or self._clock("events") + 2 * in_flight + 4 * largest > len(kernel.events)
            or kernel.partitions["queued"].max() + jobs > kernel.queues.shape[1] - 2 * largest
        )

    # --- looking up -------------------------------------------------------------------------------

    def _at(self, seqs: Numbers) -> KernelJobs:
        places = seqs & (len(self.kernel.jobs) - 1)
        return KernelJobs(self.kernel.jobs[places], self.kernel.placed[places], seqs)

    def in_kernel(self) -> Numbers:
        """Return the places in the order of submission that the kernel holds."""
        return np.arange(self._clock("head"), self._clock("tail"))

    def field(self, name: str, seqs: Numbers) -> Numbers:
        """Return one field of jobs in the kernel."""
        return np.asarray(self.kernel.jobs[name][seqs & (len(self.kernel.jobs) - 1)])

    def not_ended(self, recent: int = 0) -> KernelJobs:
        """Return pending and running jobs, and those that ended in the last `recent` seconds."""
        seqs = self.in_kernel()
        state, end = self.field("state", seqs), self.field("end", seqs)
        shown = seqs[(state != ENDED) | (end > self.now - recent)]
        archived = self.ended.ended_between(self.now - recent + 1, self.now + 1) if recent else []
        return joined([*archived, self._at(shown)], self.kernel.placed.shape[1])

    def ended_between(self, since: int, until: int) -> KernelJobs:
        """Return jobs that ended from `since` to before `until`."""
        seqs = self.in_kernel()
        state, end = self.field("state", seqs), self.field("end", seqs)
        shown = seqs[(state == ENDED) & (end >= since) & (end < until)]
        return joined([*self.ended.ended_between(since, until), self._at(shown)], self.kernel.placed.shape[1])

    def find(self, target: JobId) -> KernelJobs:
        """Return one job, or the tasks of an array, ended or not."""
        if target.task is not None:
            wanted = [{"array": target.number, "task": target.task}]
        elif target.offset is not None:
            wanted = []
        else:
            wanted = [{"array": target.number}, {"array": 0, "number": target.number}]
        parts = [part for values in wanted for part in self.matching(**values)]
        if not parts and target.task is None:
            parts = self.matching(number=target.number)  # a task by its own number
        return joined(parts, self.kernel.placed.shape[1])

    def matching(self, **values: int) -> list[KernelJobs]:
        """Return the jobs whose fields have these values."""
        seqs = self.in_kernel()
        mask = np.logical_and.reduce([self.field(name, seqs) == value for name, value in values.items()])
        return [*self.ended.matching(**values), *([self._at(seqs[mask])] if mask.any() else [])]

    def record(self, seq: int) -> Records:
        """Return the kernel's record of one job that has not left it, to read and to change."""
        place = seq & (len(self.kernel.jobs) - 1)
        return self.kernel.jobs[place : place + 1]

    def owner(self, job: Records, seq: int) -> str:
        """Return the name of a job's user."""
        return self.submitted[seq].user if seq in self.submitted else f"user{int(job['user']):04}"

    def first_in_line(self) -> set[int]:
        """Return the jobs whose turn it is in each partition: they wait for resources."""
        queues, queued = self.kernel.queues, self.kernel.partitions["queued"]
        return {int(queues[p, 0, WHO]) for p in np.flatnonzero(queued)}

    # --- jobs from outside ------------------------------------------------------------------------

    def place_of(self, user: str) -> tuple[int, int]:
        """Return a user's number and the workflow whose share of the queue their jobs use."""
        people, workflows = self.kernel.people, self.scenario.users.workflows
        if user.startswith("user") and user[4:].isdecimal():
            known = np.flatnonzero(people["number"][: self.scenario.users.slots] == int(user[4:]))
            if known.size:
                return int(user[4:]), int(known[0]) * workflows
        visitor = self._visitors.setdefault(user, len(self._visitors))
        return -1 - visitor, (self.scenario.users.slots + visitor % VISITORS) * workflows

    def next_numbers(self, jobs: int) -> int:
        """Take the numbers of so many new jobs; return the first."""
        self._make_room(jobs)
        first = self._clock("job_id")
        self.kernel.clock[0]["job_id"] += jobs
        return first

    def add(
        self,
        request: AdmittedRequest,
        needs: ProgramNeeds,
        moment: int,
        submitted: VisitorJob,
        fields: dict[str, int],
    ) -> int:
        """Add a job that is not queued yet; return its place in the order of submission."""
        seq = self._clock("tail")
        self.kernel.clock[0]["tail"] += 1
        job = self.record(seq)
        job[...] = np.zeros((), job.dtype)
        values: dict[str, int] = {
            "submit": moment,
            "partition": request.partition,
            "partition_first": request.partition,
            "nodes": request.nodes,
            "cpus_node": request.cpus_node,
            "cpus": request.cpus_node * request.nodes,
            "tasks": request.tasks,
            "gpus_node": request.gpus_node,
            "memory_mode": request.memory_mode,
            "memory_asked": request.memory_asked,
            "memory_given": request.memory_given,
            "limit": request.limit,
            "limit_first": request.limit,
            "time_defaulted": int(request.time_defaulted),
            "application": needs.application,
            "need_time": needs.need_time,
            "need_memory": needs.need_memory,
            "peak_after": needs.peak_after,
            "bug_after": needs.bug_after,
            "bug_cause": needs.bug_cause,
            "bug_exit": needs.bug_exit,
            "bug_signal": needs.bug_signal,
            "kill_delay": 15,
            "state": PENDING,
            "cause": endings.NONE,
            "visitor": 1,
            "excluded": -1,
            "task": -1,
            **fields,
        }
        never = ("changed_at", "start", "end", "node_after", "outage_after", "cancel_after", "preempt_after")
        for name, value in {**dict.fromkeys((*never, "sick_node", "older"), -1), **values}.items():
            job[name] = value
        self.submitted[seq] = submitted
        return seq

    def act(self, action: int, seq: int, moment: int) -> None:
        """Let the kernel do something to a job."""
        self._make_room(0)
        engine.act(self.kernel, action, seq, moment)
        if self._clock("awaited"):
            self.release_dependents(moment)

    def exclusion_row(self, mask: Numbers | None) -> int:
        """Return a row for a set of nodes that a job may not use, -1 for none; refuse where all are taken."""
        if mask is None:
            return -1
        seqs = self.in_kernel()
        used = set(self.field("excluded", seqs)[self.field("state", seqs) != ENDED].tolist()) - {-1}
        equal = [row for row in used if (self.kernel.excluded[row] == mask).all()]
        free = [row for row in range(EXCLUSIONS) if row not in used]
        if not equal and not free:
            raise refused(f"more than {EXCLUSIONS} jobs exclude different nodes")
        row = min(equal) if equal else free[0]
        self.kernel.excluded[row] = mask
        return row

    # --- dependencies -----------------------------------------------------------------------------

    def await_others(self, seq: int, dependency: Dependency) -> None:
        """Let a job wait for others; those that have not ended report their end."""
        self.waiting[seq] = dependency
        for condition in dependency.conditions:
            for other in self._others(seq, condition).seqs.tolist():
                if other >= self._clock("head"):
                    self.record(other)["awaited"] = 1

    def release_dependents(self, moment: int) -> None:
        """Queue the jobs whose dependencies are fulfilled."""
        self.kernel.clock[0]["awaited"] = 0
        for seq in list(self.waiting):
            if seq not in self.waiting:
                continue  # the start of another one has released it
            if int(self.record(seq)["state"][0]) != PENDING:
                del self.waiting[seq]
            elif self.fulfilment(seq) is True:
                del self.waiting[seq]
                if seq not in self.held:
                    self.act(engine.ENQUEUE, seq, moment)

    def fulfilment(self, seq: int) -> bool | None:
        """Return whether a job's dependency is fulfilled; None where it never can be."""
        dependency = self.waiting[seq]
        found = [self._is_fulfilled(seq, condition) for condition in dependency.conditions]
        if dependency.any_of_them:
            return True if True in found else None if set(found) == {None} else False
        return None if None in found else all(found)

    def _is_fulfilled(self, seq: int, condition: Condition) -> bool | None:
        jobs = self._others(seq, condition).jobs
        if (jobs["state"] != ENDED).any():
            return False
        completed = bool((jobs["cause"] == endings.NONE).all())
        if condition.kind == "afterok":
            return completed or None
        if condition.kind == "afternotok":
            return not completed or None
        return True

    def _others(self, seq: int, condition: Condition) -> KernelJobs:
        if condition.number is not None:
            return self.find(JobId(condition.number, task=condition.task))
        own = self.submitted[seq]
        same = [
            other
            for other, one in self.submitted.items()
            if other < seq and (one.user, one.submission.name) == (own.user, own.submission.name)
        ]
        return self._at(np.array([other for other in same if other >= self._clock("head")], np.int64))


def _rename(by_seq: dict[int, T], old: int, new: int) -> None:
    if old in by_seq:
        by_seq[new] = by_seq.pop(old)
