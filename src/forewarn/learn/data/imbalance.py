"""Few failures among many good ends: ways to give both the same say in training.

Only ever for a train part: what a model is judged on stays as it came.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import MissingExtraError, NotEnoughError, UsageError
from forewarn.learn.data.matrix import Matrix, Sample

BALANCINGS = ("none", "weights", "oversample", "smote")
NEIGHBOURS = 5  # of SMOTE, as its authors had it
# SMOTE compares all rows of the rarer class with each other and holds the neighbours of all that it makes:
# beyond this it would take minutes and gigabytes.
MOST_COMPARED = 10_000
MOST_MADE = 30_000


def balanced(train: Sample, how: str, *, seed: int) -> Sample:
    """The sample with both classes of the same weight, or as it is for ``none``.

    `weights`: rows of the rarer class weigh more. `oversample`: they are there several times, chosen at
    random. `smote`: rows are made between neighbours of the rarer class.
    """
    if how not in BALANCINGS:
        raise UsageError(f"imbalance: no way {how!r}; there are {', '.join(BALANCINGS)}")
    failed = int(train.fails.sum())
    if failed in (0, len(train)):
        raise NotEnoughError(
            f"all {len(train):,} jobs to learn from {'failed' if failed else 'ended well'}: "
            "there is nothing to balance"
        )
    if how == "none" or (2 * failed == len(train) and how != "weights"):
        return train
    if how == "weights":
        return _weighed(train)
    return _oversampled(train, seed) if how == "oversample" else _smote(train, seed)


def _weighed(train: Sample) -> Sample:
    of_class = np.bincount(train.fails.astype(np.intp), train.weights)
    factors = of_class.sum() / 2 / of_class
    return replace(train, weights=train.weights * factors[train.fails.astype(np.intp)])


def _oversampled(train: Sample, seed: int) -> Sample:
    sampler = _samplers().RandomOverSampler(random_state=seed)
    sampler.fit_resample(np.zeros((len(train), 1)), train.fails)
    return train.rows(sampler.sample_indices_)


def _smote(train: Sample, seed: int) -> Sample:
    """The sample with made rows after it.

    Neighbours are sought among columns brought to one scale, else bytes would outweigh everything, and with
    medians of this sample where a value is missing; a missing category is a category. The rows that were
    there keep what they lack. A made row lacks what the real row nearest to it lacks: were it complete, a
    tree would learn that complete rows fail, and on CTC-SP2 that costs 0.007 of the ROC-AUC.

    Above `MOST_COMPARED` rows of the rarer class, a random choice of them is compared. Above `MOST_MADE`
    rows to make, that many are made, and each weighs more.
    """
    random = np.random.default_rng(seed)
    rarer = float(train.fails.mean() <= 0.5)
    rows = np.flatnonzero(train.fails == rarer)
    if len(rows) < 2:
        raise NotEnoughError(
            f"SMOTE makes rows between two {'failed' if rarer else 'completed'} jobs, and there is "
            f"{len(rows)} among the {len(train):,} to learn from. Ingest more history, or balance by weights"
        )
    lacking = len(train) - 2 * len(rows)
    if len(rows) > MOST_COMPARED:
        rows = np.sort(random.choice(rows, MOST_COMPARED, replace=False))
    made = _made(train.matrix, rows, min(lacking, MOST_MADE), seed)
    weight = train.weights[rows].mean() * lacking / len(made)
    return Sample(
        replace(train.matrix, values=np.vstack([train.matrix.values, made])),
        np.append(train.fails, np.full(len(made), rarer)),
        np.append(train.weights, np.full(len(made), weight)),
    )


def _made(matrix: Matrix, rows: NDArray[np.intp], count: int, seed: int) -> NDArray[np.float32]:
    """New rows between some of a matrix."""
    from sklearn.neighbors import NearestNeighbors

    categorical = np.array([name in matrix.categorical for name in matrix.names])
    if categorical.all():
        raise NotEnoughError("SMOTE needs a column of numbers, and there are categories only")
    middle, spread = _scale(matrix.values[:, ~categorical])
    numbers, codes = matrix.values[rows][:, ~categorical], matrix.values[rows][:, categorical]
    missing = np.isnan(numbers)
    scaled = np.where(missing, 0, (numbers - middle) / spread)
    unknown = np.nanmax(codes, initial=0) + 1
    coded = np.where(np.isnan(codes), unknown, codes)

    made = _between(scaled, coded, count, seed)
    made_numbers, made_codes = made[:, : scaled.shape[1]], made[:, scaled.shape[1] :]
    nearest = NearestNeighbors(n_neighbors=1).fit(scaled).kneighbors(made_numbers, return_distance=False)
    result = np.empty((count, len(matrix.names)), np.float32)
    result[:, ~categorical] = np.where(missing[nearest[:, 0]], np.nan, made_numbers * spread + middle)
    result[:, categorical] = np.where(made_codes == unknown, np.nan, made_codes)
    return result


def _scale(values: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The median of each column, which also stands for what is missing, and its spread."""
    empty = np.isnan(values).all(axis=0)
    known = np.where(empty, 0, values).astype(np.float64)
    spread = np.nanstd(known, axis=0)
    return np.nanmedian(known, axis=0), np.where(spread > 0, spread, 1.0)


def _between(
    numbers: NDArray[np.float64], codes: NDArray[np.float64], count: int, seed: int
) -> NDArray[np.float64]:
    """Rows between neighbours: numbers in between, the category that most neighbours have."""
    samplers = _samplers()
    settings = {"k_neighbors": min(NEIGHBOURS, len(numbers) - 1), "random_state": seed}
    width, categories = numbers.shape[1], codes.shape[1]
    sampler = (
        samplers.SMOTENC([*range(width, width + categories)], **settings)
        if categories
        else samplers.SMOTE(**settings)
    )
    rows = np.hstack([numbers, codes])
    # Of the other class only the number of rows matters: any will do.
    others = rows[:1].repeat(len(rows) + count, axis=0)
    known = np.vstack([rows, others])
    result, _ = sampler.fit_resample(known, np.repeat([1, 0], [len(rows), len(others)]))
    return np.asarray(result[len(known) :], np.float64)


def _samplers() -> Any:
    try:
        from imblearn import over_sampling
    except ImportError:
        raise MissingExtraError(
            "this way to balance needs imbalanced-learn: pip install 'forewarn[train]'"
        ) from None
    return over_sampling
