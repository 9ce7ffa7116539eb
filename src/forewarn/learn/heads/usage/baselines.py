"""What needs no model: what was asked, and what the same user's jobs took before.

Everything is computed from jobs whose ending was known strictly before the moment of the job: the last one
submitted is not the last one known. Where a rule has no answer the next one gives it: the user's jobs of the
same name, the user's jobs, what was asked, the median of all that was known.
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
NEAREST = 256  # of a user's latest jobs, among which the most similar is looked for
_REQUEST = ("cpus", "nodes", "tasks", "gpus", "time_limit", "memory")  # features, as logarithms
_WHAT = ("partition", "qos", "label")  # columns of `about`: the same or not


def medians(table: JobTable, values: Floats, keys: Ints, rows: Ints) -> Floats:
    """The median of what was known of jobs with the same key; NaN where nothing was."""
    seen: dict[int, list[float]] = defaultdict(list)

    def learn(job: int) -> None:
        if np.isfinite(values[job]):
            insort(seen[keys[job]], float(values[job]))

    def answer(job: int) -> float:
        return _middle(seen[keys[job]]) if keys[job] >= 0 else np.nan

    return _walked(table, keys, rows, learn, answer)


def last_two(table: JobTable, values: Floats, keys: Ints, rows: Ints) -> Floats:
    """The mean of the last two that had become known (Tsafrir, Etsion and Feitelson, 2007)."""
    seen: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=2))

    def learn(job: int) -> None:
        if np.isfinite(values[job]):
            seen[keys[job]].append(float(values[job]))

    def answer(job: int) -> float:
        found = seen[keys[job]]
        return sum(found) / len(found) if found and keys[job] >= 0 else np.nan

    return _walked(table, keys, rows, learn, answer)


def most_similar(table: JobTable, values: Floats, rows: Ints) -> Floats:
    """What the user's earlier job with the most similar request took, by the cosine of the two (DSN'20).

    A request is its numbers as logarithms, each within its range, and a place for every partition, QOS and
    name. Of equally similar ones the latest counts.
    """
    users = codes(table, "user")
    numbers, what = _requests(table)
    lengths = np.sqrt((numbers**2).sum(axis=1) + (what >= 0).sum(axis=1))
    seen: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=NEAREST))

    def learn(job: int) -> None:
        if np.isfinite(values[job]):
            seen[users[job]].append(job)

    def answer(job: int) -> float:
        if users[job] < 0 or not seen[users[job]]:
            return np.nan
        earlier = np.array(seen[users[job]])
        same = ((what[earlier] == what[job]) & (what[job] >= 0)).sum(axis=1)
        cosine = (numbers[earlier] @ numbers[job] + same) / (lengths[earlier] * lengths[job] + 1e-12)
        return float(values[earlier[len(earlier) - 1 - int(cosine[::-1].argmax())]])

    return _walked(table, users, rows, learn, answer)


def first_known(*answers: Floats) -> Floats:
    """Of several rules the first that has an answer, job by job."""
    made = answers[0].astype(np.float64)
    for other in answers[1:]:
        made = np.where(np.isfinite(made), made, other)
    return made


def codes(table: JobTable, *names: str) -> Ints:
    """A number for each combination of some columns; -1 where one of them is missing."""
    about = table.about.select(names)
    missing = about.select(pl.any_horizontal(pl.all().is_null())).to_series().to_numpy()
    ranks = about.select(pl.struct(names).rank("dense").cast(pl.Int64)).to_series().to_numpy()
    return np.where(missing, -1, ranks)


def _walked(
    table: JobTable, keys: Ints, rows: Ints, learn: Callable[[int], None], answer: Callable[[int], float]
) -> Floats:
    """Ask of the rows in order of their moments, after all has been learnt that was known before each."""
    made = np.full(len(rows), np.nan)
    ended = np.flatnonzero((table.known >= 0) & np.isin(keys, keys[rows]))  # no other key is asked for
    known = iter(ended[np.argsort(table.known[ended], kind="stable")].tolist())
    following = next(known, None)
    for place in np.argsort(table.moment[rows], kind="stable").tolist():
        job = int(rows[place])
        while following is not None and table.known[following] < table.moment[job]:
            learn(following)
            following = next(known, None)
        made[place] = answer(job)
    return made


def _requests(table: JobTable) -> tuple[Floats, Ints]:
    parts: list[Floats] = list(_scaled(table))
    numbers = np.stack(parts, axis=1) if parts else np.zeros((len(table.values), 0))
    return numbers, np.stack([codes(table, name) for name in _WHAT], axis=1)


def _scaled(table: JobTable) -> Iterator[Floats]:
    for name in _REQUEST:
        column = np.log2(np.maximum(table.column(name).astype(np.float64), 0) + 1)
        there = column[np.isfinite(column)]
        if len(there) and there.max() > 0:
            yield np.nan_to_num(column / there.max())


def _middle(found: list[float]) -> float:
    if not found:
        return np.nan
    half = len(found) // 2
    return found[half] if len(found) % 2 else (found[half - 1] + found[half]) / 2
