"""For which jobs there is too little evidence to say anything.

How much is known about a job is a rung of a short ladder, by how many earlier jobs of its user had ended and
how many of them were like it. A model that knows no history (`restricted`, for newcomers) is judged by
another: whether anything of the request is known. Which rungs do not carry is learnt from the calibration
block, by a user-week bootstrap of the log loss against that of the rung's own failure rate: the lowest ones
carry if the model is shown to be better, the others unless it is shown to be worse. Of a job unlike all that
its user ran before a model says nothing where it has met too few such jobs. A probability is still
made for a job on a rung that does not carry, but deserves no more trust than the base rate, and the
assessment says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from forewarn.evidence import Code, Statement, Value
from forewarn.learn.data.matrix import Rows, or_zero
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation import bootstrap
from forewarn.learn.evaluation.metrics import Alarms, Floats, ScoredPredictions, defined, surprise

Columns = Mapping[str, NDArray[np.floating[Any]]]

# How much is known, the least first. On CTC, SDSC-SP2 and BLUE the model carries from three ended jobs of a
# user on; below, it is no better than a coin.
RUNGS = (
    "no earlier job of this user has ended",
    "only 1 or 2 earlier jobs of this user have ended",
    "only 3 to 9 earlier jobs of this user have ended",
    "no earlier job of this user with this request or name has ended",
    "only 1 to 4 earlier jobs of this user with this request or name have ended",
    "5 or more earlier jobs of this user with this request or name have ended",
)
WITHOUT_HISTORY = ("nothing of its request is known", "its request is known")
# How many rungs of each ladder do not carry unless the block shows that they do.
DOUBTED = {RUNGS: 2, WITHOUT_HISTORY: 1}
# The rung of jobs unlike all before: in a young history nearly every job is a repeated one, and what a model
# makes of a new one is a guess. On a lab's 868 jobs each script that was new got a risk of 57 to 67 %.
UNLIKE_ALL = 3
FEWEST_ROWS, FEWEST_GROUPS = 30, 10  # that a rung needs to be judged
REQUEST = ("cpus", "nodes", "tasks", "gpus", "time_limit", "memory")


class AbstentionCode(Code):
    """Why there is not enough evidence: the rung that a job stands on, in the order of the ladders."""

    NO_JOB = "no_job_of_user"
    ONE_OR_TWO = "one_or_two_jobs_of_user"
    THREE_TO_NINE = "three_to_nine_jobs_of_user"
    NONE_ALIKE = "no_job_alike"
    FEW_ALIKE = "few_jobs_alike"
    SOME_ALIKE = "some_jobs_alike"
    REQUEST_UNKNOWN = "request_unknown"
    REQUEST_KNOWN = "request_known"
    NOTHING_KNOWN = "nothing_known"


_CODES = list(AbstentionCode)


@dataclass(frozen=True, slots=True)
class EvidenceLevel:
    """What the calibration block says of one rung."""

    carries: bool
    rows: int
    failed: float | None  # the failure rate
    roc_auc: float | None
    gain: float | None  # log loss of the rung's own failure rate, less the model's
    interval: list[float] | None  # of the gain


@dataclass(frozen=True, slots=True)
class Abstention:
    """When to say that there is not enough evidence."""

    rungs: tuple[EvidenceLevel, ...]
    history: bool = True  # which ladder

    @classmethod
    def fit(cls, table: JobTable, rows: Rows, p: Floats, *, history: bool = True, seed: int = 0) -> Self:
        """Learn it from predictions of jobs that the model never saw, and what became of them."""
        ladder = RUNGS if history else WITHOUT_HISTORY
        on = _rungs({name: table.column(name)[rows] for name in table.names}, history)
        fails, groups = table.fails[rows], bootstrap.groups(table.about[rows])
        rungs = [
            _judged(place < DOUBTED[ladder], fails[on == place], p[on == place], groups[on == place], seed)
            for place in range(len(ladder))
        ]
        if history and rungs[UNLIKE_ALL].rows < FEWEST_ROWS:
            rungs[UNLIKE_ALL] = replace(rungs[UNLIKE_ALL], carries=False)
        return cls(tuple(rungs), history)

    @property
    def ladder(self) -> tuple[str, ...]:
        """What each rung means."""
        return RUNGS if self.history else WITHOUT_HISTORY

    def abstains(self, columns: Columns) -> Alarms:
        """For which jobs there is too little evidence; columns are features, and one not given is missing."""
        return self._silent(self._on(columns), _unknown(columns))

    def _silent(self, on: NDArray[np.intp], unknown: Alarms) -> Alarms:
        return ~np.array([rung.carries for rung in self.rungs])[on] | unknown

    def why(self, columns: Columns) -> list[Statement | None]:
        """What is missing, for each job; `None` where there is evidence enough."""
        on, unknown = self._on(columns), _unknown(columns)
        return [
            self._why(int(rung), nothing) if silent else None
            for rung, nothing, silent in zip(on, unknown, self._silent(on, unknown), strict=True)
        ]

    def _on(self, columns: Columns) -> NDArray[np.intp]:
        """The rung that decides: a job unlike all before stands on that one also where its user is young."""
        on = _rungs(columns, self.history)
        if not self.history or self.rungs[UNLIKE_ALL].carries:
            return on
        return np.where((on == UNLIKE_ALL - 1) & (_alike(columns) == 0), UNLIKE_ALL, on)

    def _why(self, place: int, nothing_known: bool) -> Statement:
        if nothing_known:
            return Statement(AbstentionCode.NOTHING_KNOWN)
        rung, values = self.rungs[place], dict[str, Value]()
        if rung.interval and rung.failed is not None:  # else there were too few to judge the model on
            values = {"jobs": rung.rows, "failure_rate": rung.failed}
        return Statement(_CODES[place if self.history else len(RUNGS) + place], values)

    def to_json(self) -> dict[str, Any]:
        """For the bundle."""
        rungs = [{"of": of, **asdict(rung)} for of, rung in zip(self.ladder, self.rungs, strict=True)]
        return {"history": self.history, "rungs": rungs}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """From the bundle."""
        fields = EvidenceLevel.__dataclass_fields__
        rungs = (EvidenceLevel(**{name: rung[name] for name in fields}) for rung in value["rungs"])
        return cls(tuple(rungs), value["history"])


def _rungs(columns: Columns, history: bool) -> NDArray[np.intp]:
    if not history:
        return (~_nothing_asked(columns)).astype(np.intp)
    user = or_zero(_column(columns, "user_ended"))
    alike = np.searchsorted([1, 5], _alike(columns), side="right")
    return np.where(user < 10, np.searchsorted([1, 3], user, side="right"), UNLIKE_ALL + alike)


def _alike(columns: Columns) -> Floats:
    """How many jobs of the user with this request, or with this name, have ended."""
    ended = (_column(columns, f"user_{entity}_ended") for entity in ("request", "name"))
    return np.asarray(np.maximum(*map(or_zero, ended)))


def _unknown(columns: Columns) -> Alarms:
    """Neither a history nor anything of the request."""
    return np.asarray(_nothing_asked(columns) & (_rungs(columns, history=True) == 0))


def _nothing_asked(columns: Columns) -> Alarms:
    return np.asarray(np.all([np.isnan(_column(columns, name)) for name in REQUEST], axis=0))


def _column(columns: Columns, name: str) -> Floats:
    if name in columns:
        return np.asarray(columns[name], np.float64)
    return np.full(len(next(iter(columns.values()))), np.nan)


def _judged(doubted: bool, fails: Floats, p: Floats, groups: NDArray[np.int64], seed: int) -> EvidenceLevel:
    count = len(fails)
    if count < FEWEST_ROWS or len(np.unique(groups)) < FEWEST_GROUPS:
        rate = defined(fails.mean()) if count else None
        return EvidenceLevel(not doubted, count, rate, None, None, None)
    of_model = surprise(fails, p)

    def gain(weights: Floats) -> float:
        rate = np.full(count, np.average(fails, weights=weights))
        return float(np.average(surprise(fails, rate) - of_model, weights=weights))

    within = np.unique(groups, return_inverse=True)[1]
    interval = bootstrap.intervals(within, {"gain": gain}, seed=seed)["gain"]
    return EvidenceLevel(
        # Where it is doubted, the model must be shown to gain; else, to lose: a young history shows little.
        carries=interval is not None and (interval[0] > 0 if doubted else interval[1] >= 0),
        rows=count,
        failed=float(fails.mean()),
        roc_auc=defined(ScoredPredictions(fails, p).roc_auc()),
        gain=gain(np.ones(count)),
        interval=interval,
    )
