"""Simple rules to compare forecasts with: the request, and what the same user's jobs used before.

Everything is computed from jobs whose end was known strictly before the moment of the job: the last one
submitted is not the last one known. Where a rule has no answer the next one is used: the user's jobs of the
same name, the user's jobs, the request, the median of all jobs.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from forewarn.learn.data.table import JobTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NEAREST = 256  # of a user's latest jobs, among which the most similar is searched
_REQUEST = ("cpus", "nodes", "tasks", "gpus", "time_limit", "memory")  # features, as logarithms
_CATEGORIES = ("partition", "qos", "label")  # columns of `about`: equal or not


def medians(table: JobTable, values: Floats, keys: Ints, rows: Ints) -> Floats:
    """Compute the median of the known values of jobs with the same key; NaN where there are none."""
    values_by_key: dict[int, list[float]] = defaultdict(list)

    def learn(job: int) -> None:
        if np.isfinite(values[job]):
            insort(values_by_key[keys[job]], float(values[job]))

    def predict(job: int) -> float:
        return _median(values_by_key[keys[job]]) if keys[job] >= 0 else np.nan

    return _replay(table, keys, rows, learn, predict)


def last_two(table: JobTable, values: Floats, keys: Ints, rows: Ints) -> Floats:
    """Compute the mean of the last two values that had become known (Tsafrir, Etsion and Feitelson, 2007)."""
    values_by_key: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=2))

    def learn(job: int) -> None:
        if np.isfinite(values[job]):
            values_by_key[keys[job]].append(float(values[job]))

    def predict(job: int) -> float:
        last = values_by_key[keys[job]]
        return sum(last) / len(last) if last and keys[job] >= 0 else np.nan

    return _replay(table, keys, rows, learn, predict)


def most_similar(table: JobTable, values: Floats, rows: Ints) -> Floats:
    """Return the value of the user's earlier job with the most similar request, by their cosine (DSN'20).

    A request is its numbers as logarithms, each scaled to its range, and one dimension for every partition,
    QOS and name. Of equally similar jobs the latest is used.
    """
    users = codes(table, "user")
    numbers, categories = _requests(table)
    lengths = np.sqrt((numbers**2).sum(axis=1) + (categories >= 0).sum(axis=1))
    jobs_by_user: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=NEAREST))

    def learn(job: int) -> None:
        if np.isfinite(values[job]):
            jobs_by_user[users[job]].append(job)

    def predict(job: int) -> float:
        if users[job] < 0 or not jobs_by_user[users[job]]:
            return np.nan
        earlier = np.array(jobs_by_user[users[job]])
        same = ((categories[earlier] == categories[job]) & (categories[job] >= 0)).sum(axis=1)
        cosine = (numbers[earlier] @ numbers[job] + same) / (lengths[earlier] * lengths[job] + 1e-12)
        return float(values[earlier[len(earlier) - 1 - int(cosine[::-1].argmax())]])

    return _replay(table, users, rows, learn, predict)


def first_known(*predictions: Floats) -> Floats:
    """Return, for each job, the prediction of the first of several rules that has one."""
    combined = predictions[0].astype(np.float64)
    for other in predictions[1:]:
        combined = np.where(np.isfinite(combined), combined, other)
    return combined


def codes(table: JobTable, *names: str) -> Ints:
    """Assign a number to each combination of some columns; -1 where one of them is missing."""
    about = table.about.select(names)
    missing = about.select(pl.any_horizontal(pl.all().is_null())).to_series().to_numpy()
    ranks = about.select(pl.struct(names).rank("dense").cast(pl.Int64)).to_series().to_numpy()
    return np.where(missing, -1, ranks)


def _replay(
    table: JobTable, keys: Ints, rows: Ints, learn: Callable[[int], None], predict: Callable[[int], float]
) -> Floats:
    """Predict the rows in order of time, each after learning from all jobs whose end was known before it."""
    predictions = np.full(len(rows), np.nan)
    ended = np.flatnonzero((table.known_at >= 0) & np.isin(keys, keys[rows]))  # other keys are not needed
    known = iter(ended[np.argsort(table.known_at[ended], kind="stable")].tolist())
    following = next(known, None)
    for place in np.argsort(table.at[rows], kind="stable").tolist():
        job = int(rows[place])
        while following is not None and table.known_at[following] < table.at[job]:
            learn(following)
            following = next(known, None)
        predictions[place] = predict(job)
    return predictions


def _requests(table: JobTable) -> tuple[Floats, Ints]:
    parts: list[Floats] = list(_scaled(table))
    numbers = np.stack(parts, axis=1) if parts else np.zeros((len(table.values), 0))
    return numbers, np.stack([codes(table, name) for name in _CATEGORIES], axis=1)


def _scaled(table: JobTable) -> Iterator[Floats]:
    for name in _REQUEST:
        column = np.log2(np.maximum(table.column(name).astype(np.float64), 0) + 1)
        known = column[np.isfinite(column)]
        if len(known) and known.max() > 0:
            yield np.nan_to_num(column / known.max())


def _median(ordered: list[float]) -> float:
    if not ordered:
        return np.nan
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
