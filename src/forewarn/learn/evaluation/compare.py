"""A comparison of all ways to balance the classes on one log, as in Table I of papers/001.

All models are fitted with the same parameters and rounds on the same jobs, and evaluated on the same later
ones: only the balancing differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.data.active import RANDOM_CHOICES, ROUNDS, active_learning
from forewarn.learn.data.assembly import Assembly
from forewarn.learn.data.imbalance import BALANCINGS, balance
from forewarn.learn.data.matrix import Sample
from forewarn.learn.data.split import Split, check, settled_rows
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.metrics import at_threshold, ranking
from forewarn.learn.families.base import FittedModel, ModelFamily, Params, probabilities
from forewarn.learn.fitting.thresholds import choose_threshold

WAYS = (*BALANCINGS, "active", "random")
MEASURES = ("precision", "recall", "f1")


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
    """Compare each of `WAYS`: what the model learnt from, and how good it was on the test block.

    `at_0_5` is the papers' threshold, `at_validation` the one with the best F1 on the search block, which
    also evaluates the rounds of active learning. `random` has the mean of its choices, and under `spread`
    their standard deviations.
    """
    train = settled_rows(table, split.train, split.cuts[0])
    validation_rows = settled_rows(table, split.search, split.cuts[2])
    check(table, "train", train)
    check(table, "search", validation_rows)
    assembly = Assembly.fit(table, train, feature_set)
    sample, validation, test = (assembly.sample(table, rows) for rows in (train, validation_rows, split.test))
    params = params or {}
    total = len(BALANCINGS) + ROUNDS + 1 + RANDOM_CHOICES

    entries = []
    for number, way in enumerate(BALANCINGS):
        balanced_sample = balance(sample, way, seed=seed)
        model = family.fit(balanced_sample, params, seed=seed, threads=threads)
        entries.append({"way": way} | _learnt_from(balanced_sample) | _evaluate(model, validation, test))
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
    entries.append(
        {"way": "active"}
        | _learnt_from(sample.rows(chosen.rows))
        | _evaluate(chosen.model, validation, test)
        | {"rounds": chosen.to_json()}
    )
    random_figures = [_evaluate(choice.model, validation, test) for choice in chosen.random]
    entries.append(
        {"way": "random"}
        | _learnt_from(sample.rows(chosen.random[0].rows))
        | _reduce(random_figures, np.mean)
        | {"choices": len(random_figures), "spread": _reduce(random_figures, np.std)}
    )
    return entries


def _learnt_from(sample: Sample) -> dict[str, Any]:
    return {"jobs": len(sample), "failed": int(sample.fails.sum())}


def _evaluate(model: FittedModel, validation: Sample, test: Sample) -> dict[str, Any]:
    p = probabilities(model.margins(test.matrix))
    threshold = choose_threshold(
        "f1", probabilities(model.margins(validation.matrix)), validation.fails
    ).value
    ranked = ranking(test.fails, p)
    return {
        "roc_auc": ranked["roc_auc"],
        "pr_auc": ranked["pr_auc"],
        "at_0_5": _at(0.5, p, test.fails),
        "at_validation": _at(threshold, p, test.fails),
    }


def _at(threshold: float, p: NDArray[np.float64], fails: NDArray[np.float64]) -> dict[str, Any]:
    figures = at_threshold(fails, p >= threshold)
    return {
        "threshold": threshold,
        "accuracy": figures["accuracy"],
        "failed": {measure: figures[measure] for measure in MEASURES},
        "completed": figures["completed"],
    }


def _reduce(entries: Sequence[dict[str, Any]], statistic: Callable[[list[float]], Any]) -> dict[str, Any]:
    """Reduce the same figures of several entries to one entry by a statistic.

    >>> _reduce([{"a": 1.0, "b": {"c": 2.0}}, {"a": 3.0, "b": {"c": 2.0}}], np.mean)
    {'a': 2.0, 'b': {'c': 2.0}}
    """
    return {
        name: _reduce([entry[name] for entry in entries], statistic)
        if isinstance(value, dict)
        else float(statistic([entry[name] for entry in entries]))
        for name, value in entries[0].items()
    }
