"""Causes: if a job fails, of what, and through whom.

P(cause) is P(failure) × P(cause | failure). The first comes from the model of failure, the second from here,
learnt from failures alone: whatever the first says, the causes add up to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.errors import BundleError, NotEnoughError
from forewarn.job.outcomes import FailureKind, Outcome
from forewarn.learn.data.matrix import Matrix
from forewarn.learn.evaluation.metrics import ScoredPredictions, defined
from forewarn.learn.heads.cause_trees import CauseTrees

Floats = NDArray[np.float64]
FACTS = "causes.json"
OTHER = "other"
RARE = 30  # failures below which a cause is one of the others
LEARNABLE = 100  # failures below which all that is learnt is how often each cause is
HELD_OUT = 0.2  # of the failures, the latest: they say when boosting ends, and how sure to be
_TEMPERATURES = np.geomspace(0.25, 4, 81)
_SMALLEST = 1e-15


@dataclass(frozen=True, slots=True)
class Cause:
    """How a failed job ended, and whose failure that is; the rare ones together have no kind of their own."""

    outcome: str
    kind: str | None

    def __str__(self) -> str:
        return f"{self.outcome} ({self.kind})" if self.kind else self.outcome


@dataclass(frozen=True)
class Causes:
    """The causes that there were, how often, and how to tell them apart."""

    causes: tuple[Cause, ...]  # the most frequent first, `other` last
    prior: Floats  # their shares of the failures
    other_kinds: Mapping[str, float]  # whose the rare ones were, as shares
    names: tuple[str, ...]  # the columns that are looked at
    temperature: float = 1.0
    rounds: int = 0
    trees: CauseTrees | None = None  # none where they tell no more than the shares
    spent: tuple[float, ...] = ()  # of the hours asked for, the share used by jobs that ended so; () is all

    @classmethod
    def fit(
        cls,
        matrix: Matrix,
        about: pl.DataFrame,
        fails: Floats,
        weights: Floats,
        *,
        seed: int,
        threads: int,
    ) -> Self:
        """Learn from the failures among these jobs, which come in order of time."""
        failed = np.flatnonzero(fails == 1)
        if not len(failed):
            raise NotEnoughError("no failures to learn causes from; ingest more history")
        pairs = causes_of(about[failed])
        causes, other_kinds = _classes(pairs)
        codes, weights = _codes(pairs, causes), weights[failed]
        prior = _shares(codes, weights, len(causes))
        spent = _spent(about[failed], codes, weights, causes)
        plain = cls(causes, prior, other_kinds, matrix.names, spent=spent)
        if len(causes) == 1 or len(failed) < LEARNABLE:
            return plain
        rows = matrix.rows(failed)
        before, after = np.split(np.arange(len(failed)), [round(len(failed) * (1 - HELD_OUT))])
        train, later = ((rows.rows(part), codes[part], weights[part]) for part in (before, after))
        earlier = _shares(*train[1:], len(causes))
        make = CauseTrees.fit
        first, rounds = make(*train, earlier, seed=seed, threads=threads, held_out=later)
        if not rounds:
            return plain
        logs = first.logs(later[0], earlier)
        temperature = min(_TEMPERATURES, key=lambda t: _log_loss(_softmax(logs / t), *later[1:]))
        # The latest failures tell most: once they have said how far to go, they are learnt from too.
        trees, _ = make(rows, codes, weights, prior, seed=seed, threads=threads, rounds=rounds)
        return cls(causes, prior, other_kinds, matrix.names, float(temperature), rounds, trees, spent)

    @property
    def tells_apart(self) -> bool:
        """Whether jobs differ in their causes, or there is one only; else each job has the usual shares."""
        return self.trees is not None or len(self.causes) == 1

    def given_failure(self, matrix: Matrix) -> Floats:
        """The probability of each cause (job × cause) if the job fails: rows add up to 1."""
        if self.trees is None:
            return np.tile(self.prior, (len(matrix.values), 1))
        return _softmax(self.trees.logs(matrix, self.prior) / self.temperature)

    def outcomes(self, by_cause: Floats) -> dict[str, Floats]:
        """Sum probabilities of causes (job × cause) by how the job ends."""
        made = {cause.outcome: np.zeros(len(by_cause)) for cause in self.causes}
        for place, cause in enumerate(self.causes):
            made[cause.outcome] += by_cause[:, place]
        return made

    def hours_lost(self, by_cause: Floats, about: pl.DataFrame) -> Floats:
        """CPU hours that each job is expected to lose: what to sort jobs by.

        The sum over the causes of P(cause) × the hours that a job uses which ends so: all that it asks for
        (time limit × CPUs) if it runs into its limit, else the share that such failures used of theirs.

        Parameters
        ----------
        by_cause
            Probability of each cause of failure, job × cause.
        about
            Rows of `Table.about` for the same jobs, with `asked_cpu_hours`.

        NaN where a job's time limit or CPUs are not known.
        """
        asked = about["asked_cpu_hours"].cast(pl.Float64).fill_null(np.nan).to_numpy()
        spent = np.array(self.spent or (1.0,) * len(self.causes))
        return np.asarray(asked * (by_cause * spent).sum(axis=1))

    def kinds(self, by_cause: Floats) -> dict[str, Floats]:
        """Sum probabilities of causes by whose failure it is: the user's, the system's, a limit's."""
        made = {str(kind): np.zeros(len(by_cause)) for kind in FailureKind}
        for place, cause in enumerate(self.causes):
            parts = {cause.kind: 1.0} if cause.kind else self.other_kinds
            for kind, part in parts.items():
                made[kind] += by_cause[:, place] * part
        return made

    def evaluate(self, matrix: Matrix, about: pl.DataFrame, fails: Floats) -> dict[str, Any]:
        """How well the causes of the failures among these jobs are told, beside what the shares alone tell.

        A cause that was not there in training (`unseen`) can be told by neither, and is left out.
        """
        failed = np.flatnonzero(fails == 1)
        codes = _codes(causes_of(about[failed]), self.causes)
        seen = codes >= 0
        codes, given = codes[seen], self.given_failure(matrix.rows(failed[seen]))
        weights, prior = np.ones(len(codes)), np.tile(self.prior, (len(codes), 1))
        some = len(codes) > 0
        return {
            "n": len(codes),
            "unseen": int((~seen).sum()),
            "accuracy": float((given.argmax(axis=1) == codes).mean()) if some else None,
            "accuracy_of_majority": float((codes == self.prior.argmax()).mean()) if some else None,
            "log_loss": _log_loss(given, codes, weights) if some else None,
            "log_loss_of_shares": _log_loss(prior, codes, weights) if some else None,
            "rounds": self.rounds,
            "temperature": self.temperature,
            "causes": [
                {
                    "cause": str(cause),
                    "n": int((codes == place).sum()),
                    "share_in_training": float(self.prior[place]),
                    "roc_auc": defined(ScoredPredictions((codes == place) * 1.0, given[:, place]).roc_auc())
                    if some
                    else None,
                }
                for place, cause in enumerate(self.causes)
            ],
        }

    def save(self, folder: Path) -> None:
        """Write JSON, and the booster's native file where there is one, into a folder that exists."""
        facts = {
            "causes": [{"outcome": cause.outcome, "kind": cause.kind} for cause in self.causes],
            "prior": self.prior.tolist(),
            "other_kinds": dict(self.other_kinds),
            "names": list(self.names),
            "temperature": self.temperature,
            "rounds": self.rounds,
            "trees": self.trees.save(folder) if self.trees else None,
            "spent": list(self.spent),
        }
        (folder / FACTS).write_text(json.dumps(facts, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What was saved there. Raises `BundleError` for anything else."""
        try:
            facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
            names, digest = tuple(facts["names"]), facts["trees"]
            made = cls(
                tuple(Cause(cause["outcome"], cause["kind"]) for cause in facts["causes"]),
                np.array(facts["prior"], np.float64),
                {str(FailureKind(kind)): float(part) for kind, part in facts["other_kinds"].items()},
                names,
                float(facts["temperature"]),
                int(facts["rounds"]),
                CauseTrees.load(folder, names, digest) if digest else None,
                tuple(float(share) for share in facts.get("spent", ())),  # older bundles have none
            )
            made._check()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BundleError(f"{folder / FACTS} cannot be read: {error!r}; train again") from error
        return made

    def _check(self) -> None:
        if not self.causes or self.prior.shape != (len(self.causes),):
            raise ValueError(f"{len(self.causes)} causes with {self.prior.size} shares")
        if not (self.prior > 0).all() or abs(self.prior.sum() - 1) > 1e-6 or not self.temperature > 0:
            raise ValueError("the shares of the causes are none, or the temperature is not positive")
        if self.spent and (len(self.spent) != len(self.causes) or not all(0 <= s <= 1 for s in self.spent)):
            raise ValueError("the shares of hours that failures used are none of their causes")
        for cause in self.causes:
            if cause.outcome == OTHER and abs(sum(self.other_kinds.values()) - 1) > 1e-6:
                raise ValueError("the kinds of the rare causes do not add up to 1")
            if cause.outcome != OTHER and (
                cause.outcome not in list(Outcome) or cause.kind not in list(FailureKind)
            ):
                raise ValueError(f"no such cause: {cause}")


def causes_of(about: pl.DataFrame) -> pl.DataFrame:
    """How each failed job ended (outcome, kind), with time-outs by their name.

    SWF has no time-out: there a job that ran to its limit is `failed` or `cancelled`.

    >>> jobs = pl.DataFrame({"outcome": ["failed"] * 3, "kind": ["limit", "limit", "user"],
    ...                      "run_time": [60, 10, 60], "time_limit": [60, 60, 60]})
    >>> causes_of(jobs)["outcome"].to_list()  # the second was ended by another limit, as its memory's
    ['timeout', 'failed', 'failed']
    """
    outcome, at_limit = pl.col("outcome"), pl.col("kind") == str(FailureKind.LIMIT)
    ran = (pl.col("run_time") >= pl.col("time_limit")).fill_null(False)
    timeout = at_limit & ((outcome == str(Outcome.CANCELLED)) | ((outcome == str(Outcome.FAILED)) & ran))
    return about.select(
        outcome=pl.when(timeout).then(pl.lit(str(Outcome.TIMEOUT))).otherwise(outcome),
        kind=pl.col("kind"),
    )


def _classes(pairs: pl.DataFrame) -> tuple[tuple[Cause, ...], dict[str, float]]:
    counts = (
        pairs.group_by("outcome", "kind")
        .len()
        .sort("len", "outcome", "kind", descending=[True, False, False])
    )
    common = (pl.col("len") >= RARE) | (pl.int_range(pl.len()) == 0)
    causes = tuple(Cause(*pair) for pair in counts.filter(common).select("outcome", "kind").iter_rows())
    rare = counts.filter(~common)
    if rare.is_empty():
        return causes, {}
    kinds = rare.group_by("kind").agg(pl.col("len").sum()).sort("kind")
    return (*causes, Cause(OTHER, None)), {kind: n / rare["len"].sum() for kind, n in kinds.iter_rows()}


def _codes(pairs: pl.DataFrame, causes: tuple[Cause, ...]) -> NDArray[np.int64]:
    """Places among the causes; a pair that is none of them is `other`, or -1 where there is no such class."""
    rest = len(causes) - 1 if causes[-1].outcome == OTHER else -1
    known = pl.DataFrame(
        {
            "outcome": [cause.outcome for cause in causes],
            "kind": [cause.kind for cause in causes],
            "code": range(len(causes)),
        },
        schema={"outcome": pl.String, "kind": pl.String, "code": pl.Int64},
    )
    found = pairs.join(known, on=["outcome", "kind"], how="left", maintain_order="left")
    return found["code"].fill_null(rest).to_numpy()


def _shares(codes: NDArray[np.int64], weights: Floats, count: int) -> Floats:
    """With one made-up failure of each, so that none is impossible."""
    found = np.bincount(codes, weights, count) + 1
    return np.asarray(found / found.sum())


def _spent(
    about: pl.DataFrame, codes: NDArray[np.int64], weights: Floats, causes: tuple[Cause, ...]
) -> tuple[float, ...]:
    """Of the hours that failures of each cause asked for, the share that they used; 1 where nothing tells.

    Of sums, not the mean of shares: a long job's hours are what is lost.
    """
    used, asked = (
        about[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in ("cpu_hours", "asked_cpu_hours")
    )
    told = np.isfinite(used) & np.isfinite(asked) & (codes >= 0)
    count = len(causes)
    of_used = np.bincount(codes[told], (weights * np.fmin(used, asked))[told], count)
    of_asked = np.bincount(codes[told], (weights * asked)[told], count)
    shares = np.divide(of_used, of_asked, out=np.ones(count), where=of_asked > 0)
    is_timeout = np.array([cause.outcome == str(Outcome.TIMEOUT) for cause in causes])
    return tuple(np.where(is_timeout, 1.0, shares.clip(0, 1)).tolist())


def _softmax(logs: Floats) -> Floats:
    likely = np.exp(logs - logs.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(likely / likely.sum(axis=1, keepdims=True))


def _log_loss(given: Floats, codes: NDArray[np.int64], weights: Floats) -> float:
    of_cause = given[np.arange(len(codes)), codes].clip(_SMALLEST)
    return float(np.average(np.log(1 / of_cause), weights=weights))
