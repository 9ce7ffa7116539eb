"""Abstention: the jobs for which there is too little evidence to predict.

The evidence about a job has a few levels, by how many earlier jobs of its user had ended and how many of them
had the same request or name. A model without history (`restricted`, for new users) has others: whether
anything of the request is known. Which levels suffice (`carries`) is learnt from the calibration block, by a
user-week bootstrap of the log loss compared with that of the level's own failure rate: the lowest levels
suffice if the model is shown to be better, the others unless it is shown to be worse. For a job unlike all
that its user ran before, a model abstains if it has learnt from too few such jobs. A probability is still
computed for a job on a level that does not suffice, but it deserves no more trust than the base rate, and the
assessment says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from forewarn.evidence import Statement, Value
from forewarn.learn.data.matrix import Rows, or_zero
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation import bootstrap
from forewarn.learn.evaluation.metrics import Alarms, Floats, ScoredPredictions, finite_or_none, log_losses
from forewarn.learn.fitting.evidence_levels import EVIDENCE_LEVELS, WITHOUT_HISTORY, AbstentionCode

Columns = Mapping[str, NDArray[np.floating[Any]]]

# How many of the levels do not suffice unless the block shows that they do.
DOUBTED = {EVIDENCE_LEVELS: 2, WITHOUT_HISTORY: 1}
# The level of jobs unlike all before: in a young history nearly every job is a repetition, and a prediction
# for a new one is a guess. On a lab's 868 jobs each new script got a risk of 57 to 67%.
UNLIKE_ALL = 3
FEWEST_ROWS, FEWEST_GROUPS = 30, 10  # that the block needs to evaluate a level
REQUEST = ("cpus", "nodes", "tasks", "gpus", "time_limit", "memory")


_CODES = list(AbstentionCode)


@dataclass(frozen=True, slots=True)
class EvidenceLevel:
    """The result of the calibration block for one level of evidence."""

    carries: bool  # the evidence suffices
    rows: int
    failed: float | None  # the failure rate
    roc_auc: float | None
    gain: float | None  # log loss of the level's own failure rate, minus the model's
    interval: list[float] | None  # of the gain


@dataclass(frozen=True, slots=True)
class Abstention:
    """The rule by which a model abstains: the levels of evidence, and which of them suffice."""

    levels: tuple[EvidenceLevel, ...]
    history: bool = True  # whether the model uses history, which decides what the levels mean

    @classmethod
    def fit(cls, table: JobTable, rows: Rows, p: Floats, *, history: bool = True, seed: int = 0) -> Self:
        """Learn which levels suffice, from predictions for jobs the model never saw and their outcomes."""
        names = EVIDENCE_LEVELS if history else WITHOUT_HISTORY
        level_of_job = _levels({name: table.column(name)[rows] for name in table.names}, history)
        fails, groups = table.fails[rows], bootstrap.groups(table.about[rows])
        levels = [
            _evaluate(place < DOUBTED[names], fails[inside], p[inside], groups[inside], seed)
            for place in range(len(names))
            for inside in (level_of_job == place,)
        ]
        if history and levels[UNLIKE_ALL].rows < FEWEST_ROWS:
            levels[UNLIKE_ALL] = replace(levels[UNLIKE_ALL], carries=False)
        return cls(tuple(levels), history)

    @property
    def level_names(self) -> tuple[str, ...]:
        """Return what each level means."""
        return EVIDENCE_LEVELS if self.history else WITHOUT_HISTORY

    def abstains(self, columns: Columns) -> Alarms:
        """Find the jobs with too little evidence; `columns` are features, and an absent one is unknown."""
        return self._abstains(self._deciding_levels(columns), _unknown(columns))

    def _abstains(self, level_of_job: NDArray[np.intp], unknown: Alarms) -> Alarms:
        return ~np.array([level.carries for level in self.levels])[level_of_job] | unknown

    def why(self, columns: Columns) -> list[Statement | None]:
        """State what is missing for each job; `None` where there is enough evidence."""
        level_of_job, unknown = self._deciding_levels(columns), _unknown(columns)
        abstains = self._abstains(level_of_job, unknown)
        return [
            self._why(int(place), nothing_known) if is_silent else None
            for place, nothing_known, is_silent in zip(level_of_job, unknown, abstains, strict=True)
        ]

    def _deciding_levels(self, columns: Columns) -> NDArray[np.intp]:
        """Find the level that decides: for a job unlike all before, that level even if its user is new."""
        level_of_job = _levels(columns, self.history)
        if not self.history or self.levels[UNLIKE_ALL].carries:
            return level_of_job
        is_new = (level_of_job == UNLIKE_ALL - 1) & (_same_request_or_name(columns) == 0)
        return np.where(is_new, UNLIKE_ALL, level_of_job)

    def _why(self, place: int, nothing_known: bool) -> Statement:
        if nothing_known:
            return Statement(AbstentionCode.NOTHING_KNOWN)
        level, values = self.levels[place], dict[str, Value]()
        if level.interval and level.failed is not None:  # else there were too few jobs to evaluate the model
            values = {"jobs": level.rows, "failure_rate": level.failed}
        return Statement(_CODES[place if self.history else len(EVIDENCE_LEVELS) + place], values)

    def to_json(self) -> dict[str, Any]:
        """Return what the bundle stores."""
        pairs = zip(self.level_names, self.levels, strict=True)
        return {"history": self.history, "rungs": [{"of": name, **asdict(level)} for name, level in pairs]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what the bundle stores."""
        fields = EvidenceLevel.__dataclass_fields__
        levels = (EvidenceLevel(**{name: level[name] for name in fields}) for level in value["rungs"])
        return cls(tuple(levels), value["history"])


def _levels(columns: Columns, history: bool) -> NDArray[np.intp]:
    """Return the level of evidence about each job, as a place in `level_names`."""
    if not history:
        return (~_request_unknown(columns)).astype(np.intp)
    user = or_zero(_column(columns, "user_ended"))
    same = np.searchsorted([1, 5], _same_request_or_name(columns), side="right")
    return np.where(user < 10, np.searchsorted([1, 3], user, side="right"), UNLIKE_ALL + same)


def _same_request_or_name(columns: Columns) -> Floats:
    """Count the user's ended jobs with this request, or with this name, whichever are more."""
    ended = (_column(columns, f"user_{entity}_ended") for entity in ("request", "name"))
    return np.asarray(np.maximum(*map(or_zero, ended)))


def _unknown(columns: Columns) -> Alarms:
    """Find the jobs with neither a history nor anything of the request."""
    return np.asarray(_request_unknown(columns) & (_levels(columns, history=True) == 0))


def _request_unknown(columns: Columns) -> Alarms:
    return np.asarray(np.all([np.isnan(_column(columns, name)) for name in REQUEST], axis=0))


def _column(columns: Columns, name: str) -> Floats:
    if name in columns:
        return np.asarray(columns[name], np.float64)
    return np.full(len(next(iter(columns.values()))), np.nan)


def _evaluate(doubted: bool, fails: Floats, p: Floats, groups: NDArray[np.int64], seed: int) -> EvidenceLevel:
    """Decide whether the evidence of one level suffices, by the jobs on it."""
    count = len(fails)
    if count < FEWEST_ROWS or len(np.unique(groups)) < FEWEST_GROUPS:
        rate = finite_or_none(fails.mean()) if count else None
        return EvidenceLevel(not doubted, count, rate, None, None, None)
    model_losses = log_losses(fails, p)

    def gain(weights: Floats) -> float:
        rate = np.full(count, np.average(fails, weights=weights))
        return float(np.average(log_losses(fails, rate) - model_losses, weights=weights))

    group_of_row = np.unique(groups, return_inverse=True)[1]
    interval = bootstrap.intervals(group_of_row, {"gain": gain}, seed=seed)["gain"]
    return EvidenceLevel(
        # A doubted level needs proof that the model gains; another one fails only by proof that it loses,
        # since a young history proves little.
        carries=interval is not None and (interval[0] > 0 if doubted else interval[1] >= 0),
        rows=count,
        failed=float(fails.mean()),
        roc_auc=finite_or_none(ScoredPredictions(fails, p).roc_auc()),
        gain=gain(np.ones(count)),
        interval=interval,
    )
