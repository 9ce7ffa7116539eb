"""The part of a model that foresees run time, memory, CPU efficiency and I/O."""

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
from forewarn.learn.data.split import settled
from forewarn.learn.data.table import JobTable
from forewarn.learn.heads.usage.distributions import Distributions, UsageForecast
from forewarn.learn.heads.usage.hazard import Example, Hazard, best_columns
from forewarn.learn.heads.usage.history import HISTORY, history, remembers
from forewarn.learn.heads.usage.quantities import (
    MADE_FROM,
    QUANTITIES,
    Quantity,
    Target,
    anchors,
    keeps_limits,
    targets,
    units_per_node,
)
from forewarn.learn.heads.usage.recalibration import Recalibration

FACTS = "usage.json"
MOST_JOBS = 40_000  # the latest are learnt from: what is older tells less, and costs as much
LIMIT = "time_limit"
FORGOTTEN = 0.15  # of the jobs learnt from, those whose user's earlier jobs are taken as not known
FEWEST = 200  # exact values below which nothing is learnt of a quantity
Cuts = tuple[int, int, int]
# By quantity, what the same user's earlier jobs used: the columns of `HISTORY`, one row a job.
Earlier = Mapping[str, Mapping[str, NDArray[np.float64]]]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class QuantityModel:
    """How one quantity is foreseen."""

    quantity: Quantity
    columns: tuple[str, ...]
    anchors: tuple[str, ...]
    hazard: Hazard
    levels: Recalibration
    jobs: int  # learnt from
    limited: bool = False  # run time, on a cluster that stops jobs at their limit

    @property
    def remembers(self) -> bool:
        """Whether it leans on what the user's earlier jobs used."""
        return not set(HISTORY).isdisjoint((*self.columns, *self.anchors))

    def foresee(self, part: JobTable, derived: Mapping[str, NDArray[Any]]) -> Distributions:
        """Tell the distributions of jobs of a table, of which these other columns are known, too."""
        columns = _gathered(part, derived, self.columns).astype(np.float32)
        anchors = self.quantity.scaled(_gathered(part, derived, self.anchors)).astype(np.float32)
        below = self.hazard.below(columns, anchors)
        found = Distributions(self.quantity, self.hazard.borders, below, self.levels)
        return found.halving_beyond(part.column(LIMIT).astype(np.float64)) if self.limited else found


@dataclass(frozen=True, slots=True)
class Usage:
    """The quantities that a cluster's history tells of; one at least."""

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
        """Learn from a table what these features tell; None where its history tells of no usage."""
        made = cls.fit_twice(table, cuts, features, seed=seed, threads=threads, only=only)
        return made and made[1]

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
        """Learn with the blocks that the model of failure has, without the block `calibrate` and with it.

        Trees are fitted on the first block, as far as the second says; the third sets the levels right: that
        is the first result, to be judged on the third. Then the trees are fitted again on all three.
        """
        known = columns_of(table, features)
        first: dict[str, QuantityModel] = {}
        last: dict[str, QuantityModel] = {}
        for name, target in targets(table).items():
            if name not in only:
                continue
            quantity, rows = QUANTITIES[name], _latest(blocks(table, target, cuts))
            own = known
            if any(feature.startswith("user_") for feature in features) and remembers(quantity, table):
                own = known | _forgotten(table, target, rows, seed)
            made = _fit(quantity, target, own, rows, seed, threads)
            if made is not None:
                first[name], last[name] = made
        return (cls(first), cls(last)) if last else None

    def is_enforced(self, outcome: str) -> bool:
        """Whether a job that needs more than it requested ends so on this cluster, as far as usage tells."""
        run_time = self.parts.get("run_time")
        return outcome != str(Outcome.TIMEOUT) or (run_time is not None and run_time.limited)

    def foresee(
        self,
        table: JobTable,
        rows: Rows | None = None,
        *,
        only: Collection[str] = tuple(QUANTITIES),
        earlier: Earlier | None = None,
    ) -> UsageForecast:
        """What is foreseen of some jobs of a table (all, if none are named), as of their moment.

        Most of what is needed is in their own rows. What CPU efficiency and I/O rate lean on, the same
        user's earlier jobs, is taken from the table's other rows, or is given for these rows as `earlier`:
        of jobs of now the table has no others. Of a user without any they are told less sharply.
        """
        which = np.arange(len(table.values)) if rows is None else np.asarray(rows)
        part = table if rows is None else table.rows(which)
        derived = anchors(part)
        lives = earlier is None and bool((table.known < 0).all())  # jobs of now, without any that ended
        told = {} if lives or earlier is not None else targets(table)
        said = {}
        for name, p in self.parts.items():
            if name not in only:
                continue
            remembered: dict[str, NDArray[Any]] = {}
            if p.remembers and earlier is not None:
                remembered = dict(earlier[name])
            elif p.remembers and lives:
                remembered = dict.fromkeys(HISTORY, np.full(len(which), np.nan))
            elif p.remembers:
                own = history(table, told[name], which)
                remembered = {column: values[which] for column, values in own.items()}
            said[name] = p.foresee(part, derived | remembered)
        return UsageForecast(
            **{name: said.get(name) for name in QUANTITIES},
            units_per_node=units_per_node(part),
            rests_on={name: p.jobs for name, p in self.parts.items() if name in only},
        )

    @property
    def remembered(self) -> tuple[str, ...]:
        """The quantities that lean on what the user's earlier jobs used, beside the features."""
        return tuple(name for name, part in self.parts.items() if part.remembers)

    def save(self, folder: Path) -> None:
        """Write JSON and the boosters' native files into a folder that exists."""
        facts = {
            name: {
                "columns": list(part.columns),
                "anchors": list(part.anchors),
                "levels": part.levels.to_json(),
                "jobs": part.jobs,
                "limited": part.limited,
                "hazard": part.hazard.save(folder / f"{name}.ubj"),
            }
            for name, part in self.parts.items()
        }
        (folder / FACTS).write_text(json.dumps(facts, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What was saved there. Raises `BundleError` for anything else."""
        try:
            facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
            parts = {}
            for name, value in facts.items():
                columns, own = tuple(value["columns"]), tuple(value["anchors"])
                file = folder / f"{QUANTITIES[name].name}.ubj"
                hazard = Hazard.load(file, value["hazard"], len(columns) + 1 + len(own))
                levels = Recalibration.from_json(value["levels"])
                parts[name] = QuantityModel(
                    QUANTITIES[name], columns, own, hazard, levels, int(value["jobs"]), bool(value["limited"])
                )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BundleError(f"{folder / FACTS} cannot be read: {error!r}; train again") from error
        return cls(parts)


def columns_of(table: JobTable, features: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The features and what is made of them, by name."""
    allowed = set(features)
    made = {name: table.column(name) for name in features if name in table.names}
    derived = anchors(table)
    return made | {name: derived[name] for name, source in MADE_FROM.items() if source in allowed}


def blocks(table: JobTable, target: Target, cuts: Cuts) -> dict[str, NDArray[np.int64]]:
    """Rows with a value, of each block what was known at its cut; `learnt` is all before the test."""
    there = target.known & (table.known >= 0)
    first, second, third = cuts

    def between(begin: int, end: int) -> NDArray[np.int64]:
        return np.flatnonzero(there & (table.submit >= begin) & (table.submit < end))

    return {
        "train": settled(table, between(-(2**62), first), first),
        "search": settled(table, between(first, second), second),
        "calibrate": settled(table, between(second, third), third),
        "learnt": settled(table, between(-(2**62), third), third),
        "test": between(third, 2**62),
    }


def _forgotten(
    table: JobTable, target: Target, rows: Mapping[str, NDArray[np.int64]], seed: int
) -> dict[str, NDArray[Any]]:
    """What earlier jobs used; of some jobs nothing, so that the trees learn to do without as well."""
    random = np.random.default_rng(seed)
    made = history(table, target, np.unique(np.concatenate(list(rows.values()))))
    forgotten = (random.random(len(table.values)) < FORGOTTEN) & ~np.isin(
        np.arange(len(table.values)), rows["calibrate"]
    )
    return {name: np.where(forgotten, np.nan, values) for name, values in made.items()}


def _latest(rows: Mapping[str, NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
    """Of each block what is learnt from."""
    return {name: some[-MOST_JOBS:] for name, some in rows.items() if name != "test"}


def _fit(
    quantity: Quantity,
    target: Target,
    known: Mapping[str, NDArray[Any]],
    rows: Mapping[str, NDArray[np.int64]],
    seed: int,
    threads: int,
) -> tuple[QuantityModel, QuantityModel] | None:
    """Fit one quantity, without the block `calibrate` and with it."""
    train = rows["train"]
    if target.exact[train].sum() < FEWEST or len(np.unique(target.value[train])) < 2:
        return None
    names = tuple(known)
    own = tuple(name for name in (*quantity.anchors, *HISTORY) if name in known and _says(known[name][train]))

    def example(which: str, columns: tuple[str, ...]) -> Example:
        some = {name: known[name][rows[which]] for name in (*columns, *own)}
        count = len(rows[which])
        return Example(
            _stacked(some, columns, count),
            _anchored(some, own, quantity, count),
            quantity.scaled(target.value[rows[which]]),
            target.exact[rows[which]],
        )

    picked = best_columns(example("train", names), seed=seed, threads=threads)
    columns = tuple(names[place] for place in picked)
    fit = partial(Hazard.fit, bins=quantity.bins, seed=seed, threads=threads)
    first, rounds = fit(example("train", columns), example("search", columns))
    later = example("calibrate", columns)
    unheld = Distributions(
        quantity, first.borders, first.below(later.values, later.anchors), Recalibration.plain()
    )
    value = target.value[rows["calibrate"]]
    levels = Recalibration.fit(unheld.said(value), later.exact)
    last, _ = fit(example("learnt", columns), None, rounds=rounds)
    exact = train[target.exact[train]]
    limited = quantity.name == "run_time" and LIMIT in known
    limited = limited and keeps_limits(target.value[exact], known[LIMIT][exact])
    before = QuantityModel(quantity, columns, own, first, levels, len(train), limited)
    return before, QuantityModel(quantity, columns, own, last, levels, len(rows["learnt"]), limited)


def _says(column: NDArray[Any]) -> bool:
    there = column[np.isfinite(column)]
    return len(there) > 0 and bool((there != there[0]).any())


def _gathered(part: JobTable, derived: Mapping[str, NDArray[Any]], names: tuple[str, ...]) -> Floats:
    """Put columns beside each other, those that are derived and those of the table."""
    own = tuple(name for name in names if name not in derived)
    found = np.empty((len(part.values), len(names)))
    found[:, places_of(names, own)] = part.values[:, places_of(part.names, own)]
    for place, name in enumerate(names):
        if name in derived:
            found[:, place] = derived[name]
    return found


def _stacked(known: Mapping[str, NDArray[Any]], names: tuple[str, ...], rows: int) -> NDArray[np.float32]:
    made = np.empty((rows, len(names)), np.float32)
    for place, name in enumerate(names):
        made[:, place] = known[name]
    return made


def _anchored(
    known: Mapping[str, NDArray[Any]], names: tuple[str, ...], quantity: Quantity, rows: int
) -> NDArray[np.float32]:
    made = np.empty((rows, len(names)), np.float32)
    for place, name in enumerate(names):
        made[:, place] = quantity.scaled(np.asarray(known[name], np.float64))
    return made
