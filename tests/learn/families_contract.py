"""The contract of model families (`forewarn.learn.families.base`) as tests.

A family's test class inherits `FamilyContract`, names its family and has three sets of params: for a quick
fit, for a fit that overfits soon, and some that the library refuses:

    class TestXgboost(FamilyContract):
        name = "xgboost"
        params = {"rounds": 80, "eta": 0.1}
        eager = {"rounds": 400, "eta": 0.5}
        refused = {"max_depth": -3}

Families without a library inherit `ValuesContract`, which has no tests of fitting, or `ModelContract`,
if their columns cannot hold any number or category.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from forewarn.errors import BundleError, LearningError, NotEnoughError
from forewarn.learn.data.matrix import Matrix, Sample
from forewarn.learn.families import family
from forewarn.learn.families.base import (
    Categories,
    FittedModel,
    FloatRange,
    IntRange,
    ModelFamily,
    probabilities,
)
from tests.learn.conftest import make_sample

FITS: dict[tuple[str, str], FittedModel] = {}  # one model of each family, fitted once


def rocauc(fails: NDArray[np.float64], margins: NDArray[np.float64]) -> float:
    """Compute the share of pairs in the right order."""
    order = np.argsort(np.argsort(margins, kind="stable"))
    failed = fails > 0
    count = failed.sum()
    return float((order[failed].sum() - count * (count - 1) / 2) / (count * (len(fails) - count)))


def loss(sample: Sample, model: FittedModel) -> float:
    p = np.clip(probabilities(model.margins(sample.matrix)), 1e-12, 1 - 1e-12)
    return float(-np.log(np.where(sample.fails > 0, p, 1 - p)).mean())


def with_column(sample: Sample, name: str, value: Any) -> Sample:
    """Return the same rows with other values in a column."""
    values = sample.matrix.values.copy()
    values[:, sample.matrix.names.index(name)] = value
    return replace(sample, matrix=replace(sample.matrix, values=values))


class ModelContract:
    """The part of the contract that holds for every family."""

    name: ClassVar[str]
    params: ClassVar[dict[str, Any]] = {}

    # --- tools ---------------------------------------------------------------------------------

    @property
    def family(self) -> ModelFamily:
        return family(self.name)

    def sample(self, rows: int = 1500, seed: int = 0) -> Sample:
        return make_sample(rows, seed)

    def fit(self, train: Sample, seed: int = 7, threads: int = 1, **other: Any) -> FittedModel:
        return self.family.fit(train, self.params, seed=seed, threads=threads, **other)

    @pytest.fixture
    def model(self) -> FittedModel:
        """Return a model fitted on `sample()`; tests must not change it."""
        key = (self.name, json.dumps(self.params))
        if key not in FITS:
            FITS[key] = self.fit(self.sample())
        return FITS[key]

    @pytest.fixture
    def held(self) -> Sample:
        return self.sample(600, seed=1)

    @pytest.fixture
    def saved(self, model: FittedModel, tmp_path: Path) -> Path:
        folder = tmp_path / "model"
        folder.mkdir()
        model.save(folder)
        return folder

    # --- predictions ---------------------------------------------------------------------------

    def test_it_orders_unseen_rows_well(self, model: FittedModel, held: Sample) -> None:
        assert rocauc(held.fails, model.margins(held.matrix)) > 0.75

    def test_margins_are_log_odds(self, model: FittedModel, held: Sample) -> None:
        margins = model.margins(held.matrix)
        assert margins.shape == (len(held),)
        assert margins.dtype == np.float64
        assert np.isfinite(margins).all()
        assert probabilities(margins).mean() == pytest.approx(held.fails.mean(), abs=0.06)

    def test_contributions_add_up_to_the_margin(self, model: FittedModel, held: Sample) -> None:
        contributions = model.contributions(held.matrix)
        assert contributions.shape == (len(held), len(model.names) + 1)
        assert contributions.dtype == np.float64
        np.testing.assert_allclose(
            contributions.sum(axis=1), model.margins(held.matrix), rtol=1e-4, atol=1e-5
        )

    def test_contributions_stand_at_their_column(self, model: FittedModel, held: Sample) -> None:
        """The most important column contributes most, and an unused one nothing."""
        size = np.abs(model.contributions(held.matrix)[:, :-1]).mean(axis=0)
        assert model.names[int(size.argmax())] == model.names[int(model.importance().argmax())]
        assert (size[model.importance() == 0] < 1e-6).all()

    def test_importance_is_shares(self, model: FittedModel) -> None:
        importance = model.importance()
        assert importance.shape == (len(model.names),)
        assert importance.min() >= 0
        assert importance.sum() == pytest.approx(1)

    def test_one_row_is_predicted_as_in_a_batch(self, model: FittedModel) -> None:
        many = self.sample(3000, seed=2).matrix  # enough for several threads
        margins, contributions = model.margins(many), model.contributions(many.rows(slice(0, 40)))
        for row in range(40):
            one = many.rows(slice(row, row + 1))
            assert model.margins(one)[0] == margins[row]
            np.testing.assert_allclose(model.contributions(one)[0], contributions[row], atol=1e-6)

    def test_no_rows_give_no_margins(self, model: FittedModel, held: Sample) -> None:
        none = held.matrix.rows(slice(0, 0))
        assert model.margins(none).shape == (0,)
        assert model.contributions(none).shape == (0, len(model.names) + 1)

    def test_rows_need_not_lie_in_one_piece(self, model: FittedModel, held: Sample) -> None:
        strided = replace(held.matrix, values=np.asfortranarray(held.matrix.values))
        assert np.array_equal(model.margins(strided), model.margins(held.matrix))

    def test_predictions_change_nothing(self, model: FittedModel, held: Sample) -> None:
        before = held.matrix.values.copy()
        first = model.margins(held.matrix)
        model.contributions(held.matrix)
        assert np.array_equal(model.margins(held.matrix), first)
        assert np.array_equal(held.matrix.values, before, equal_nan=True)

    # --- unusual input -------------------------------------------------------------------------

    def test_rows_with_nothing_known_have_a_margin(self, model: FittedModel, held: Sample) -> None:
        nothing = replace(held.matrix, values=np.full_like(held.matrix.values, np.nan))
        margins = model.margins(nothing)
        assert np.isfinite(margins).all()
        assert len(set(margins.tolist())) == 1
        np.testing.assert_allclose(model.contributions(nothing).sum(axis=1), margins, rtol=1e-4, atol=1e-5)

    def test_other_columns_are_refused(self, model: FittedModel, held: Sample) -> None:
        names = held.matrix.names
        swapped = held.matrix.columns((names[1], names[0], *names[2:]))
        fewer = held.matrix.columns(names[:-1])
        renamed = replace(held.matrix, names=("other", *names[1:]))
        for wrong in (swapped, fewer, renamed):
            with pytest.raises(LearningError, match="columns"):
                model.margins(wrong)
            with pytest.raises(LearningError, match="columns"):
                model.contributions(wrong)

    # --- its files -----------------------------------------------------------------------------

    def test_what_is_loaded_says_the_same_to_the_last_bit(
        self, model: FittedModel, saved: Path, held: Sample
    ) -> None:
        loaded = self.family.load(saved)
        assert np.array_equal(loaded.margins(held.matrix), model.margins(held.matrix))
        assert np.array_equal(loaded.contributions(held.matrix), model.contributions(held.matrix))
        assert np.array_equal(loaded.importance(), model.importance())
        assert loaded.threads == 1, "serving predicts one row at a time and needs no threads"
        assert (loaded.names, loaded.categorical, loaded.rounds) == (
            model.names,
            model.categorical,
            model.rounds,
        )

    def test_what_is_loaded_saves_the_same(self, saved: Path, held: Sample, tmp_path: Path) -> None:
        again = tmp_path / "again"
        again.mkdir()
        loaded = self.family.load(saved)
        loaded.save(again)
        assert {path.name for path in again.iterdir()} == {path.name for path in saved.iterdir()}
        margins = self.family.load(again).margins(held.matrix)
        assert np.array_equal(margins, loaded.margins(held.matrix))

    def test_nothing_is_pickled(self, saved: Path) -> None:
        for path in saved.iterdir():
            assert not path.read_bytes().startswith(b"\x80"), path.name
            assert path.suffix in {".json", ".ubj", ".txt", ".cbm"}, path.name

    @pytest.mark.parametrize(
        "broken",
        [
            lambda data: b"",
            lambda data: data[:1],
            lambda data: data[: len(data) // 3],
            lambda data: data[:-1],
            lambda data: data[: len(data) // 2] + b"\xff\x00zz" + data[len(data) // 2 + 4 :],
            lambda data: np.random.default_rng(0).bytes(5000),
            lambda data: b"hello\n",
            lambda data: b"{}",
            lambda data: b"null",
        ],
        ids=["empty", "a byte", "a third", "all but one", "changed", "random", "text", "object", "null"],
    )
    def test_a_broken_file_is_a_bundle_error(self, saved: Path, broken: Callable[[bytes], bytes]) -> None:
        for path in list(saved.iterdir()):
            whole = path.read_bytes()
            damaged = broken(whole)
            if path.suffix == ".json" and damaged.strip() == whole.strip():
                continue  # only the newline at its end is missing
            path.write_bytes(damaged)
            with pytest.raises(BundleError) as caught:
                self.family.load(saved)
            assert str(saved) in str(caught.value), "the message names the place"
            path.write_bytes(whole)
        self.family.load(saved)

    def test_a_missing_file_is_a_bundle_error(self, saved: Path) -> None:
        for path in list(saved.iterdir()):
            whole = path.read_bytes()
            path.unlink()
            with pytest.raises(BundleError):
                self.family.load(saved)
            path.write_bytes(whole)
        with pytest.raises(BundleError):
            self.family.load(saved / "nowhere")

    # --- many threads --------------------------------------------------------------------------

    def test_eight_threads_get_the_answers_of_one(self, saved: Path) -> None:
        """For a loaded model and for one just fitted with several threads, with one row and with many."""
        many = self.sample(2000, seed=2).matrix
        some, one = many.rows(slice(0, 100)), many.rows(slice(7, 8))
        for model in (self.family.load(saved), self.fit(self.sample(), threads=2)):
            calls = [
                *((model.margins, matrix) for matrix in (one, some, many)),
                *((model.contributions, matrix) for matrix in (one, some)),
            ]
            alone = [ask(matrix) for ask, matrix in calls]
            start = threading.Barrier(8)

            def answers(
                thread: int, calls: Any = calls, alone: Any = alone, start: threading.Barrier = start
            ) -> bool:
                start.wait()
                order = [(thread + turn) % len(calls) for turn in range(6 * len(calls))]
                return all(np.array_equal(calls[i][0](calls[i][1]), alone[i]) for i in order)

            with ThreadPoolExecutor(8) as pool:
                assert all(pool.map(answers, range(8)))

    def test_a_fit_meanwhile_changes_no_answer(self, saved: Path) -> None:
        """Also a fit with more threads: LightGBM's number of threads is a setting of the whole process."""
        model, matrix = self.family.load(saved), self.sample(1200, seed=2).matrix
        few = matrix.rows(slice(0, 5))
        margins, contributions = model.margins(matrix), model.contributions(few)
        with ThreadPoolExecutor(1) as pool:
            fits = [pool.submit(self.fit, self.sample(600), threads=2) for _ in range(4)]
            while not all(fit.done() for fit in fits):
                assert np.array_equal(model.margins(matrix), margins)
                assert np.array_equal(model.contributions(few), contributions)
            assert all(fit.exception() is None for fit in fits)

    def test_eight_threads_may_load_at_once(self, saved: Path, model: FittedModel, held: Sample) -> None:
        start = threading.Barrier(8)

        def answer(_: int) -> NDArray[np.float64]:
            start.wait()
            return self.family.load(saved).margins(held.matrix)

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(answer, range(8)))
        assert all(np.array_equal(one, model.margins(held.matrix)) for one in found)

    def test_nothing_is_left_behind(self, saved: Path, held: Sample) -> None:
        """Memory does not grow over ten thousand predictions and a hundred loaded models."""
        one = held.matrix.rows(slice(0, 1))
        model = self.family.load(saved)

        def answer(times: int) -> None:
            for turn in range(times):
                model.margins(one)
                if turn % 10 == 0:
                    model.contributions(one)
                if turn % 100 == 0:
                    self.family.load(saved).contributions(one)

        answer(1000)
        before = resident()
        answer(10_000)
        assert resident() - before < 4 << 20

    # --- side effects --------------------------------------------------------------------------

    def test_it_writes_no_files_and_prints_nothing(
        self,
        saved: Path,
        held: Sample,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        cwd = tmp_path / "cwd"
        cwd.mkdir()
        monkeypatch.chdir(cwd)
        model = self.fit(self.sample(), validation=held, on_round=lambda rounds, loss: False)
        model.contributions(held.matrix)
        self.family.load(saved).margins(held.matrix)
        assert list(cwd.iterdir()) == []
        assert capfd.readouterr() == ("", "")

    def test_the_space_is_around_the_defaults(self) -> None:
        for name, within in self.family.space.items():
            default = self.family.defaults.get(name)
            match within:
                case FloatRange(low, high) | IntRange(low, high):
                    assert low < high
                    assert default is None or low <= default <= high, name
                case Categories(values):
                    assert default is None or default in values, name


class ValuesContract(ModelContract):
    """The part for families whose columns hold any number or category, which a rule's do not."""

    @pytest.mark.parametrize("code", [np.nan, 4, 31, 1e6, -1])
    def test_a_category_that_was_not_there_is_no_trouble(
        self, model: FittedModel, held: Sample, code: float
    ) -> None:
        unseen = with_column(held, "partition", code).matrix
        margins = model.margins(unseen)
        assert np.isfinite(margins).all()
        np.testing.assert_allclose(model.contributions(unseen).sum(axis=1), margins, rtol=1e-4, atol=1e-5)

    def test_infinite_is_very_large(self, model: FittedModel, held: Sample) -> None:
        for infinite, large in ((np.inf, 1e29), (-np.inf, -1e29)):
            changed = with_column(held, "x0", infinite)
            assert np.array_equal(
                model.margins(changed.matrix), model.margins(with_column(held, "x0", large).matrix)
            )


class FamilyContract(ValuesContract):
    """The whole contract, for a family that fits with a library."""

    eager: ClassVar[dict[str, Any]]  # params that overfit soon, with many rounds
    refused: ClassVar[dict[str, Any]]  # params that the library does not take

    # --- learning ------------------------------------------------------------------------------

    def test_it_learns_from_a_category(self) -> None:
        train, held = self.sample(2000), self.sample(600, seed=1)
        model = self.fit(train)
        one, two = (model.margins(with_column(held, "partition", code).matrix).mean() for code in (1, 2))
        assert two > one + 0.3

    def test_a_missing_value_tells_something_of_its_own(self) -> None:
        """A model learns from a missing value that reveals the outcome: nothing is imputed."""
        random = np.random.default_rng(3)
        fails = (random.random(1500) < 0.3).astype(np.float64)
        values = random.normal(size=(1500, 3)).astype(np.float32)
        values[fails > 0, 1] = np.nan
        values[random.random(1500) < 0.1, 1] = np.nan
        sample = Sample(Matrix(values, ("a", "b", "c")), fails, np.ones(1500))
        assert rocauc(fails, self.fit(sample).margins(sample.matrix)) > 0.9

    def test_holes_only_in_later_rows(self) -> None:
        train, held = self.sample(), self.sample(600, seed=1)
        whole = replace(train.matrix, values=np.nan_to_num(train.matrix.values))
        model = self.fit(replace(train, matrix=whole), validation=held)
        margins = model.margins(held.matrix)
        assert rocauc(held.fails, margins) > 0.7
        np.testing.assert_allclose(
            model.contributions(held.matrix).sum(axis=1), margins, rtol=1e-4, atol=1e-5
        )

    @pytest.mark.parametrize("column", ["x3", "partition"])
    @pytest.mark.parametrize("value", [np.nan, 1.0], ids=["empty", "constant"])
    def test_a_column_that_says_nothing_brings_nothing(self, column: str, value: float) -> None:
        train, held = self.sample(), self.sample(600, seed=1)
        model = self.fit(with_column(train, column, value))
        place = model.names.index(column)
        assert model.importance()[place] == 0
        assert np.abs(model.contributions(held.matrix)[:, place]).max() < 1e-6
        assert rocauc(held.fails, model.margins(held.matrix)) > 0.75

    def test_columns_that_all_say_nothing_leave_the_base_rate(self) -> None:
        train = self.sample()
        empty = replace(train, matrix=replace(train.matrix, values=np.full_like(train.matrix.values, np.nan)))
        model = self.fit(empty, validation=empty)
        assert probabilities(model.margins(empty.matrix)) == pytest.approx(train.fails.mean(), abs=0.02)
        assert model.importance().sum() == 0
        np.testing.assert_allclose(
            model.contributions(empty.matrix).sum(axis=1), model.margins(empty.matrix), atol=1e-5
        )

    def test_categories_only_and_numbers_only(self) -> None:
        train = self.sample()
        for names in (("partition",), ("x0", "x1"), ("x0", "partition", "x1")):
            part = train.columns(names)
            model = self.fit(part)
            assert rocauc(part.fails, model.margins(part.matrix)) > 0.55
            np.testing.assert_allclose(
                model.contributions(part.matrix).sum(axis=1),
                model.margins(part.matrix),
                rtol=1e-4,
                atol=1e-5,
            )

    def test_weights_count(self) -> None:
        """Failures of higher weight become more likely."""
        train, held = self.sample(), self.sample(600, seed=1)
        heavy = replace(train, weights=np.where(train.fails > 0, 5.0, 1.0))
        plain, more = self.fit(train).margins(held.matrix), self.fit(heavy).margins(held.matrix)
        assert more.mean() > plain.mean() + 0.7

    def test_rows_without_weight_do_not_count(self) -> None:
        train, held = self.sample(), self.sample(600, seed=1)
        odd = np.arange(len(train)) % 2 == 1
        fails = np.where(odd, 1 - train.fails, train.fails)
        model = self.fit(replace(train, fails=fails, weights=np.where(odd, 0.0, 1.0)))
        assert rocauc(held.fails, model.margins(held.matrix)) > 0.7

    def test_one_outcome_is_not_enough(self) -> None:
        train = self.sample(100)
        for fails in (np.zeros(100), np.ones(100)):
            with pytest.raises(NotEnoughError, match="same outcome"):
                self.fit(replace(train, fails=fails))
        with pytest.raises(NotEnoughError):
            self.fit(train.rows(slice(0, 0)))

    def test_ten_rows_are_no_crash(self) -> None:
        train = self.sample(10)
        train = replace(train, fails=(np.arange(10) % 2).astype(np.float64))
        model = self.fit(train)
        assert np.isfinite(model.margins(train.matrix)).all()

    def test_what_the_library_refuses_is_a_learning_error(self, capfd: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(LearningError, match=self.name):
            self.family.fit(self.sample(200), {**self.params, **self.refused}, seed=0, threads=1)
        assert capfd.readouterr().out == "", "LightGBM also prints to stderr, which cannot be prevented"

    @pytest.mark.parametrize("corner", ["low", "high"])
    def test_the_corners_of_the_space_fit(self, corner: str) -> None:
        params: dict[str, Any] = {"rounds": 10}
        for name, within in self.family.space.items():
            match within:
                case Categories(values):
                    params[name] = values[0 if corner == "low" else -1]
                case _:
                    params[name] = getattr(within, corner)
        train, held = self.sample(), self.sample(600, seed=1)
        model = self.family.fit(train, params, seed=0, threads=1, validation=held)
        assert np.isfinite(model.margins(held.matrix)).all()

    # --- rounds --------------------------------------------------------------------------------

    def test_without_validation_it_runs_all_rounds(self) -> None:
        reported: list[int] = []
        train = self.sample(600)
        params = {**self.params, "rounds": 23}

        def report(rounds: int, _: float) -> bool:
            reported.append(rounds)
            return False

        model = self.family.fit(train, params, seed=0, threads=1, on_round=report)
        assert model.rounds == 23
        assert reported == []

    def test_validation_keeps_the_best_round(self) -> None:
        """More rounds than the best are worse; a refit with as many rounds is the same model."""
        train, held = self.sample(400), self.sample(600, seed=1)
        eager = {**self.params, **self.eager}
        losses: dict[int, float] = {}
        how: dict[str, Any] = {"seed": 3, "threads": 1}
        model = self.family.fit(
            train, eager, **how, validation=held, on_round=lambda r, loss: bool(losses.update({r: loss}))
        )
        assert 1 <= model.rounds < eager["rounds"]
        assert max(losses) < eager["rounds"], "it ended early"
        assert loss(held, model) <= min(losses.values()) + 1e-6
        refit = self.family.fit(train, {**eager, "rounds": model.rounds}, **how)
        np.testing.assert_allclose(refit.margins(held.matrix), model.margins(held.matrix), atol=1e-9)

    def test_it_reports_the_loss_every_ten_rounds(self) -> None:
        train, held = self.sample(), self.sample(600, seed=1)
        reported: list[tuple[int, float]] = []

        def report(rounds: int, loss: float) -> bool:
            reported.append((rounds, loss))
            return False

        params = {**self.params, "rounds": 40}
        model = self.family.fit(train, params, seed=0, threads=1, validation=held, on_round=report)
        assert [rounds for rounds, _ in reported] == [10, 20, 30, 40]
        assert reported[-1][1] < 0.693
        if model.rounds == 40:
            assert loss(held, model) == pytest.approx(reported[-1][1], abs=1e-5)

    def test_it_stops_when_on_round_says_so(self) -> None:
        train, held = self.sample(), self.sample(600, seed=1)
        reported: list[int] = []

        def stop(rounds: int, _: float) -> bool:
            reported.append(rounds)
            return rounds >= 20

        model = self.fit(train, validation=held, on_round=stop)
        assert reported == [10, 20]
        assert 1 <= model.rounds <= 20

    def test_weights_count_in_validation_too(self) -> None:
        """Validation rows of weight 0 with the opposite outcome do not stop the boosting."""
        train, held = self.sample(), self.sample(600, seed=1)
        both = Sample(
            replace(held.matrix, values=np.vstack([held.matrix.values, held.matrix.values])),
            np.concatenate([held.fails, 1 - held.fails]),
            np.concatenate([np.ones(len(held)), np.zeros(len(held))]),
        )
        plain, weighed = (self.fit(train, validation=one) for one in (held, both))
        assert weighed.rounds == plain.rounds

    # --- reproducibility -----------------------------------------------------------------------

    def test_equal_arguments_give_equal_files(self, tmp_path: Path) -> None:
        files = []
        for turn in ("first", "second"):
            (tmp_path / turn).mkdir()
            self.fit(self.sample(), seed=5).save(tmp_path / turn)
            files.append({path.name: path.read_bytes() for path in (tmp_path / turn).iterdir()})
        assert files[0] == files[1]

    def test_equal_arguments_give_equal_models(self, held: Sample) -> None:
        train, params = self.sample(), {**self.params, "rounds": 20}
        for threads in (1, 2):
            first, second = (
                self.family.fit(train, params, seed=5, threads=threads, validation=held) for _ in range(2)
            )
            assert np.array_equal(first.margins(held.matrix), second.margins(held.matrix))

    def test_another_seed_gives_another_model(self, model: FittedModel, held: Sample) -> None:
        other = self.fit(self.sample(), seed=8)
        assert not np.array_equal(other.margins(held.matrix), model.margins(held.matrix))

    def test_with_one_thread_it_takes_no_other(self) -> None:
        """All CPU time is the calling thread's; measured in a process where no other thread works."""
        code = f"""
            import time
            import numpy as np
            from forewarn.learn.families import family
            from forewarn.learn.data.matrix import Matrix, Sample

            values = np.random.default_rng(0).normal(size=(4000, 8)).astype(np.float32)
            sample = Sample(Matrix(values, tuple("abcdefgh")), (values[:, 0] > 0) * 1.0, np.ones(4000))
            found = family({self.name!r})
            process, thread = time.process_time(), time.thread_time()
            model = found.fit(sample, {{"rounds": 30}}, seed=0, threads=1, validation=sample)
            model.margins(sample.matrix)
            model.contributions(sample.matrix)
            print(time.process_time() - process, time.thread_time() - thread)
        """
        process, thread = map(float, run(code).split())
        assert process - thread < 0.1 * process + 0.01


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def run(code: str) -> str:
    """Run code in a process of its own, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
