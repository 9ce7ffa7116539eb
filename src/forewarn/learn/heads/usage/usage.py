"""The usage head: forecasts of run time, memory, CPU efficiency and I/O rate."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import BundleError
from forewarn.job.outcomes import Outcome
from forewarn.learn.data.matrix import Rows, places_of
from forewarn.learn.data.split import settled_rows
from forewarn.learn.data.table import JobTable
from forewarn.learn.heads.usage.distributions import Distributions, UsageForecast
from forewarn.learn.heads.usage.hazard import Examples, Hazard, best_columns
from forewarn.learn.heads.usage.history import HISTORY, history, needs_user_history
from forewarn.learn.heads.usage.quantities import (
    QUANTITIES,
    SOURCE_FEATURES,
    Quantity,
    Target,
    anchors,
    limits_are_enforced,
    targets,
    units_per_node,
)
from forewarn.learn.heads.usage.recalibration import Recalibration

FACTS = "usage.json"
MOST_JOBS = 40_000  # the latest are learnt from: older ones are less informative, and cost as much
LIMIT = "time_limit"
FORGOTTEN = 0.15  # share of the jobs learnt from whose user's earlier jobs are treated as unknown
FEWEST = 200  # exact values below which a quantity is not learnt
Cuts = tuple[int, int, int]
# By quantity, the usage of the same user's earlier jobs: the columns of `HISTORY`, one row per job.
Earlier = Mapping[str, Mapping[str, NDArray[np.float64]]]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class QuantityModel:
    """The model of one quantity."""

    quantity: Quantity
    columns: tuple[str, ...]
    anchors: tuple[str, ...]
    hazard: Hazard
    recalibration: Recalibration
    jobs: int  # learnt from
    limited: bool = False  # run time, on a cluster that enforces time limits

    @property
    def uses_user_history(self) -> bool:
        """Check whether it uses the usage of the user's earlier jobs."""
        return not set(HISTORY).isdisjoint((*self.columns, *self.anchors))

    def forecast(self, part: JobTable, derived: Mapping[str, NDArray[Any]]) -> Distributions:
        """Forecast jobs of a table, for which these other columns are known, too."""
        columns = _select_columns(part, derived, self.columns).astype(np.float32)
        anchors = self.quantity.scale(_select_columns(part, derived, self.anchors)).astype(np.float32)
        below = self.hazard.below(columns, anchors)
        distributions = Distributions(self.quantity, self.hazard.borders, below, self.recalibration)
        if self.limited:
            return distributions.halve_beyond(part.column(LIMIT).astype(np.float64))
        return distributions


@dataclass(frozen=True, slots=True)
class Usage:
    """The models of the quantities that a cluster's history contains; at least one."""

    parts: Mapping[str, QuantityModel]

    @classmethod
    def fit(
        cls,
        table: JobTable,
        cuts: Cuts,
        features: tuple[str, ...],
        *,
        seed: int,
        threads: int,
        only: Collection[str] = tuple(QUANTITIES),
    ) -> Self | None:
        """Learn from these features of a table; None where its history contains no usage."""
        pair = cls.fit_twice(table, cuts, features, seed=seed, threads=threads, only=only)
        return pair and pair[1]

    @classmethod
    def fit_twice(
        cls,
        table: JobTable,
        cuts: Cuts,
        features: tuple[str, ...],
        *,
        seed: int,
        threads: int,
        only: Collection[str] = tuple(QUANTITIES),
    ) -> tuple[Self, Self] | None:
        """Learn from the same blocks as the model of failure, without the block `calibrate` and with it.

        Trees are fitted on the first block, with the number of rounds that is best on the second; the third
        recalibrates them: that is the first result, to be evaluated on the third. Then the trees are fitted
        again on all three.
        """
        columns = columns_of(table, features)
        first: dict[str, QuantityModel] = {}
        last: dict[str, QuantityModel] = {}
        for name, target in targets(table).items():
            if name not in only:
                continue
            quantity, rows = QUANTITIES[name], _latest(blocks(table, target, cuts))
            own_columns = columns
            knows_users = any(feature.startswith("user_") for feature in features)
            if knows_users and needs_user_history(quantity, table):
                own_columns = columns | _history_with_gaps(table, target, rows, seed)
            pair = _fit(quantity, target, own_columns, rows, seed, threads)
            if pair is not None:
                first[name], last[name] = pair
        return (cls(first), cls(last)) if last else None

    def is_enforced(self, outcome: str) -> bool:
        """Check whether this cluster ends jobs so that exceed their request, as far as usage shows."""
        run_time = self.parts.get("run_time")
        return outcome != str(Outcome.TIMEOUT) or (run_time is not None and run_time.limited)

    def forecast(
        self,
        table: JobTable,
        rows: Rows | None = None,
        *,
        only: Collection[str] = tuple(QUANTITIES),
        earlier: Earlier | None = None,
    ) -> UsageForecast:
        """Forecast some jobs of a table (by default all), each at its own moment.

        Most inputs are in their own rows. CPU efficiency and I/O rate also use the same user's earlier jobs,
        which are in the table's other rows, or are passed for these rows as `earlier`: a table of live jobs
        has no others. The forecasts of a user without earlier jobs are wider.
        """
        which = np.arange(len(table.values)) if rows is None else np.asarray(rows)
        part = table if rows is None else table.rows(which)
        derived = anchors(part)
        all_live = earlier is None and bool((table.known_at < 0).all())
        all_targets = {} if all_live or earlier is not None else targets(table)
        distributions = {}
        for name, model in self.parts.items():
            if name not in only:
                continue
            user_history: dict[str, NDArray[Any]] = {}
            if model.uses_user_history and earlier is not None:
                user_history = dict(earlier[name])
            elif model.uses_user_history and all_live:
                user_history = dict.fromkeys(HISTORY, np.full(len(which), np.nan))
            elif model.uses_user_history:
                columns = history(table, all_targets[name], which)
                user_history = {column: values[which] for column, values in columns.items()}
            distributions[name] = model.forecast(part, derived | user_history)
        return UsageForecast(
            **{name: distributions.get(name) for name in QUANTITIES},
            units_per_node=units_per_node(part),
            rests_on={name: model.jobs for name, model in self.parts.items() if name in only},
        )

    @property
    def history_quantities(self) -> tuple[str, ...]:
        """List the quantities that use the usage of the user's earlier jobs, beside the features."""
        return tuple(name for name, part in self.parts.items() if part.uses_user_history)

    def save(self, folder: Path) -> None:
        """Write JSON and the boosters' native files into a folder that exists."""
        facts = {
            name: {
                "columns": list(part.columns),
                "anchors": list(part.anchors),
                "levels": part.recalibration.to_json(),
                "jobs": part.jobs,
                "limited": part.limited,
                "hazard": part.hazard.save(folder / f"{name}.ubj"),
            }
            for name, part in self.parts.items()
        }
        (folder / FACTS).write_text(json.dumps(facts, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load what was saved. Raises `BundleError` for anything else."""
        try:
            facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
            parts = {}
            for name, value in facts.items():
                columns, own_anchors = tuple(value["columns"]), tuple(value["anchors"])
                file = folder / f"{QUANTITIES[name].name}.ubj"
                parts[name] = QuantityModel(
                    QUANTITIES[name],
                    columns,
                    own_anchors,
                    Hazard.load(file, value["hazard"], len(columns) + 1 + len(own_anchors)),
                    Recalibration.from_json(value["levels"]),
                    int(value["jobs"]),
                    bool(value["limited"]),
                )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BundleError(f"{folder / FACTS} cannot be read: {error!r}; train again") from error
        return cls(parts)


def columns_of(table: JobTable, features: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Return the features and the columns derived from them, by name."""
    allowed = set(features)
    columns = {name: table.column(name) for name in features if name in table.names}
    derived = anchors(table)
    return columns | {name: derived[name] for name, source in SOURCE_FEATURES.items() if source in allowed}


def blocks(table: JobTable, target: Target, cuts: Cuts) -> dict[str, NDArray[np.int64]]:
    """Return the rows of each block that have a value known at its cut; `learnt` is all before the test."""
    has_value = target.known & (table.known_at >= 0)
    first, second, third = cuts

    def between(begin: int, end: int) -> NDArray[np.int64]:
        return np.flatnonzero(has_value & (table.submit >= begin) & (table.submit < end))

    return {
        "train": settled_rows(table, between(-(2**62), first), first),
        "search": settled_rows(table, between(first, second), second),
        "calibrate": settled_rows(table, between(second, third), third),
        "learnt": settled_rows(table, between(-(2**62), third), third),
        "test": between(third, 2**62),
    }


def _history_with_gaps(
    table: JobTable, target: Target, rows: Mapping[str, NDArray[np.int64]], seed: int
) -> dict[str, NDArray[Any]]:
    """Compute the usage of earlier jobs; unknown for some, so that the trees learn to predict without."""
    random = np.random.default_rng(seed)
    columns = history(table, target, np.unique(np.concatenate(list(rows.values()))))
    forgotten = (random.random(len(table.values)) < FORGOTTEN) & ~np.isin(
        np.arange(len(table.values)), rows["calibrate"]
    )
    return {name: np.where(forgotten, np.nan, values) for name, values in columns.items()}


def _latest(rows: Mapping[str, NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
    """Return the latest rows of each block that is learnt from."""
    return {name: block[-MOST_JOBS:] for name, block in rows.items() if name != "test"}


def _fit(
    quantity: Quantity,
    target: Target,
    available: Mapping[str, NDArray[Any]],
    rows: Mapping[str, NDArray[np.int64]],
    seed: int,
    threads: int,
) -> tuple[QuantityModel, QuantityModel] | None:
    """Fit one quantity, without the block `calibrate` and with it."""
    train = rows["train"]
    if target.exact[train].sum() < FEWEST or len(np.unique(target.value[train])) < 2:
        return None
    names = tuple(available)
    own_anchors = tuple(
        name
        for name in (*quantity.anchors, *HISTORY)
        if name in available and _varies(available[name][train])
    )

    def examples(block: str, columns: tuple[str, ...]) -> Examples:
        selected = {name: available[name][rows[block]] for name in (*columns, *own_anchors)}
        count = len(rows[block])
        return Examples(
            _stack(selected, columns, count),
            _stack_anchors(selected, own_anchors, quantity, count),
            quantity.scale(target.value[rows[block]]),
            target.exact[rows[block]],
        )

    places = best_columns(examples("train", names), seed=seed, threads=threads)
    columns = tuple(names[place] for place in places)
    fit = partial(Hazard.fit, bins=quantity.bins, seed=seed, threads=threads)
    first, rounds = fit(examples("train", columns), examples("search", columns))
    later = examples("calibrate", columns)
    raw = Distributions(
        quantity, first.borders, first.below(later.values, later.anchors), Recalibration.identity()
    )
    value = target.value[rows["calibrate"]]
    recalibration = Recalibration.fit(raw.at_most(value), later.exact)
    last, _ = fit(examples("learnt", columns), None, rounds=rounds)
    exact = train[target.exact[train]]
    limited = quantity.name == "run_time" and LIMIT in available
    limited = limited and limits_are_enforced(target.value[exact], available[LIMIT][exact])
    return (
        QuantityModel(quantity, columns, own_anchors, first, recalibration, len(train), limited),
        QuantityModel(quantity, columns, own_anchors, last, recalibration, len(rows["learnt"]), limited),
    )


def _varies(column: NDArray[Any]) -> bool:
    known = column[np.isfinite(column)]
    return len(known) > 0 and bool((known != known[0]).any())


def _select_columns(part: JobTable, derived: Mapping[str, NDArray[Any]], names: tuple[str, ...]) -> Floats:
    """Select columns, derived ones and those of the table."""
    in_table = tuple(name for name in names if name not in derived)
    columns = np.empty((len(part.values), len(names)))
    columns[:, places_of(names, in_table)] = part.values[:, places_of(part.names, in_table)]
    for place, name in enumerate(names):
        if name in derived:
            columns[:, place] = derived[name]
    return columns


def _stack(columns: Mapping[str, NDArray[Any]], names: tuple[str, ...], rows: int) -> NDArray[np.float32]:
    stacked = np.empty((rows, len(names)), np.float32)
    for place, name in enumerate(names):
        stacked[:, place] = columns[name]
    return stacked


def _stack_anchors(
    columns: Mapping[str, NDArray[Any]], names: tuple[str, ...], quantity: Quantity, rows: int
) -> NDArray[np.float32]:
    stacked = np.empty((rows, len(names)), np.float32)
    for place, name in enumerate(names):
        stacked[:, place] = quantity.scale(np.asarray(columns[name], np.float64))
    return stacked
