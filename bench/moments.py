"""The stated risk at the moments at which it is asked: while a job waits, while it runs, on a login node.

    python bench/moments.py [sacct:FILE --policy wasted] [--families lightgbm,online] [--users 120]

Without a source, a simulated cluster. Judged on the last 20 % of the jobs in order of submit, with the
features that serving would have had. Each line before and after what was changed for it:

- pending: a random moment of a job's wait. Before, the model of starts learnt from starts only; now from
  a quarter of the jobs as they were while they waited.
- running: a random moment of the run of every tenth job; the same two models.
- login node, at submit: features from the user's own jobs only. Before, what others' jobs tell was made from
  those too; now it is taken as unknown.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from forewarn.config import Config
from forewarn.features.batch import draw_looks_while_waiting, events_of, read_inputs, walk
from forewarn.features.inputs import Inputs
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel.state import START, SUBMIT, WAITING, new_state
from forewarn.learn.data.population import POPULATIONS, Population
from forewarn.learn.data.table import JobTable, read_table
from forewarn.learn.evaluation.metrics import ScoredPredictions, f1
from forewarn.learn.fitting.fit import fit
from forewarn.learn.fitting.fit_result import FitResult
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.store.base import Store
from forewarn.store.opening import open_store

Rows = NDArray[np.int64]
RUNNING_SHARE = 0.1  # of the jobs are asked about while they run: their starts are moved, which others see


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?")
    parser.add_argument("--policy", default="wasted")
    parser.add_argument("--features", default="generic")
    parser.add_argument("--families", default="lightgbm,online")
    parser.add_argument("--users", type=int, default=120)
    parser.add_argument("--jobs", type=int, default=40_000, help="of the simulated cluster")
    given = parser.parse_args()
    families = tuple(given.families.split(","))
    settings = FitSettings(feature_set=given.features, families=families, trials=len(families))
    print("| moment | jobs | ROC-AUC | PR-AUC | F1 | ECE |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as home, open_store(Config(home=Path(home) / "store")) as store:
        source = given.source
        if source is None:
            simulate("default", given.jobs, 5, Path(home) / "jobs.parquet", "parquet")
            source = f"parquet:{Path(home) / 'jobs.parquet'}"
        (cluster,) = ingest(store, open_source(source)).clusters
        review_missing_fields(store, [cluster])
        population = POPULATIONS[given.policy]
        for line in (
            *at_start(store, cluster, population, settings),
            *on_login(store, cluster, population, settings, given.users),
        ):
            print(line, flush=True)


def at_start(store: Store, cluster: str, population: Population, settings: FitSettings) -> Iterator[str]:
    table = read_table(store, cluster, "start", population)
    models = {"before": _fit(replace(table, pending_features=None), settings), "after": _fit(table, settings)}
    inputs = read_inputs(store, cluster, population.policy, phase="start")
    test = models["after"].parts.test
    moments = {
        "at start": (table, test),
        "pending": _seen(table, test, inputs, draw_looks_while_waiting(inputs)),
        "running": _running(table, test, inputs),
    }
    for name, (then, rows) in moments.items():
        for which, model in models.items():
            yield _line(f"{name}, {which}", model, then, rows)


def _seen(table: JobTable, test: Rows, inputs: Inputs, looks: NDArray[np.int64]) -> tuple[JobTable, Rows]:
    """Return the jobs of the test part that were observed while pending, as they were then."""
    events = events_of(inputs, looks=looks)
    parts = [*walk(new_state(), inputs, events, emitted=WAITING)]
    return _put(table, test, inputs, *(np.concatenate([part[k] for part in parts]) for k in (1, 2)))


def _running(table: JobTable, test: Rows, inputs: Inputs) -> tuple[JobTable, Rows]:
    """Return jobs at a random moment of their run, as if they started then, with the wait that they had."""
    random = np.random.default_rng(1)
    submit = inputs.ids["submit"].to_numpy()
    runs = (inputs.start >= submit) & (inputs.known > inputs.start + 1)
    asked = runs & (random.random(len(submit)) < RUNNING_SHARE)
    moved = inputs.start + (random.random(len(submit)) * (inputs.known - inputs.start)).astype(np.int64)
    later = replace(inputs, start=np.where(asked, moved, inputs.start))
    parts = [*walk(new_state(), later, events_of(later), emitted=START)]
    jobs, out = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
    out = out[asked[jobs]]
    jobs = jobs[asked[jobs]]
    wait = next(place for place, feature in enumerate(L.FEATURES) if feature.name == "wait")
    row_of, waits = dict(zip(*_rows(table, inputs), strict=True)), table.column("wait")
    out[:, wait] = [waits[row_of[job]] for job in jobs]
    return _put(table, test, inputs, jobs, out)


def _rows(table: JobTable, inputs: Inputs) -> tuple[list[int], list[int]]:
    """Jobs of the inputs that have a row in the table, and which."""
    keys = inputs.ids.select("job_id", "submit").with_row_index("job")
    found = table.about.select("job_id", "submit").with_row_index("row").join(keys, on=["job_id", "submit"])
    return found["job"].to_list(), found["row"].to_list()


def _put(
    table: JobTable, test: Rows, inputs: Inputs, jobs: Rows, out: NDArray[np.float64]
) -> tuple[JobTable, Rows]:
    row_of = np.full(len(inputs.start), -1)
    some, rows = _rows(table, inputs)
    row_of[some] = rows
    rows_there = row_of[jobs]
    values = table.values.copy()
    values[rows_there[rows_there >= 0]] = out[rows_there >= 0][:, L.selected(table.phase, "generic")]
    return replace(table, values=values, pending_features=None), np.intersect1d(test, rows_there)


def on_login(
    store: Store, cluster: str, population: Population, settings: FitSettings, count: int
) -> Iterator[str]:
    table = read_table(store, cluster, "submit", population)
    model = _fit(table, settings)
    inputs = read_inputs(store, cluster, population.policy, phase="submit")
    there = table.about[model.parts.test]["user"].drop_nulls().unique(maintain_order=True).to_list()
    users = np.random.default_rng(0).permutation(there)[:count].tolist()
    rows = np.intersect1d(
        model.parts.test, np.flatnonzero(table.about["user"].is_in(users).fill_null(False).to_numpy())
    )
    values = table.values.copy()
    for user in users:
        own = np.flatnonzero((table.about["user"] == user).fill_null(False).to_numpy())
        values[own] = _own_features(inputs, own)
    names = {L.FEATURES[place].name for place in L.OF_OTHERS}
    blanked = values.copy()
    blanked[np.ix_(rows, np.flatnonzero([name in names for name in table.names]))] = np.nan
    yield _line("login node, the site's history", model, table, rows)
    yield _line("login node, before", model, replace(table, values=values), rows)
    yield _line("login node, after", model, replace(table, values=blanked), rows)


def _own_features(inputs: Inputs, own: Rows) -> NDArray[np.float32]:
    """Features at submit where nothing but these jobs is known."""
    part = Inputs(
        ids=inputs.ids[own],
        start=inputs.start[own],
        known=inputs.known[own],
        numbers=inputs.numbers[own],
        atoms=inputs.atoms[own],
        numbers_at_start=inputs.numbers_at_start[own],
        atoms_at_start=inputs.atoms_at_start[own],
        results=inputs.results[own],
        node_first=np.zeros(len(own) + 1, np.int64),
        node_keys=np.zeros(0, np.uint64),
    )
    own_values = np.full((len(own), L.N_FEATURES), np.nan)
    for _, jobs, out in walk(new_state(), part, events_of(part), emitted=SUBMIT):
        own_values[jobs] = out
    return own_values[:, L.selected("submit", "generic")].astype(np.float32)


def _fit(table: JobTable, settings: FitSettings) -> FitResult:
    with tempfile.TemporaryDirectory() as folder:
        return fit(table, settings, folder=Path(folder))


def _line(name: str, model: FitResult, table: JobTable, rows: Rows) -> str:
    p, fails = model.probabilities(table, rows), table.fails[rows]
    judged = ScoredPredictions(fails, p)
    figures = (judged.roc_auc(), judged.pr_auc(), f1(fails, p >= model.threshold.value), judged.ece())
    return f"| {name} | {len(rows):,} | {' | '.join(f'{figure:.3f}' for figure in figures)} |"


if __name__ == "__main__":
    main()
