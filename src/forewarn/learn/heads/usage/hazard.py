"""A hazard model: in each bin of a quantity, the probability that a job ends there if it gets there.

Every job is one row for each bin that it reached, and the trees use the bin and its distance from the request
and from earlier jobs. A job that was cut short is a row for each bin that it outlived and contributes nothing
to later ones, which is all that is known of it. So the trees can predict any shape of distribution, its
quantiles never cross, and the probability of exceeding any number is read from it.

Sums of the pinball losses at 10, 50 and 90% of the binary logarithm, on the test blocks of SDSC-SP2 and
CTC-SP2: this model 1.18 and 1.27; a censored logistic with location and spread by trees 1.29 and 1.33;
XGBoost's accelerated failure time, one spread for all, 1.39 and 1.44. Without the distances 1.22 on SDSC-SP2,
with 24 bins instead of 48 1.22 and 1.29.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from forewarn.compiled import is_loaded
from forewarn.errors import BundleError
from forewarn.learn.families.base import finite, probabilities
from forewarn.learn.families.native import digest, leaf_size
from forewarn.learn.families.shared_library import LibraryError, import_package
from forewarn.learn.families.xgboost_native import XgboostTrees
from forewarn.learn.heads.usage.bin_trees import BinTrees

if TYPE_CHECKING:
    import xgboost

log = logging.getLogger(__name__)
Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
OUTLIVED = 4  # outlived bins per job on average, a random sample with larger weights
ROUNDS, PATIENCE = 250, 10
COLUMNS = 40  # that are used, the best ones by a quick model
_CERTAIN = 1e-3  # no bin's average hazard is closer to 0 or 1 than this
_TAIL = (0.99, 0.995, 0.999, 1.0)  # so that one extremely long job does not stretch the last bin
_BATCH = 256  # jobs predicted at a time: each is as many rows as there are bins; more do not fit the cache
_PARAMS: Mapping[str, Any] = {
    "objective": "binary:logistic",
    "eval_metric": "logloss",
    "tree_method": "hist",
    "verbosity": 0,
    "eta": 0.2,
    "max_depth": 6,
    "subsample": 0.7,
    "colsample_bytree": 0.6,
    "min_child_weight": 20.0,
    "lambda": 10.0,
    "max_bin": 128,
}


@dataclass(frozen=True, slots=True)
class Examples:
    """Jobs with their outcomes, all on the scale of the bins."""

    values: Floats32  # jobs × columns
    anchors: Floats32  # jobs × anchors
    ended: Floats  # the value at the end, or a lower bound
    exact: NDArray[np.bool_]  # else `ended` is a lower bound

    def __len__(self) -> int:
        return len(self.ended)


@dataclass(frozen=True)
class Hazard:
    """The borders of the bins, the average hazard in each, and the trees that predict a job's difference."""

    borders: Floats  # one more than bins; the lowest is below all values
    average: Floats32  # log odds of ending in each bin, over all jobs
    trees: XgboostTrees

    @classmethod
    def fit(
        cls,
        examples: Examples,
        later: Examples | None,
        *,
        bins: int,
        seed: int,
        threads: int,
        rounds: int = ROUNDS,
    ) -> tuple[Self, int]:
        """Fit with as many rounds as predict the `later` jobs best, or with `rounds` without such jobs."""
        import_package("xgboost")
        import xgboost

        borders = _borders(examples.ended, bins)
        average = _average_hazard(examples, borders)
        random = np.random.default_rng(seed)
        params = dict(_PARAMS) | {"seed": seed, "nthread": threads}
        train = _matrix(examples, borders, average, random, threads)
        params["min_child_weight"] = leaf_size(params["min_child_weight"], len(examples), 100)
        if later is None or not len(later):
            booster = xgboost.train(params, train, rounds)
            return cls(borders, average, _native(booster, threads)), rounds
        validation = _matrix(later, borders, average, random, threads, ref=train)
        losses: dict[str, Any] = {}
        booster = xgboost.train(
            params,
            train,
            rounds,
            evals=[(validation, "later")],
            early_stopping_rounds=PATIENCE,
            evals_result=losses,
            verbose_eval=False,
        )
        best = int(np.argmin(losses["later"]["logloss"])) + 1
        return cls(borders, average, _native(booster[:best], threads)), best

    def below(self, values: Floats32, anchors: Floats32) -> Floats:
        """Compute each job's probability of ending at or below each border."""
        below = np.zeros((len(values), len(self.borders)))
        values, anchors = finite(values), finite(anchors)
        bin_trees = self._bin_trees if is_loaded() else None
        for begin in range(0, len(values), _BATCH):
            batch = slice(begin, begin + _BATCH)
            if bin_trees is None:
                margins = self._margins(values[batch], anchors[batch])
            else:
                margins = bin_trees.margins(values[batch], anchors[batch], self._upper)
            log_odds = self.average + (margins - self.trees.intercept)
            survival = np.cumprod(probabilities(-log_odds), axis=1)
            below[batch, 1:] = 1.0 - survival
        return below

    def _margins(self, values: Floats32, anchors: Floats32) -> Floats32:
        """Compute the margin of each job in each bin by XGBoost."""
        count, bins = values.shape[1], len(self.average)
        rows = np.empty((len(values), bins, self.trees.features), np.float32)
        rows[:, :, :count] = values[:, None]
        rows[:, :, count] = np.arange(bins)
        rows[:, :, count + 1 :] = self._upper[:, None] - anchors[:, None]
        return self.trees.margins(rows.reshape(-1, rows.shape[2])).reshape(-1, bins)

    @cached_property
    def _upper(self) -> Floats32:
        return self.borders[1:].astype(np.float32)

    @cached_property
    def _bin_trees(self) -> BinTrees | None:
        """The trees for the compiled walk; None where it does not give what XGBoost gives."""
        try:
            found = BinTrees.of(self.trees)
        except (KeyError, TypeError, ValueError) as error:  # another version of XGBoost's form
            log.warning("trees that only XGBoost can read: %s", error)
            return None
        for value in (0.0, np.nan):
            job = np.full((1, self.trees.features - 1), value, np.float32)
            values, anchors = job[:, : job.shape[1] // 2], job[:, job.shape[1] // 2 :]
            if not np.array_equal(
                found.margins(values, anchors, self._upper), self._margins(values, anchors)
            ):
                log.warning("the sums of a hazard model's trees differ from XGBoost's, which is used instead")
                return None
        return found

    def save(self, path: Path) -> dict[str, Any]:
        """Write the booster's native file, and return what JSON stores of it."""
        self.trees.save(path)
        return {
            "borders": self.borders.tolist(),
            "usual": [float(value) for value in self.average],
            "rounds": self.trees.rounds,
            "file": path.name,
            "blake2b": digest(path.read_bytes()),
        }

    @classmethod
    def load(cls, path: Path, facts: Mapping[str, Any], columns: int) -> Self:
        """Load what was saved. Only an intact file reaches the library's reader: others may crash it."""
        if facts["file"] != path.name:  # a bundle must not name files outside of it
            raise BundleError(f"{path.parent}: names the file {facts['file']!r} for {path.name}; train again")
        data = path.read_bytes()
        if digest(data) != facts["blake2b"]:
            raise BundleError(f"{path} was changed or cut short: restore the bundle, or train again")
        try:
            trees = XgboostTrees(data)
        except LibraryError as error:
            raise BundleError(f"{path} is no XGBoost model: {error}") from error
        borders, average = np.array(facts["borders"], np.float64), np.array(facts["usual"], np.float32)
        if len(borders) != len(average) + 1 or (np.diff(borders) <= 0).any():
            raise ValueError(f"{len(borders)} borders for {len(average)} bins, or borders that do not rise")
        if trees.features != columns:
            raise BundleError(f"{path} takes {trees.features} columns, not {columns}")
        return cls(borders, average, trees)


def _native(booster: xgboost.Booster, threads: int) -> XgboostTrees:
    return XgboostTrees(bytes(booster.save_raw("ubj")), threads=threads)


def best_columns(examples: Examples, *, seed: int, threads: int) -> list[int]:
    """Choose the columns with the largest gain in a quick model of the value itself, in their order."""
    import_package("xgboost")
    import xgboost

    params = {
        **{name: _PARAMS[name] for name in ("tree_method", "verbosity", "max_bin", "min_child_weight")},
        **{"objective": "reg:squarederror", "eta": 0.2, "max_depth": 5, "subsample": 0.7},
        **{"colsample_bytree": 0.4, "seed": seed, "nthread": threads},
    }
    params["min_child_weight"] = leaf_size(20.0, len(examples), 100)
    rows = xgboost.QuantileDMatrix(finite(examples.values), examples.ended, max_bin=128, nthread=threads)
    gains = xgboost.train(params, rows, 25).get_score(importance_type="total_gain")
    order = sorted(gains, key=lambda name: (-float(np.asarray(gains[name])), int(name[1:])))
    return sorted(int(name[1:]) for name in order[:COLUMNS])


def _borders(ended: Floats, bins: int) -> Floats:
    """Compute bins with about equally many jobs. Limits at which many jobs end become exact borders."""
    levels = np.concatenate([np.linspace(0, 1, bins + 1)[1:-1], _TAIL])
    borders = np.unique(np.quantile(ended, levels, method="inverted_cdf"))
    lowest = min(float(ended.min()), borders[0])
    return np.concatenate([[lowest - max(1e-6, 1e-3 * (borders[-1] - lowest))], borders])


def _bin_of(ended: Floats, borders: Floats) -> NDArray[np.int64]:
    """Return the bin of each value; a bin includes its upper border."""
    return np.clip(np.searchsorted(borders, ended, side="left") - 1, 0, len(borders) - 2)


def _average_hazard(examples: Examples, borders: Floats) -> Floats32:
    """Compute the log odds of ending in each bin, over all jobs that reached it."""
    count = len(borders) - 1
    last = _bin_of(examples.ended, borders)
    ends = np.bincount(last[examples.exact], minlength=count)
    reached = len(examples) - np.concatenate([[0], np.cumsum(np.bincount(last, minlength=count))[:-1]])
    hazard = np.clip(ends / np.maximum(reached, 1), _CERTAIN, 1 - _CERTAIN)
    return np.asarray(np.log(hazard / (1 - hazard)), np.float32)


def _matrix(
    examples: Examples,
    borders: Floats,
    average: Floats32,
    random: np.random.Generator,
    threads: int,
    ref: xgboost.QuantileDMatrix | None = None,
) -> xgboost.QuantileDMatrix:
    """Build a row for each bin that a job reached, with a random sample of the many bins it outlived."""
    import xgboost

    last = _bin_of(examples.ended, borders)
    jobs = np.repeat(np.arange(len(examples)), last + 1)
    bins = np.arange(len(jobs)) - np.repeat(np.cumsum(last + 1) - (last + 1), last + 1)
    ends = examples.exact[jobs] & (bins == last[jobs])
    # A job that was cut short within a bin was observed for a part of it.
    width = borders[last + 1] - borders[last]
    part = np.where(examples.exact, 1.0, np.clip((examples.ended - borders[last]) / width, 0.0, 1.0))
    weights = np.where(bins == last[jobs], part[jobs], 1.0)
    share = min(1.0, OUTLIVED * len(examples) / max(1, int((~ends).sum())))
    chosen = (ends | (random.random(len(jobs)) < share)) & (weights > 0)
    weights = np.where(ends, weights, weights / share)[chosen]
    jobs, bins, ends = jobs[chosen], bins[chosen], ends[chosen]
    return xgboost.QuantileDMatrix(
        finite(_rows(examples.values, examples.anchors, jobs, bins, borders)),
        ends.astype(np.float32),
        weight=weights,
        base_margin=average[bins],
        max_bin=_PARAMS["max_bin"],
        nthread=threads,
        ref=ref,
    )


def _rows(
    values: Floats32, anchors: Floats32, jobs: NDArray[np.int64], bins: NDArray[np.int64], borders: Floats
) -> Floats32:
    """Build rows of jobs and bins: the job's columns, the bin, and how far above each anchor the bin ends."""
    count = values.shape[1]
    rows = np.empty((len(jobs), count + 1 + anchors.shape[1]), np.float32)
    rows[:, :count] = values[jobs]
    rows[:, count] = bins
    rows[:, count + 1 :] = borders[bins + 1].astype(np.float32)[:, None] - anchors[jobs]
    return rows
