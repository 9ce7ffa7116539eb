"""What is said of a job: one `Assessment`, in the order in which a scheduler asks.

How long, how much, is it odd, will it fail and of what, where can it run; then why, what kind of job it
is, what became of jobs like it, and what to change. Every face (CLI, later REST, Kafka, dashboard, MCP)
shows this and decides nothing of its own.

Evidence is a code and values; `assess/wording` makes the words of it. Missing is None: a part that could not
be said is not there, and `notes` has the reason. Durations are seconds, memory and I/O bytes, rates a second,
probabilities between 0 and 1.
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

if TYPE_CHECKING:
    from forewarn.assess.wording.reader import Reader

SCHEMA_VERSION = 1  # of the JSON form: counted up when a field changes its meaning or goes


def _in_json(name: str) -> dict[str, str]:
    """Name a field otherwise in JSON, where its own name has the words."""
    return {"json": name}


class Verdict(StrEnum):
    """The whole in one word, and the exit code of a check."""

    FINE = "fine"
    WARNING = "warning"
    LIKELY_TO_FAIL = "likely_to_fail"
    CANNOT_SAY = "cannot_say"

    @property
    def exit_code(self) -> int:
        """As monitoring counts them: 0 fine, 1 warning, 2 critical, 3 unknown."""
        return list(Verdict).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """A number that is not known yet: with these chances it stays at or below."""

    low: float  # 10 %
    median: float  # 50 %
    high: float  # 90 %


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """How long it will run, if nothing stops it."""

    seconds: Quantiles
    limit: int | None  # asked, or the partition's default
    over_limit: float | None  # probability that it needs longer than that
    rests_on: int  # jobs learnt from


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What it will use. A part that the history does not tell is None."""

    memory: Quantiles | None = None  # bytes, most on any node
    memory_request: float | None = None  # bytes a node that are enough with the chance configured
    memory_asked: int | None = None  # bytes a node, as asked or by default
    over_memory: float | None = None  # probability that it needs more than that
    cpu_efficiency: Quantiles | None = None  # CPU time against the CPUs' time
    io_rate: Quantiles | None = None  # bytes a second, read and written
    rests_on: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """Something about the configuration that does not fit this cluster, or this user."""

    rule: str  # short name: memory-beyond-nodes
    code: OddityCode
    values: Values = field(default_factory=dict, hash=False)  # what is asked, and what it is held against
    elsewhere: tuple[Statement, ...] = ()  # the same in the other partitions that the job names
    impossible: bool = False  # no node or partition can ever take it
    field: str | None = None  # of the job record


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddness:
    """How unusual the request is among the cluster's, and what is wrong with it."""

    oddities: tuple[Oddity, ...] = ()
    rarer_than: float | None = None  # share of earlier jobs that were less unusual, by isolation forest
    # Which values make it so, the most telling first.
    because: tuple[Statement, ...] = field(default=(), metadata=_in_json("because_codes"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseOfFailure:
    """One way to fail."""

    outcome: str  # out_of_memory, timeout, failed …
    kind: str | None  # user, system, limit
    probability: float  # of failing of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The risk of failure: the one number that headline, reasons, causes and advice share."""

    probability: float
    threshold: float
    warns: bool
    base_rate: float  # of failure, among the jobs learnt from
    rests_on: int  # jobs learnt from
    causes: tuple[CauseOfFailure, ...] = ()  # the likeliest first; they add up to the probability
    causes_learnt: bool = True  # False: too few failures to tell causes apart; these are all failures' shares
    model_probability: float | None = None  # by the model alone, before the job's needs and nodes count


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Which model spoke, and which before it did not, and why."""

    model: str | None  # its name; None: nobody knows enough
    version: int | None
    phase: str
    feature_set: str | None
    passed: tuple[Statement, ...] = field(default=(), metadata=_in_json("passed_codes"))
    # The simple rule that speaks, where no model beats it: a name of `learn/evaluation/baselines.py`.
    rule: str | None = field(default=None, metadata=_in_json("rule_code"))
    # Why to trust it less: it serves against its own report.
    caveat: Statement | None = field(default=None, metadata=_in_json("caveat_code"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFitness:
    """Where it can run."""

    fit: int  # nodes that can take it and are healthy or only suspect
    needed: int
    sick: tuple[str, ...] = ()  # of those that could take it
    suspect: tuple[str, ...] = ()
    exclude: str | None = None  # the line to add: --exclude=n[3,7]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Something that makes failure more or less likely."""

    code: ReasonCode
    values: Values = field(default_factory=dict, hash=False)
    group: str  # which kind of evidence: history, request, cluster …
    weight: float  # what it brought to the log odds; positive is towards failure
    features: tuple[str, ...] = ()  # the columns behind it
    risk_before: float | None = None  # probability of failure with the reasons before this one
    risk_after: float | None = None  # and with it


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarJob:
    """An earlier job of the same user that was much like this one; of an array or a bulk one for all."""

    job_id: str
    submit: int
    similarity: float  # 1 is equal in all that was compared
    outcome: str  # of most of them
    run_time: int | None  # the longest
    differs: tuple[Statement, ...] = field(default=(), metadata=_in_json("differs_codes"))
    outcomes: Mapping[str, int] = field(default_factory=dict)  # of those that were sent together

    @property
    def jobs(self) -> int:
        """How many were sent together."""
        return sum(self.outcomes.values()) or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something in the script that will go wrong, or may."""

    rule: str  # short name: missing-input
    code: FindingCode | ProblemCode
    values: Values = field(default_factory=dict, hash=False)
    line: int | None = None  # of the script, from 1
    severity: str = "warning"  # error: it cannot run; warning; note
    fix: FixCode | ProblemFix | None = field(default=None, metadata=_in_json("fix_code"))  # what to do
    about: str = "run"  # submission: sbatch decides; start: Slurm does, at the start; run: what it does then


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One option set otherwise."""

    option: str  # as sbatch names it, without dashes: mem, time, exclude
    before: str | None  # as written; None: it was not set
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to change, with what that does."""

    steps: tuple[Statement, ...]  # what to do
    because: tuple[Statement, ...]  # the evidence for it
    changes: tuple[Change, ...]
    risk_before: float | None  # as stated of the job; None: no model, or the job cannot run before
    risk_after: float | None  # as stated of the changed job, by the same path
    node_hours_before: float | None = None  # of a run under this request, as expected
    node_hours_after: float | None = None
    wait_before: float | None = None  # seconds, as expected
    wait_after: float | None = None
    command: str | None = None  # ready to type: scontrol update …, sbatch …
    diff: str | None = None  # of the script


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """A request far above what the job needs: what to ask for instead, and what that frees."""

    steps: tuple[Statement, ...]  # what to do
    because: tuple[Statement, ...]  # the evidence for it
    changes: tuple[Change, ...]
    resource: str  # time, memory
    asked: float  # seconds, or bytes a node
    enough: float  # what to ask for instead
    chance: float  # probability that it suffices, by the forecast
    risk_before: float  # as stated of the job
    risk_after: float  # as stated of the job that asks for less
    node_hours: float | None = None  # reserved less, where time is saved
    wait_before: float | None = None  # seconds: median wait of requests like this one, lately
    wait_after: float | None = None  # and of requests like the smaller one
    command: str | None = None  # ready to type
    diff: str | None = None  # of the script


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """All that is said of one job at one moment."""

    schema_version: ClassVar[int] = SCHEMA_VERSION

    cluster: str
    job_id: str | None  # None: not submitted yet
    submit: int | None
    user: str | None
    name: str | None
    partition: str | None
    made_at: int
    phase: str
    state: str | None = None  # the scheduler's word
    verdict: Verdict = Verdict.CANNOT_SAY
    summary: Statement = field(  # why the verdict is what it is
        default=Statement(SummaryCode.UNKNOWN), metadata=_in_json("summary_code")
    )
    run_time: RunTime | None = None
    resources: Resources | None = None
    oddness: Oddness | None = None
    failure: Failure | None = None
    hours_at_risk: float | None = None  # node hours that failing is expected to cost
    hours_at_risk_by: Statement | None = None  # how they were estimated
    route: Route
    nodes: NodeFitness | None = None
    reasons: tuple[Reason, ...] = ()
    similar: tuple[SimilarJob, ...] = ()
    # How they ended: of 14 jobs 9 failed, 6 of them out of memory.
    similar_in_short: Statement | None = field(default=None, metadata=_in_json("similar_in_short_code"))
    profile: str | None = None  # which of the cluster's kinds of jobs it is most like
    findings: tuple[Finding, ...] = ()
    advice: tuple[Advice, ...] = ()
    savings: tuple[Saving, ...] = ()
    notes: tuple[Statement, ...] = field(default=(), metadata=_in_json("note_codes"))

    def to_json(self, reader: Reader | None = None) -> dict[str, Any]:
        """For programs: codes and values, and beside them the words for a reader. See `json_form.py`."""
        from forewarn.assess.json_form import to_json

        return to_json(self, reader)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The assessment that was written so, without its words. Raises `ValueError` for what is none."""
        from forewarn.assess.json_form import from_json

        return from_json(cls, value)
