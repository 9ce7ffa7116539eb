"""Causes: if a job fails, how, and whose failure it is.

P(cause) is P(failure) × P(cause | failure). The first comes from the model of failure, the second is computed
here, learnt from failures alone: whatever the first is, the causes add up to it.
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
from forewarn.learn.evaluation.metrics import ScoredPredictions, finite_or_none
from forewarn.learn.heads.cause_trees import CauseTrees

Floats = NDArray[np.float64]
FACTS = "causes.json"
OTHER = "other"
RARE = 30  # failures below which a cause is one of the others
LEARNABLE = 100  # failures below which only the share of each cause is learnt
HELD_OUT = 0.2  # of the failures, the latest: they decide when boosting ends, and the temperature
_TEMPERATURES = np.geomspace(0.25, 4, 81)
_SMALLEST = 1e-15


@dataclass(frozen=True, slots=True)
class Cause:
    """The outcome of a failed job, and whose failure it is; the rare causes together have no kind."""

    outcome: str
    kind: str | None

    def __str__(self) -> str:
        return f"{self.outcome} ({self.kind})" if self.kind else self.outcome


@dataclass(frozen=True)
class Causes:
    """The causes of failures, their shares, and the trees that predict the cause of a job's failure."""

    causes: tuple[Cause, ...]  # the most frequent first, `other` last
    prior: Floats  # their shares of the failures
    other_kinds: Mapping[str, float]  # the shares of the kinds among the rare causes
    names: tuple[str, ...]  # the columns that the trees use
    temperature: float = 1.0
    rounds: int = 0
    trees: CauseTrees | None = None  # None where they predict no better than the shares
    used_shares: tuple[float, ...] = ()  # by cause, of the requested hours; empty: all of them

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
        """Learn from the failures among these jobs, which are in order of time."""
        failed = np.flatnonzero(fails == 1)
        if not len(failed):
            raise NotEnoughError("no failures to learn causes from; ingest more history")
        pairs = causes_of(about[failed])
        causes, other_kinds = _classes(pairs)
        codes, weights = _codes(pairs, causes), weights[failed]
        prior = _shares(codes, weights, len(causes))
        used_shares = _used_shares(about[failed], codes, weights, causes)
        plain = cls(causes, prior, other_kinds, matrix.names, used_shares=used_shares)
        if len(causes) == 1 or len(failed) < LEARNABLE:
            return plain
        rows = matrix.rows(failed)
        before, after = np.split(np.arange(len(failed)), [round(len(failed) * (1 - HELD_OUT))])
        train, later = ((rows.rows(part), codes[part], weights[part]) for part in (before, after))
        earlier_prior = _shares(*train[1:], len(causes))
        fit = CauseTrees.fit
        first, rounds = fit(*train, earlier_prior, seed=seed, threads=threads, held_out=later)
        if not rounds:
            return plain
        logs = first.logs(later[0], earlier_prior)
        temperature = min(_TEMPERATURES, key=lambda t: _log_loss(_softmax(logs / t), *later[1:]))
        # The latest failures are the most informative: after they have set the rounds, they are learnt from
        # too.
        trees, _ = fit(rows, codes, weights, prior, seed=seed, threads=threads, rounds=rounds)
        return cls(causes, prior, other_kinds, matrix.names, float(temperature), rounds, trees, used_shares)

    @property
    def distinguishes_jobs(self) -> bool:
        """Check whether jobs have causes of their own, or there is only one; else all have equal shares."""
        return self.trees is not None or len(self.causes) == 1

    def given_failure(self, matrix: Matrix) -> Floats:
        """Compute the probability of each cause (job × cause) if the job fails: rows add up to 1."""
        if self.trees is None:
            return np.tile(self.prior, (len(matrix.values), 1))
        return _softmax(self.trees.logs(matrix, self.prior) / self.temperature)

    def outcomes(self, by_cause: Floats) -> dict[str, Floats]:
        """Sum probabilities of causes (job × cause) by outcome."""
        total = {cause.outcome: np.zeros(len(by_cause)) for cause in self.causes}
        for place, cause in enumerate(self.causes):
            total[cause.outcome] += by_cause[:, place]
        return total

    def hours_lost(self, by_cause: Floats, about: pl.DataFrame) -> Floats:
        """Compute the CPU hours that each job is expected to lose, to sort jobs by.

        It is the sum over the causes of P(cause) × the hours that such a failure uses: all that the job
        requests (time limit × CPUs) for a timeout, else the share that earlier failures by this cause used.

        Parameters
        ----------
        by_cause
            Probability of each cause of failure, job × cause.
        about
            Rows of `JobTable.about` for the same jobs, with `asked_cpu_hours`.

        NaN where a job's time limit or CPUs are not known.
        """
        requested = about["asked_cpu_hours"].cast(pl.Float64).fill_null(np.nan).to_numpy()
        used_shares = np.array(self.used_shares or (1.0,) * len(self.causes))
        return np.asarray(requested * (by_cause * used_shares).sum(axis=1))

    def kinds(self, by_cause: Floats) -> dict[str, Floats]:
        """Sum probabilities of causes by whose failure it is: the user's, the system's, a limit's."""
        total = {str(kind): np.zeros(len(by_cause)) for kind in FailureKind}
        for place, cause in enumerate(self.causes):
            parts = {cause.kind: 1.0} if cause.kind else self.other_kinds
            for kind, part in parts.items():
                total[kind] += by_cause[:, place] * part
        return total

    def evaluate(self, matrix: Matrix, about: pl.DataFrame, fails: Floats) -> dict[str, Any]:
        """Evaluate the predicted causes of the failures among these jobs, compared with the shares alone.

        A cause that did not occur in training (`unseen`) can be predicted by neither, and is left out.
        """
        failed = np.flatnonzero(fails == 1)
        codes = _codes(causes_of(about[failed]), self.causes)
        learnt = codes >= 0
        codes, predicted = codes[learnt], self.given_failure(matrix.rows(failed[learnt]))
        weights, prior = np.ones(len(codes)), np.tile(self.prior, (len(codes), 1))
        any_failed = len(codes) > 0

        def roc_auc(place: int) -> float | None:
            if not any_failed:
                return None
            scored = ScoredPredictions((codes == place) * 1.0, predicted[:, place])
            return finite_or_none(scored.roc_auc())

        return {
            "n": len(codes),
            "unseen": int((~learnt).sum()),
            "accuracy": float((predicted.argmax(axis=1) == codes).mean()) if any_failed else None,
            "accuracy_of_majority": float((codes == self.prior.argmax()).mean()) if any_failed else None,
            "log_loss": _log_loss(predicted, codes, weights) if any_failed else None,
            "log_loss_of_shares": _log_loss(prior, codes, weights) if any_failed else None,
            "rounds": self.rounds,
            "temperature": self.temperature,
            "causes": [
                {
                    "cause": str(cause),
                    "n": int((codes == place).sum()),
                    "share_in_training": float(self.prior[place]),
                    "roc_auc": roc_auc(place),
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
            "spent": list(self.used_shares),
        }
        (folder / FACTS).write_text(json.dumps(facts, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load what was saved. Raises `BundleError` for anything else."""
        try:
            facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
            names, digest = tuple(facts["names"]), facts["trees"]
            causes = cls(
                tuple(Cause(cause["outcome"], cause["kind"]) for cause in facts["causes"]),
                np.array(facts["prior"], np.float64),
                {str(FailureKind(kind)): float(part) for kind, part in facts["other_kinds"].items()},
                names,
                float(facts["temperature"]),
                int(facts["rounds"]),
                CauseTrees.load(folder, names, digest) if digest else None,
                tuple(float(share) for share in facts.get("spent", ())),  # older bundles have none
            )
            causes._check()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BundleError(f"{folder / FACTS} cannot be read: {error!r}; train again") from error
        return causes

    def _check(self) -> None:
        if not self.causes or self.prior.shape != (len(self.causes),):
            raise ValueError(f"{len(self.causes)} causes with {self.prior.size} shares")
        if not (self.prior > 0).all() or abs(self.prior.sum() - 1) > 1e-6 or not self.temperature > 0:
            raise ValueError(
                "the shares of the causes are not positive or do not add up to 1, or the temperature is not "
                "positive"
            )
        if self.used_shares and (
            len(self.used_shares) != len(self.causes)
            or not all(0 <= share <= 1 for share in self.used_shares)
        ):
            raise ValueError("the shares of used hours are not one number from 0 to 1 for each cause")
        for cause in self.causes:
            if cause.outcome == OTHER and abs(sum(self.other_kinds.values()) - 1) > 1e-6:
                raise ValueError("the kinds of the rare causes do not add up to 1")
            if cause.outcome != OTHER and (
                cause.outcome not in list(Outcome) or cause.kind not in list(FailureKind)
            ):
                raise ValueError(f"unknown cause: {cause}")


def causes_of(about: pl.DataFrame) -> pl.DataFrame:
    """Return the cause of each failed job (outcome, kind), with timeouts named as such.

    SWF has no timeout: there a job that ran to its limit is `failed` or `cancelled`.

    >>> jobs = pl.DataFrame({"outcome": ["failed"] * 3, "kind": ["limit", "limit", "user"],
    ...                      "run_time": [60, 10, 60], "time_limit": [60, 60, 60]})
    >>> causes_of(jobs)["outcome"].to_list()  # the second was ended by another limit, such as memory
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
    """Group (outcome, kind) into causes; return them with the shares of the kinds among the rare ones."""
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
    """Return places among the causes; a pair that is none of them is `other`, or -1 without such a class."""
    other = len(causes) - 1 if causes[-1].outcome == OTHER else -1
    code_of_pair = pl.DataFrame(
        {
            "outcome": [cause.outcome for cause in causes],
            "kind": [cause.kind for cause in causes],
            "code": range(len(causes)),
        },
        schema={"outcome": pl.String, "kind": pl.String, "code": pl.Int64},
    )
    joined = pairs.join(code_of_pair, on=["outcome", "kind"], how="left", maintain_order="left")
    return joined["code"].fill_null(other).to_numpy()


def _shares(codes: NDArray[np.int64], weights: Floats, count: int) -> Floats:
    """Compute the share of each cause, with one failure added to each, so that none is impossible."""
    total = np.bincount(codes, weights, count) + 1
    return np.asarray(total / total.sum())


def _used_shares(
    about: pl.DataFrame, codes: NDArray[np.int64], weights: Floats, causes: tuple[Cause, ...]
) -> tuple[float, ...]:
    """Compute, by cause, the share of the requested hours that failures used; 1 where hours are unknown.

    A ratio of sums, not a mean of ratios: long jobs lose most of the hours.
    """
    used, requested = (
        about[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in ("cpu_hours", "asked_cpu_hours")
    )
    known = np.isfinite(used) & np.isfinite(requested) & (codes >= 0)
    count = len(causes)
    total_used = np.bincount(codes[known], (weights * np.fmin(used, requested))[known], count)
    total_requested = np.bincount(codes[known], (weights * requested)[known], count)
    shares = np.divide(total_used, total_requested, out=np.ones(count), where=total_requested > 0)
    is_timeout = np.array([cause.outcome == str(Outcome.TIMEOUT) for cause in causes])
    return tuple(np.where(is_timeout, 1.0, shares.clip(0, 1)).tolist())


def _softmax(logs: Floats) -> Floats:
    scaled = np.exp(logs - logs.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(scaled / scaled.sum(axis=1, keepdims=True))


def _log_loss(predicted: Floats, codes: NDArray[np.int64], weights: Floats) -> float:
    p_of_cause = predicted[np.arange(len(codes)), codes].clip(_SMALLEST)
    return float(np.average(np.log(1 / p_of_cause), weights=weights))
