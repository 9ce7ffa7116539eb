"""Active learning in rounds, as papers/001 has it: learn from the jobs that tell most, not from all.

Each round a model is fitted on the jobs chosen so far, is judged on the validation rows, and then picks
the next: those with the highest uncertainty × density of their region. The best round is kept. Beside it
stands what a random choice of as many jobs gives, over several seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import NotEnoughError, UsageError
from forewarn.learn.data.matrix import Matrix, Sample
from forewarn.learn.evaluation.metrics import ScoredPredictions
from forewarn.learn.families.base import FittedModel, ModelFamily, Params, probabilities

ROUNDS = 20  # after the start
PATIENCE = 5  # rounds without a better one, once there is one better than chance
SHARE = 0.025  # of the pool that a round adds; the start is twice that
FEWEST = 100  # jobs that a round adds
RANDOM_CHOICES = 5
LANDMARKS = 512  # jobs to which a job is compared for the density of its region
FARTHEST = 3.0  # spreads from the mean beyond which a value counts as no farther


@dataclass(frozen=True, slots=True)
class LearningRound:
    """How good a model of so many jobs was."""

    jobs: int
    failed: int
    pr_auc: float  # on the validation rows


@dataclass(frozen=True, slots=True)
class RandomChoice:
    """As many jobs, chosen by nothing but chance."""

    rows: NDArray[np.intp]
    pr_auc: float
    model: FittedModel


@dataclass(frozen=True, slots=True)
class ActiveResult:
    """The jobs that were chosen up to the best round, and what led there."""

    rows: NDArray[np.intp]  # of the pool, in its order
    best_round: int  # 0 is the start
    model: FittedModel
    history: tuple[LearningRound, ...]
    random: tuple[RandomChoice, ...]

    def to_json(self) -> dict[str, Any]:
        """For the report. The validation chose the round, so there it flatters: see the test part."""
        scores = [choice.pr_auc for choice in self.random]
        return {
            "jobs": len(self.rows),
            "best_round": self.best_round,
            "history": [{"jobs": r.jobs, "failed": r.failed, "pr_auc": r.pr_auc} for r in self.history],
            "random": {
                "pr_auc": scores,
                "mean": float(np.mean(scores)) if scores else None,
                "spread": float(np.std(scores)) if scores else None,
            },
        }


def active_learning(
    family: ModelFamily,
    params: Params,
    pool: Sample,
    validation: Sample,
    *,
    seed: int,
    threads: int,
    rounds: int = ROUNDS,
    batch: int | None = None,
    patience: int = PATIENCE,
    random_choices: int = RANDOM_CHOICES,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> ActiveResult:
    """Choose from the pool in rounds of `batch` jobs, starting with twice as many that keep its shares.

    Models are fitted for ``params["rounds"]`` of boosting, all alike: to stop each early on the rows that
    also judge it would favour the luckiest.
    """
    if rounds < 0 or (batch is not None and batch < 1):
        raise UsageError(f"active learning: rounds ({rounds}) and batch ({batch}) must be positive")
    for name, sample in (("pool", pool), ("validation", validation)):
        if sample.fails.sum() in (0, len(sample)):
            raise NotEnoughError(f"active learning: the {name} has {len(sample):,} jobs of one class only")
    batch = batch or max(FEWEST, round(len(pool) * SHARE))
    total = rounds + 1 + random_choices

    def fitted(rows: NDArray[np.intp]) -> tuple[FittedModel, float]:
        model = family.fit(pool.rows(rows), params, seed=seed, threads=threads)
        return model, ScoredPredictions(validation.fails, _p(model, validation.matrix)).pr_auc()

    dense = density(pool.matrix, seed=seed)
    rows = stratified(pool, 2 * batch, seed=seed)
    history: list[LearningRound] = []
    # The PR-AUC of a model that says the same of all jobs: the first ones may have too few to say more.
    chance = float(validation.fails.mean()) + 1e-9
    best_round, best_rows, best_model, best_score = 0, rows, None, -np.inf
    for number in range(rounds + 1):
        model, score = fitted(rows)
        history.append(LearningRound(len(rows), int(pool.fails[rows].sum()), score))
        progress(number + 1, total)
        if score > best_score:
            best_round, best_rows, best_model, best_score = number, rows, model, score
        rest = np.setdiff1d(np.arange(len(pool)), rows)
        if not len(rest) or (best_score > chance and number - best_round >= patience):
            break
        uncertainty = 1 - np.abs(2 * _p(model, pool.matrix.rows(rest)) - 1)
        most = np.argsort(-uncertainty * dense[rest], kind="stable")[:batch]
        rows = np.union1d(rows, rest[most])
    assert best_model is not None  # there is a round 0, whose score is a number

    choices = []
    for number in range(random_choices):
        rows = stratified(pool, len(best_rows), seed=seed + 1 + number)
        model, score = fitted(rows)
        choices.append(RandomChoice(rows, score, model))
        progress(rounds + 2 + number, total)
    return ActiveResult(best_rows, best_round, best_model, tuple(history), tuple(choices))


def stratified(pool: Sample, count: int, *, seed: int) -> NDArray[np.intp]:
    """A random choice that keeps the share of failures, with at least one job of each class."""
    random = np.random.default_rng(seed)
    failed, good = (random.permutation(np.flatnonzero(pool.fails == value)) for value in (1, 0))
    count = min(count, len(pool))
    of_failed = int(np.clip(round(count * len(failed) / len(pool)), 1, len(failed)))
    of_good = min(max(count - of_failed, 1), len(good))
    return np.sort(np.concatenate([failed[:of_failed], good[:of_good]]))


def density(matrix: Matrix, *, seed: int) -> NDArray[np.float64]:
    """How dense the region around each row is, from 0 to 1: its mean likeness to a random choice of rows.

    A Gaussian kernel as wide as the median distance. Cells of a clustering would need their number and
    have edges; the nearest neighbours of every row take minutes at 200,000 rows, this takes seconds.
    """
    space = _space(matrix)
    random = np.random.default_rng(seed)
    marks = space[np.sort(random.choice(len(space), min(LANDMARKS, len(space)), replace=False))]
    width = np.median(_squares(marks, marks))
    parts = np.array_split(space, len(space) // 20_000 + 1)
    return np.concatenate(
        [np.exp(-_squares(part, marks) / (2 * width or 1.0)).mean(axis=1, dtype=np.float64) for part in parts]
    )


def _space(matrix: Matrix) -> NDArray[np.float32]:
    """Rows as points: columns at one scale, the mean for what is missing, categories as corners."""
    categorical = [name in matrix.categorical for name in matrix.names]
    numbers = matrix.values[:, ~np.array(categorical)]
    known = ~np.isnan(numbers)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, numbers, 0).sum(axis=0, dtype=np.float64) / count
    away = np.where(known, numbers - mean, 0)
    spread = np.sqrt((away**2).sum(axis=0) / count)
    away /= np.where(spread > 0, spread, 1.0)
    blocks = [np.clip(away, -FARTHEST, FARTHEST, out=away).astype(np.float32)]
    for place in np.flatnonzero(categorical):
        codes = matrix.values[:, place]
        # Two categories are one spread apart; a missing one is no category, so nearer to all.
        corners = codes[:, None] == np.unique(codes[~np.isnan(codes)])
        blocks.append((corners / np.sqrt(2)).astype(np.float32))
    return np.hstack(blocks)


def _squares(points: NDArray[np.float32], marks: NDArray[np.float32]) -> NDArray[np.float32]:
    """Squared distances of every point to every mark."""
    lengths = (points**2).sum(axis=1)[:, None] + (marks**2).sum(axis=1)
    return np.asarray(np.maximum(lengths - 2 * points @ marks.T, 0))


def _p(model: FittedModel, matrix: Matrix) -> NDArray[np.float64]:
    return probabilities(model.margins(matrix))
