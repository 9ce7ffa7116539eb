"""The `Assessment` of a job and the dataclasses that it consists of.

The parts follow the order of a scheduler's questions: run time, resources, odd configuration, failure and its
causes, fit nodes; then the reasons, the job profile, similar jobs, and advice. Every interface (CLI, REST,
Kafka, dashboard, MCP) only shows an assessment and adds no decision of its own.

Evidence is a code and values; `assess/wording` turns it into English. Missing is None: a part that could not
be computed is absent, and `notes` gives the reason. Durations are in seconds, memory and I/O in bytes, rates
per second, probabilities between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self

from forewarn.assess.codes import OddityCode, ReasonCode, SummaryCode
from forewarn.assess.finding_codes import FindingCode, FixCode
from forewarn.evidence import Statement, Values
from forewarn.job.sbatch.problems import ProblemCode, ProblemFix
from forewarn.quick_init import quick_init

if TYPE_CHECKING:
    from forewarn.assess.wording.reader import Reader

SCHEMA_VERSION = 1  # of the JSON form; increased when a field changes its meaning or is removed


def _in_json(name: str) -> dict[str, str]:
    """Return field metadata that renames a field in JSON, where its own name holds the text."""
    return {"json": name}


class Verdict(StrEnum):
    """The overall result of an assessment, and the exit code of `forewarn check`."""

    FINE = "fine"
    WARNING = "warning"
    LIKELY_TO_FAIL = "likely_to_fail"
    CANNOT_SAY = "cannot_say"

    @property
    def exit_code(self) -> int:
        """Exit code as monitoring plugins define it: 0 fine, 1 warning, 2 critical, 3 unknown."""
        return list(Verdict).index(self)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Quantiles of a forecast."""

    low: float  # 10th percentile
    median: float
    high: float  # 90th percentile


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """The forecast run time of a job that nothing stops."""

    seconds: Quantiles
    limit: int | None  # requested, or the partition's default
    over_limit: float | None  # probability of exceeding the limit
    rests_on: int  # number of training jobs


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The forecast use of resources. None: the history holds no measurement of it."""

    memory: Quantiles | None = None  # bytes, maximum over the job's nodes
    memory_request: float | None = None  # bytes per node that suffice with the configured probability
    memory_asked: int | None = None  # bytes per node, requested or by default
    over_memory: float | None = None  # probability of exceeding the requested memory
    cpu_efficiency: Quantiles | None = None  # CPU time divided by (allocated CPUs × run time)
    io_rate: Quantiles | None = None  # bytes per second, read and written
    rests_on: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """A part of the request that does not fit this cluster, or is far from what this user requests."""

    rule: str  # short name: memory-beyond-nodes
    code: OddityCode
    values: Values = field(
        default_factory=dict, hash=False
    )  # the requested value, and what it is compared with
    elsewhere: tuple[Statement, ...] = ()  # the same for the other partitions that the job names
    impossible: bool = False  # no node or partition can ever run it
    field: str | None = None  # field of the job record


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddness:
    """How unusual a request is for this cluster, and the oddities found in it."""

    oddities: tuple[Oddity, ...] = ()
    rarer_than: float | None = None  # share of earlier jobs with a lower anomaly score (isolation forest)
    # The values that contribute most to the anomaly score, largest contribution first.
    because: tuple[Statement, ...] = field(default=(), metadata=_in_json("because_codes"))


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class CauseOfFailure:
    """One cause of failure, with its probability."""

    outcome: str  # out_of_memory, timeout, failed …
    kind: str | None  # user, system, limit
    probability: float  # of failing from this cause


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The risk of failure: the one number that summary, reasons, causes and advice share."""

    probability: float
    threshold: float
    warns: bool
    base_rate: float  # failure rate of the training jobs
    rests_on: int  # number of training jobs
    causes: tuple[CauseOfFailure, ...] = ()  # most likely first; they add up to the probability
    causes_learnt: bool = True  # False: too few failures for a cause model; these are the overall shares
    model_probability: float | None = None  # of the model alone, before usage forecasts and node health

    @property
    def by_outcome(self) -> dict[str, float]:
        """The probability of each outcome, whoever caused it, the most likely first."""
        shares: dict[str, float] = {}
        for cause in self.causes:
            shares[cause.outcome] = shares.get(cause.outcome, 0.0) + cause.probability
        return dict(sorted(shares.items(), key=lambda pair: -pair[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Which model answered, and which models before it abstained, with their reasons."""

    model: str | None  # its name; None: every model abstained
    version: int | None
    phase: str
    feature_set: str | None
    passed: tuple[Statement, ...] = field(default=(), metadata=_in_json("passed_codes"))
    # The simple rule that answers where no model beats it: a name of `learn/evaluation/baselines.py`.
    rule: str | None = field(default=None, metadata=_in_json("rule_code"))
    # Why to trust it less: it serves although its report advises against it.
    caveat: Statement | None = field(default=None, metadata=_in_json("caveat_code"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFitness:
    """The nodes that a job can run on."""

    fit: int  # nodes that satisfy the request and are healthy or only suspect
    needed: int
    sick: tuple[str, ...] = ()  # sick nodes that satisfy the request
    suspect: tuple[str, ...] = ()
    exclude: str | None = None  # option that avoids the sick nodes: --exclude=n[3,7]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A reason that raises or lowers the risk of failure."""

    code: ReasonCode
    values: Values = field(default_factory=dict, hash=False)
    group: str  # evidence group: history, request, cluster …
    weight: float  # contribution to the log odds; positive raises the risk
    features: tuple[str, ...] = ()  # the feature columns of the group
    risk_before: float | None = None  # probability of failure by the reasons before this one
    risk_after: float | None = None  # the same with this one included


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarJob:
    """An earlier, similar job of the same user; one job represents all jobs of an array or a bulk."""

    job_id: str
    submit: int
    similarity: float  # 1: equal in every compared field
    outcome: str  # most frequent outcome of the array or bulk
    run_time: int | None  # maximum
    differs: tuple[Statement, ...] = field(default=(), metadata=_in_json("differs_codes"))
    outcomes: Mapping[str, int] = field(default_factory=dict)  # counts over the array or bulk

    @property
    def jobs(self) -> int:
        """The number of jobs in the array or bulk."""
        return sum(self.outcomes.values()) or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem in the script, certain or possible."""

    rule: str  # short name: missing-input
    code: FindingCode | ProblemCode
    values: Values = field(default_factory=dict, hash=False)
    line: int | None = None  # of the script, from 1
    severity: str = "warning"  # error: the job cannot run; warning; note
    fix: FixCode | ProblemFix | None = field(default=None, metadata=_in_json("fix_code"))  # what to do
    about: str = "run"  # when it matters: submission (sbatch), start (Slurm) or run (the script itself)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One option with a new value."""

    option: str  # as sbatch names it, without dashes: mem, time, exclude
    before: str | None  # as written; None: it was not set
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Changes that lower the risk, and their expected effect."""

    steps: tuple[Statement, ...]  # what to do
    because: tuple[Statement, ...]  # the evidence for it
    changes: tuple[Change, ...]
    risk_before: float | None  # of the job as it is; None: no model, or the job cannot run
    risk_after: float | None  # of the changed job, computed in the same way
    node_hours_before: float | None = None  # expected node hours of a run with this request
    node_hours_after: float | None = None
    wait_before: float | None = None  # expected seconds in the queue
    wait_after: float | None = None
    command: str | None = None  # ready to type: scontrol update …, sbatch …
    diff: str | None = None  # of the script


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """A request far above what the job needs: the smaller request, and what it frees."""

    steps: tuple[Statement, ...]  # what to do
    because: tuple[Statement, ...]  # the evidence for it
    changes: tuple[Change, ...]
    resource: str  # time, memory
    asked: float  # requested seconds, or bytes per node
    enough: float  # the smaller request
    chance: float  # probability that it suffices, by the forecast
    risk_before: float  # of the job as it is
    risk_after: float  # of the job with the smaller request
    node_hours: float | None = None  # reservation saved, where the time limit shrinks
    wait_before: float | None = None  # seconds: recent median wait of requests like this one
    wait_after: float | None = None  # and of requests like the smaller one
    command: str | None = None  # ready to type
    diff: str | None = None  # of the script


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """Everything that Forewarn knows about one job at one moment."""

    schema_version: ClassVar[int] = SCHEMA_VERSION

    cluster: str
    job_id: str | None  # None: not submitted yet
    submit: int | None
    user: str | None
    name: str | None
    partition: str | None
    made_at: int
    phase: str
    state: str | None = None  # as the scheduler reports it
    verdict: Verdict = Verdict.CANNOT_SAY
    summary: Statement = field(  # why the verdict is what it is
        default=Statement(SummaryCode.UNKNOWN), metadata=_in_json("summary_code")
    )
    run_time: RunTime | None = None
    resources: Resources | None = None
    oddness: Oddness | None = None
    failure: Failure | None = None
    hours_at_risk: float | None = None  # expected node hours lost to a failure
    hours_at_risk_by: Statement | None = None  # how they were estimated
    route: Route
    nodes: NodeFitness | None = None
    reasons: tuple[Reason, ...] = ()
    similar: tuple[SimilarJob, ...] = ()
    # Their outcomes in short: of 14 jobs 9 failed, 6 of them out of memory.
    similar_in_short: Statement | None = field(default=None, metadata=_in_json("similar_in_short_code"))
    profile: str | None = None  # the nearest of the cluster's job profiles
    findings: tuple[Finding, ...] = ()
    advice: tuple[Advice, ...] = ()
    savings: tuple[Saving, ...] = ()
    notes: tuple[Statement, ...] = field(default=(), metadata=_in_json("note_codes"))

    def to_json(self, reader: Reader | None = None) -> dict[str, Any]:
        """Convert to JSON: codes and values, with English for a reader beside them. See `json_form.py`."""
        from forewarn.assess.json_form import to_json

        return to_json(self, reader)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read an assessment from JSON; its English is ignored. Raise `ValueError` for anything else."""
        from forewarn.assess.json_form import from_json

        return from_json(cls, value)
