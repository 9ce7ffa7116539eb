"""Active learning in rounds (papers/001): learn from the most informative jobs instead of all.

Each round fits a model on the jobs chosen so far, judges it on the validation rows, and adds the jobs with
the highest uncertainty × density of their region. The best round is the result. For comparison, models are
fitted on random choices of the same number of jobs, with several seeds.
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
PATIENCE = 5  # rounds without improvement after which to stop, once a round was better than chance
SHARE = 0.025  # of the pool that a round adds; the start is twice that
FEWEST = 100  # jobs that a round adds at least
RANDOM_CHOICES = 5
LANDMARKS = 512  # jobs to which a job is compared for the density of its region
FARTHEST = 3.0  # standard deviations at which distances from the mean are clipped


@dataclass(frozen=True, slots=True)
class LearningRound:
    """The size of a round's sample, and the quality of its model."""

    jobs: int
    failed: int
    pr_auc: float  # on the validation rows


@dataclass(frozen=True, slots=True)
class RandomChoice:
    """A random choice of as many jobs, and the model fitted on it."""

    rows: NDArray[np.intp]
    pr_auc: float
    model: FittedModel


@dataclass(frozen=True, slots=True)
class ActiveResult:
    """The jobs chosen up to the best round, and the history of all rounds."""

    rows: NDArray[np.intp]  # of the pool, in its order
    best_round: int  # 0 is the start
    model: FittedModel
    history: tuple[LearningRound, ...]
    random: tuple[RandomChoice, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the form that the report stores.

        The round was chosen on the validation rows, so its PR-AUC there is optimistic: see the test block.
        """
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
    """Choose jobs from the pool in rounds of `batch`, starting with a stratified sample of twice as many.

    All models are fitted for ``params["rounds"]`` of boosting: early stopping on the same rows that judge the
    rounds would favour lucky ones.
    """
    if rounds < 0 or (batch is not None and batch < 1):
        raise UsageError(f"active learning: rounds ({rounds}) and batch ({batch}) must be positive")
    for name, sample in (("pool", pool), ("validation", validation)):
        if sample.fails.sum() in (0, len(sample)):
            raise NotEnoughError(f"active learning: the {name} has {len(sample):,} jobs of one class only")
    batch = batch or max(FEWEST, round(len(pool) * SHARE))
    total = rounds + 1 + random_choices

    def fit(rows: NDArray[np.intp]) -> tuple[FittedModel, float]:
        model = family.fit(pool.rows(rows), params, seed=seed, threads=threads)
        return model, ScoredPredictions(validation.fails, _p(model, validation.matrix)).pr_auc()

    dense = density(pool.matrix, seed=seed)
    rows = stratified(pool, 2 * batch, seed=seed)
    history: list[LearningRound] = []
    # The PR-AUC of a constant model: the first rounds may have too few jobs for anything better.
    chance = float(validation.fails.mean()) + 1e-9
    best_round, best_rows, best_model, best_score = 0, rows, None, -np.inf
    for number in range(rounds + 1):
        model, score = fit(rows)
        history.append(LearningRound(len(rows), int(pool.fails[rows].sum()), score))
        progress(number + 1, total)
        if score > best_score:
            best_round, best_rows, best_model, best_score = number, rows, model, score
        rest = np.setdiff1d(np.arange(len(pool)), rows)
        if not len(rest) or (best_score > chance and number - best_round >= patience):
            break
        uncertainty = 1 - np.abs(2 * _p(model, pool.matrix.rows(rest)) - 1)
        most_informative = np.argsort(-uncertainty * dense[rest], kind="stable")[:batch]
        rows = np.union1d(rows, rest[most_informative])
    assert best_model is not None  # round 0 always exists, and its score is a number

    choices = []
    for number in range(random_choices):
        rows = stratified(pool, len(best_rows), seed=seed + 1 + number)
        model, score = fit(rows)
        choices.append(RandomChoice(rows, score, model))
        progress(rounds + 2 + number, total)
    return ActiveResult(best_rows, best_round, best_model, tuple(history), tuple(choices))


def stratified(pool: Sample, count: int, *, seed: int) -> NDArray[np.intp]:
    """Choose rows at random, keeping the share of failures, with at least one job of each class."""
    random = np.random.default_rng(seed)
    failed, good = (random.permutation(np.flatnonzero(pool.fails == value)) for value in (1, 0))
    count = min(count, len(pool))
    failed_count = int(np.clip(round(count * len(failed) / len(pool)), 1, len(failed)))
    good_count = min(max(count - failed_count, 1), len(good))
    return np.sort(np.concatenate([failed[:failed_count], good[:good_count]]))


def density(matrix: Matrix, *, seed: int) -> NDArray[np.float64]:
    """Compute the density around each row, from 0 to 1: its mean similarity to a random choice of rows.

    The similarity is a Gaussian kernel as wide as the median distance. A clustering would need a number of
    clusters and have edges; the nearest neighbours of every row take minutes at 200,000 rows, this takes
    seconds.
    """
    points = _points(matrix)
    random = np.random.default_rng(seed)
    landmarks = points[np.sort(random.choice(len(points), min(LANDMARKS, len(points)), replace=False))]
    width = np.median(_squared_distances(landmarks, landmarks))
    densities = []
    for part in np.array_split(points, len(points) // 20_000 + 1):
        similarity = np.exp(-_squared_distances(part, landmarks) / (2 * width or 1.0))
        densities.append(similarity.mean(axis=1, dtype=np.float64))
    return np.concatenate(densities)


def _points(matrix: Matrix) -> NDArray[np.float32]:
    """Turn rows into points: numbers standardised, the mean for missing values, categories one-hot."""
    categorical = [name in matrix.categorical for name in matrix.names]
    numbers = matrix.values[:, ~np.array(categorical)]
    present = ~np.isnan(numbers)
    count = np.maximum(present.sum(axis=0), 1)
    mean = np.where(present, numbers, 0).sum(axis=0, dtype=np.float64) / count
    deviations = np.where(present, numbers - mean, 0)
    spread = np.sqrt((deviations**2).sum(axis=0) / count)
    deviations /= np.where(spread > 0, spread, 1.0)
    blocks = [np.clip(deviations, -FARTHEST, FARTHEST, out=deviations).astype(np.float32)]
    for place in np.flatnonzero(categorical):
        codes = matrix.values[:, place]
        # Two categories are one standard deviation apart; a missing one is nearer to all of them.
        one_hot = codes[:, None] == np.unique(codes[~np.isnan(codes)])
        blocks.append((one_hot / np.sqrt(2)).astype(np.float32))
    return np.hstack(blocks)


def _squared_distances(points: NDArray[np.float32], landmarks: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute the squared distance of every point to every landmark."""
    lengths = (points**2).sum(axis=1)[:, None] + (landmarks**2).sum(axis=1)
    return np.asarray(np.maximum(lengths - 2 * points @ landmarks.T, 0))


def _p(model: FittedModel, matrix: Matrix) -> NDArray[np.float64]:
    return probabilities(model.margins(matrix))
