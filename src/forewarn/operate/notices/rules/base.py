"""The contract of rules: which changes deserve a notice, to whom, in which words, and were they right.

A rule is one small class beside its siblings, listed in `rules/__init__.py`. It has no state of its own:
what is gathered, what was sent and what is silenced is the notifier's.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from forewarn.assess.assessment import Assessment
from forewarn.assess.node_health.records import NodeHealth
from forewarn.assess.post_mortem.report import PostMortem
from forewarn.config import NoticesConfig
from forewarn.job.outcomes import FailurePolicy
from forewarn.job.record import Job
from forewarn.operate.notices.notice import Message, Notice
from forewarn.operate.notices.recipients import Recipient, operator_recipients, owner_recipients

BULK_GAP = 600  # seconds between the submits of two jobs of one bulk, as in `learn/evaluation/decisions.py`


@dataclass(slots=True)
class SiteChanges:
    """What is new since the last look: assessments of live jobs, jobs that ended, the health of nodes."""

    assessments: list[Assessment] = field(default_factory=list)
    ended: list[Job] = field(default_factory=list)
    health: list[NodeHealth] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.assessments or self.ended or self.health)


@dataclass(frozen=True, slots=True)
class RuleSetting:
    """What rules rest on: the settings, what counts as failure, and what is known of jobs."""

    config: NoticesConfig
    policy: FailurePolicy
    explain: Callable[[Job], PostMortem | None]
    # The pending tasks of the array that an assessment represents; none for any other job.
    pending_tasks: Callable[[Assessment], Sequence[str]] = lambda _: ()


@dataclass(slots=True, kw_only=True)
class Case:
    """One subject of a rule, with all its jobs so far: an array or a bulk is one case."""

    rule: str
    cluster: str
    subject: str
    user: str | None = None
    bulk: str | None = None
    submit: int | None = None
    hours: dict[str, float] = field(default_factory=dict)  # by job id, or node
    about: Any = None  # what the message describes: the worst assessment, job, or all nodes

    @property
    def total_hours(self) -> float:
        """The node hours at risk or lost, of all its jobs."""
        return sum(self.hours.values())

    @property
    def sort_key(self) -> tuple[bool, float]:
        """The key that sorts the most important last: a case without jobs concerns all that may come."""
        return self.user is None, self.total_hours


class NoticeRule(ABC):
    """A rule of notices."""

    name: ClassVar[str]
    predicts: ClassVar[bool]  # whether it can be wrong, so that its precision is measured
    lapses: ClassVar[bool]  # whether a notice that could not be sent is of no use once its job has ended

    def __init__(self, setting: RuleSetting) -> None:
        self.setting = setting

    @abstractmethod
    def cases(self, changes: SiteChanges) -> Iterator[Case]:
        """Yield a case for each job or node that deserves a notice."""

    @abstractmethod
    def merge(self, case: Case, other: Case) -> None:
        """Add another job or node to a case of the same array, bulk or moment."""

    @abstractmethod
    def message(self, case: Case, recipient: Recipient) -> Message:
        """Write the message for a recipient."""

    @abstractmethod
    def headline(self, case: Case) -> str:
        """Write the case in one line, for a digest."""

    @abstractmethod
    def described_job(self, case: Case) -> str | None:
        """Return the id of the job that the message describes, if it is about jobs."""

    @abstractmethod
    def judge(self, notice: Notice, changes: SiteChangesIndex) -> Judgement | None:
        """Judge whether a notice was right and led to a change; None while that is not known."""

    def recipients(self, case: Case) -> Iterator[Recipient]:
        """Yield who gets a notice of a case: the owner, and operators where much is at stake."""
        config, hours = self.setting.config, case.total_hours
        if hours >= config.minimum_hours:
            yield from owner_recipients(config, case.user)
        if hours >= config.operator_hours:
            yield from operator_recipients(config, self.name)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a notice came true (None: cannot be said) and whether its recipient changed something."""

    came_true: bool | None
    changed: bool


class SiteChangesIndex:
    """Changes by job, user and node, to judge many notices by them."""

    def __init__(self, changes: SiteChanges) -> None:
        self.ended = {(job.cluster, job.job_id): job for job in changes.ended}
        self.ended_of: dict[tuple[str, str | None], list[Job]] = {}
        for job in changes.ended:
            self.ended_of.setdefault((job.cluster, job.user), []).append(job)
        self.health = {(node.cluster, node.node): node for node in changes.health}


def job_root(job_id: str) -> str:
    """Return the id that the parts of an array or heterogeneous job share.

    >>> job_root("7_12"), job_root("7+1"), job_root("7")
    ('7', '7', '7')
    """
    return re.split(r"[_+]", job_id, maxsplit=1)[0]


def bulk_key(user: str | None, name: str | None, *request: object) -> str:
    """Hash what is equal in a bulk: user, request, and the name without its numbers.

    >>> bulk_key("ann", "run_1", 4) == bulk_key("ann", "run_22", 4) != bulk_key("ann", "run_1", 8)
    True
    """
    parts = (user, re.sub(r"\d+", "#", name or ""), *request)
    return hashlib.sha256(repr(parts).encode("utf-8", "replace")).hexdigest()[:24]


def request_of(job: Job) -> dict[str, Any]:
    """Return the parts of a request that people change after a warning, in a form that JSON keeps."""
    return {
        "time_limit": job.time_limit,
        "memory_asked": job.memory_asked,
        "memory_per": job.memory_per,
        "partition": job.partition,
        "script_hash": job.script_hash,
    }


def is_changed(before: dict[str, Any], job: Job) -> bool:
    """Check whether a request differs from an earlier one; a pending job may name several partitions."""
    now = request_of(job)
    partitions: Sequence[str] = str(before.get("partition") or "").split(",")
    if now["partition"] in partitions:
        now["partition"] = before.get("partition")
    return any(
        own is not None and now[name] is not None and own != now[name]
        for name, own in before.items()
        if name in now
    )
