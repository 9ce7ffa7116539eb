"""The trials of a search under Ray Tune: which choice each worker gets, and where its result goes."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray import tune
from ray.tune.experiment import Trial as RayTrial
from ray.tune.search import Searcher

from forewarn.errors import LearningError
from forewarn.learn.data.matrix import Sample
from forewarn.learn.data.selection import Rankings
from forewarn.learn.families.base import ModelFamily
from forewarn.learn.search.ray_actor import TrialActor
from forewarn.learn.search.ray_cluster import ray_cluster
from forewarn.learn.search.search import SearchProgress, SearchSettings
from forewarn.learn.search.suggestions import Suggestions, stop_losses
from forewarn.learn.search.trials import COMPLETED, FAILED, Choice, Journal, Trial

LAG = 4  # with `deterministic`, a choice depends only on trials at least this many numbers before it
MEMORY_OF_A_FIT = 4  # times the rows: the chosen columns, the library's copy of them, and its work
WORTH_THREADS = 32 * 2**20  # bytes of rows above which several threads make a fit faster
PROGRESS_SECONDS = 0.5  # between two reports of progress
RETRIES = 1  # of a trial whose process was lost


def run(
    families: Mapping[str, ModelFamily],
    train: Sample,
    validation: Sample,
    groups: NDArray[np.int64] | None,
    rankings: Rankings,
    settings: SearchSettings,
    journal: Journal,
    progress: Callable[[SearchProgress], None],
) -> tuple[float, float]:
    """Run the trials that the journal lacks. Returns the seconds of Ray's start, and of the trials."""
    size = sum(s.matrix.values.nbytes + s.fails.nbytes + s.weights.nbytes for s in (train, validation))
    began = time.perf_counter()
    with ray_cluster(settings.ray_address, settings.threads, size) as folder:
        started = time.perf_counter()
        left = settings.trials - sum(number < settings.trials for number in journal.trials)
        at_once, threads = _concurrency(size, left, settings.deterministic)
        suggestions = Suggestions(families, rankings, settings.method, settings.metric, settings.seed)
        state = _SearchState(suggestions, settings, journal, progress)
        shared = {"families": families, "train": train, "validation": validation, "groups": groups}
        fit = {"seed": settings.seed, "threads": threads}
        with warnings.catch_warnings(), redirect_stdout(StringIO()):
            # Ray warns about its own future, and prints the deaths of its workers on stdout.
            warnings.simplefilter("ignore")
            # Not `Tuner`, which pickles itself and its data to disk.
            tune.run(
                tune.with_parameters(TrialActor, **shared),
                config=fit,
                resources_per_trial={"cpu": threads},
                search_alg=_Searcher(state),
                callbacks=[_Callback(state)],
                num_samples=left,
                max_concurrent_trials=at_once,
                reuse_actors=True,
                max_failures=RETRIES,
                raise_on_failed_trial=False,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                storage_path=str(folder / "tune"),
                trial_name_creator=_name,
                trial_dirname_creator=_name,
                verbose=0,
            )
        ended = time.perf_counter()
    if state.trouble:
        raise state.trouble
    if any(number not in journal.trials for number in range(settings.trials)):
        raise KeyboardInterrupt  # Tune caught it, to end its processes first
    return started - began, ended - started


def _concurrency(data_bytes: int, trials: int, deterministic: bool) -> tuple[int, int]:
    """Return how many trials run at once, and the threads of each: one if there are trials for all cores."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    cores = [int(node.get("CPU", 0)) for node in nodes]
    if not any(cores):
        raise LearningError("the Ray cluster has no CPUs to run trials on")
    room = [int(node.get("memory", 0) / (MEMORY_OF_A_FIT * data_bytes)) for node in nodes]
    at_once = min(sum(map(min, cores, [max(1, fits) for fits in room])), trials)
    if deterministic:
        return min(at_once, LAG), 1  # the number of threads changes the last digit of sums
    return at_once, max(1, min(sum(cores) // at_once, max(cores))) if data_bytes > WORTH_THREADS else 1


def _name(trial: RayTrial) -> str:
    return f"trial-{trial.trial_id}"


class _SearchState:
    """The state of a search: finished and running trials, and those still to run."""

    def __init__(
        self,
        suggestions: Suggestions,
        settings: SearchSettings,
        journal: Journal,
        progress: Callable[[SearchProgress], None],
    ) -> None:
        self.running: dict[str, Choice] = {}
        self.trouble: Exception | None = None  # the reason to start no further trial
        self._suggestions = suggestions
        self._settings = settings
        self._journal = journal
        self._progress = progress
        self._stdout = sys.stdout
        self._began = time.perf_counter()
        self._reported_at = 0.0
        self._open = [n for n in range(settings.trials) if n not in journal.trials]

    def next(self, trial_id: str) -> dict[str, Any] | None:
        """Return the configuration of the next trial, or None while it depends on trials that still run."""
        number = self._open[0]
        done = self._journal.trials
        if self._settings.deterministic:
            before = range(max(number - LAG + 1, 0))
            if any(earlier not in done for earlier in before):
                return None
            past = [done[earlier] for earlier in before]
        else:
            past = [done[number] for number in sorted(done)]
        choice = self._suggestions.choice(number, past)
        self._open.pop(0)
        self.running[trial_id] = choice
        return {
            "choice": json.dumps(asdict(choice)),
            "stop_losses": json.dumps([*stop_losses(choice.family, past).items()]),
        }

    def finish(self, trial_id: str, outcome: Mapping[str, Any]) -> None:
        """Record the outcome of a trial."""
        choice = self.running.pop(trial_id)
        try:
            self._journal.add(Trial.from_json({**asdict(choice), "curve": [], **outcome}))
            self.report_progress(always=True)
        except Exception as error:  # such as a full disk; Tune would hide it in a traceback of its own
            self.trouble = error

    def report_progress(self, *, always: bool = False) -> None:
        """Report the progress of the search; unless `always`, only if the last report is some time ago."""
        elapsed = time.perf_counter() - self._began
        if not always and elapsed - self._reported_at < PROGRESS_SECONDS:
            return
        self._reported_at = elapsed
        metric = self._settings.metric
        done = [t for t in self._journal.trials.values() if t.number < self._settings.trials]
        best = min((t for t in done if t.status == COMPLETED), key=lambda t: t.cost(metric), default=None)
        value = None if best is None else best.loss if metric == "log_loss" else best.pr_auc
        with redirect_stdout(self._stdout):
            self._progress(
                SearchProgress(len(done), self._settings.trials, len(self.running), value, elapsed)
            )


class _Searcher(Searcher):
    def __init__(self, state: _SearchState) -> None:
        super().__init__()
        self._state = state

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:  # type: ignore[override]
        return Searcher.FINISHED if self._state.trouble else self._state.next(trial_id)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        if not error and result:
            self._state.finish(trial_id, json.loads(result["outcome"]))


class _Callback(tune.Callback):
    def __init__(self, state: _SearchState) -> None:
        self._state = state

    def on_step_end(self, iteration: int, trials: list[RayTrial], **info: Any) -> None:  # noqa: ARG002
        self._state.report_progress()

    def on_trial_error(
        self,
        iteration: int,  # noqa: ARG002
        trials: list[RayTrial],  # noqa: ARG002
        trial: RayTrial,
        **info: Any,  # noqa: ARG002
    ) -> None:
        """Record a trial whose process was lost or could not start.

        An exception during a fit does not come here: the actor returns it as the trial's outcome.
        """
        text = Path(trial.error_file).read_text() if trial.error_file else ""
        if "creation task" in text:  # then no other process can start either
            self._state.trouble = LearningError(
                f"the processes of the search could not start: {_failure_reason(text)}. Each node of a Ray "
                "cluster needs the same forewarn[train] as this machine"
            )
        else:
            self._state.finish(trial.trial_id, {"status": FAILED, "error": _failure_reason(text)})


def _failure_reason(text: str) -> str:
    """Extract the reason from what Ray wrote about a lost trial.

    >>> _failure_reason("Failure # 1 (occurred at …)\\nray::train()\\nModuleNotFoundError: No module 'x'\\n")
    "ModuleNotFoundError: No module 'x'"
    """
    if "died unexpectedly" in text or not text.strip():
        return "its process was killed (by the system, out of memory?), or crashed"
    return text.strip().rpartition("\n")[2].strip()
