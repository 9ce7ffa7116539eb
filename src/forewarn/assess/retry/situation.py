"""The input of a retry verdict for one job."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from forewarn.assess.node_health.records import Health, NodeHealth
from forewarn.assess.oddness.partitions import PartitionNodes, places
from forewarn.assess.post_mortem.advice import MakeForecast, ResubmitForecast, no_forecast
from forewarn.assess.post_mortem.node_lists import names
from forewarn.assess.post_mortem.report import Confidence, PostMortem
from forewarn.assess.retry.causes import cause_of
from forewarn.assess.retry.chain import AttemptChain
from forewarn.assess.retry.experience import RetryExperience
from forewarn.assess.retry.verdict import RetryCause
from forewarn.job.outcomes import FailureKind
from forewarn.job.record import Job, Node, Partition

# The least chance for which an attempt is worth it. On the simulator none up to 0.3 loses a success, and 0.5
# loses 3% (bench/retry.py); on Graham 0.35 gives up twice as many useful hours (bench/retry_logs.py).
LEAST_CHANCE = 0.25
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SURE = (Confidence.CERTAIN, Confidence.VERY_LIKELY, Confidence.LIKELY)


class ClusterParts(Protocol):
    """The nodes of a cluster, its partitions, and the health of its nodes: `assess.machine.Machine`."""

    @property
    def nodes(self) -> Sequence[Node]:
        """Every node, in its latest state."""

    @property
    def partitions(self) -> Sequence[Partition]:
        """Every partition, in its latest state."""

    @property
    def health(self) -> Sequence[NodeHealth]:
        """The health of the nodes."""


@dataclass(frozen=True, slots=True)
class KnownParts:
    """The parts of a cluster that are known from elsewhere than a store; by default none."""

    nodes: Sequence[Node] = ()
    partitions: Sequence[Partition] = ()
    health: Sequence[NodeHealth] = ()


NOTHING_KNOWN = KnownParts()


def is_plain_name(name: str) -> bool:
    """Check that a name of a node or partition cannot be read as another option of sbatch.

    >>> is_plain_name("gpu-long"), is_plain_name("n1 --wrap=rm"), is_plain_name("-n")
    (True, False, False)
    """
    return _PLAIN.fullmatch(name) is not None


@dataclass(frozen=True, kw_only=True)
class RetrySituation:
    """One ended job, why it failed, what became of its like, and the cluster that it may run on."""

    job: Job
    report: PostMortem
    experience: RetryExperience
    chain: AttemptChain = field(default_factory=AttemptChain)
    make_forecast: MakeForecast = no_forecast
    machine: ClusterParts = NOTHING_KNOWN
    # Returns the partitions that the user may use (those of their earlier jobs), computed only if needed.
    least_chance: float = LEAST_CHANCE  # for which an attempt is worth it
    may_use: Callable[[], Collection[str]] = frozenset
    _forecasts: list[ResubmitForecast] = field(default_factory=list, repr=False)

    @property
    def forecast(self) -> ResubmitForecast:
        """What a model predicts that the job needs; made at the first use, since it takes a second."""
        if not self._forecasts:
            self._forecasts.append(self.make_forecast())
        return self._forecasts[0]

    @property
    def place(self) -> PartitionNodes:
        """The partition that the job ran in; of several, the first."""
        requested = places(self.job, self.machine.nodes, self.machine.partitions)
        return requested[0] if requested else PartitionNodes("", None, tuple(self.machine.nodes))

    @property
    def own_nodes(self) -> list[str]:
        """The nodes that the job ran on, by names that are safe in a command line."""
        return [name for name in names(self.job.nodes) if is_plain_name(name)]

    @property
    def sick_own_nodes(self) -> list[str]:
        """Those of its nodes that are sick by now."""
        sick = {node.node for node in self.machine.health if node.health is Health.SICK}
        return [name for name in self.own_nodes if name in sick]

    @property
    def cause(self) -> RetryCause:
        """The cause of the failure, by the post mortem where it is sure enough, else by the record."""
        is_sure = self.report.confidence in _SURE
        cause = cause_of(self.job, self.report.family if is_sure else None)
        if not is_sure and self.report.kind == FailureKind.SYSTEM:
            cause = RetryCause.PASSING
        if cause is RetryCause.PASSING and self.sick_own_nodes:
            return RetryCause.NODE
        return cause
