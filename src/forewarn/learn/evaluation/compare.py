"""Every way to deal with few failures on one log, in one table, as Table I of papers/001.

All are fitted with the same params for the same rounds on the same jobs, and judged on the same later
ones: what differs is the balancing alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.active import RANDOM_CHOICES, ROUNDS, active_learning
from forewarn.learn.data.assembly import Assembly
from forewarn.learn.data.imbalance import BALANCINGS, balanced
from forewarn.learn.data.matrix import Sample
from forewarn.learn.data.split import Split, check, settled
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.metrics import at_threshold, ranking
from forewarn.learn.families.base import FittedModel, ModelFamily, Params, probabilities
from forewarn.learn.fitting.thresholds import choose

WAYS = (*BALANCINGS, "active", "random")
MEASURES = ("precision", "recall", "f1")
Judge = Callable[[FittedModel], dict[str, Any]]


def compare(
    table: JobTable,
    split: Split,
    family: ModelFamily,
    params: Params | None = None,
    *,
    feature_set: str,
    seed: int,
    threads: int,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[dict[str, Any]]:
    """One entry for each of `WAYS`: what it learnt from, and how good it was on the test block.

    `at_0_5` is the papers' threshold, `at_validation` the one with the best F1 on the search block, which
    also judges the rounds of active learning. `random` has the mean of its choices, and under `spread`
    their standard deviations.
    """
    train = settled(table, split.train, split.cuts[0])
    held = settled(table, split.search, split.cuts[2])
    check(table, "train", train)
    check(table, "search", held)
    assembly = Assembly.fit(table, train, feature_set)
    sample, validation, test = (assembly.sample(table, rows) for rows in (train, held, split.test))
    params = params or {}
    total = len(BALANCINGS) + ROUNDS + 1 + RANDOM_CHOICES

    found = []
    for number, how in enumerate(BALANCINGS):
        made = balanced(sample, how, seed=seed)
        model = family.fit(made, params, seed=seed, threads=threads)
        found.append({"way": how} | _learnt_from(made) | _judged(model, validation, test))
        progress(number + 1, total)

    chosen = active_learning(
        family,
        params,
        sample,
        validation,
        seed=seed,
        threads=threads,
        progress=lambda done, _: progress(len(BALANCINGS) + done, total),
    )
    found.append(
        {"way": "active"}
        | _learnt_from(sample.rows(chosen.rows))
        | _judged(chosen.model, validation, test)
        | {"rounds": chosen.to_json()}
    )
    by_chance = [_judged(choice.model, validation, test) for choice in chosen.random]
    found.append(
        {"way": "random"}
        | _learnt_from(sample.rows(chosen.random[0].rows))
        | _over(by_chance, np.mean)
        | {"choices": len(by_chance), "spread": _over(by_chance, np.std)}
    )
    return found


def _learnt_from(sample: Sample) -> dict[str, Any]:
    return {"jobs": len(sample), "failed": int(sample.fails.sum())}


def _judged(model: FittedModel, validation: Sample, test: Sample) -> dict[str, Any]:
    p = probabilities(model.margins(test.matrix))
    threshold = choose("f1", probabilities(model.margins(validation.matrix)), validation.fails).value
    ranked = ranking(test.fails, p)
    return {
        "roc_auc": ranked["roc_auc"],
        "pr_auc": ranked["pr_auc"],
        "at_0_5": _at(0.5, p, test.fails),
        "at_validation": _at(threshold, p, test.fails),
    }


def _at(threshold: float, p: NDArray[np.float64], fails: NDArray[np.float64]) -> dict[str, Any]:
    judged = at_threshold(fails, p >= threshold)
    return {
        "threshold": threshold,
        "accuracy": judged["accuracy"],
        "failed": {measure: judged[measure] for measure in MEASURES},
        "completed": judged["completed"],
    }


def _over(entries: Sequence[dict[str, Any]], statistic: Callable[[list[float]], Any]) -> dict[str, Any]:
    """The same figures of several entries as one, by a statistic.

    >>> _over([{"a": 1.0, "b": {"c": 2.0}}, {"a": 3.0, "b": {"c": 2.0}}], np.mean)
    {'a': 2.0, 'b': {'c': 2.0}}
    """
    return {
        name: _over([entry[name] for entry in entries], statistic)
        if isinstance(value, dict)
        else float(statistic([entry[name] for entry in entries]))
        for name, value in entries[0].items()
    }
