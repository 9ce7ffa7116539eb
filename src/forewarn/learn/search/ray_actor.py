"""The worker process of a search: it fits one choice after another, and judges each."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ray import tune

from forewarn.errors import ForewarnError
from forewarn.learn.data.matrix import Sample
from forewarn.learn.evaluation.metrics import ScoredPredictions, finite_or_none, log_losses
from forewarn.learn.families.base import ModelFamily, probabilities
from forewarn.learn.search.trials import COMPLETED, FAILED, MILESTONES, STOPPED


class TrialActor(tune.Trainable):
    """A worker process that is reused for many trials: it loads the libraries and fetches the rows once."""

    def setup(self, config: dict[str, Any], **shared: Any) -> None:  # noqa: ARG002
        """Store what all trials share."""
        self._families: Mapping[str, ModelFamily] = shared["families"]
        self._train: Sample = shared["train"]
        self._validation: Sample = shared["validation"]
        self._groups: NDArray[np.int64] | None = shared["groups"]

    def reset_config(self, new_config: dict[str, Any]) -> bool:  # noqa: ARG002
        """Accept the next trial: nothing of the last one is left to reset."""
        return True

    def step(self) -> dict[str, Any]:
        """Run one trial from beginning to end."""
        began = time.perf_counter()
        choice = json.loads(self.config["choice"])
        try:
            outcome = fit_choice(
                self._families[choice["family"]],
                choice,
                dict(json.loads(self.config["stop_losses"])),
                self._train,
                self._validation,
                self._groups,
                seed=self.config["seed"],
                threads=self.config["threads"],
            )
        except ForewarnError as error:
            outcome = {"status": FAILED, "error": str(error)}
        except Exception as error:
            outcome = {"status": FAILED, "error": f"{type(error).__name__}: {error}"}
        outcome["seconds"] = time.perf_counter() - began
        return {"outcome": json.dumps(outcome), "done": True}


def fit_choice(
    family: ModelFamily,
    choice: Mapping[str, Any],
    stop_above: Mapping[int, float],
    train: Sample,
    validation: Sample,
    groups: NDArray[np.int64] | None = None,
    *,
    seed: int,
    threads: int,
) -> dict[str, Any]:
    """Fit a choice and judge it; stop at a milestone where its loss is above `stop_above`."""
    features = tuple(choice["features"])
    train, validation = train.columns(features), validation.columns(features)
    params = choice["params"]
    # A forest has no learning rate: its prediction is stable after about twenty trees.
    rate = params.get("learning_rate", params.get("eta", 0.1))
    curve: dict[int, float] = {}
    best, stopped = np.inf, False

    def on_round(rounds: int, loss: float) -> bool:
        nonlocal best, stopped
        best = min(best, loss)
        for milestone in MILESTONES:
            if milestone not in curve and rounds * rate >= milestone:
                curve[milestone] = best
                stopped = stopped or best > stop_above.get(milestone, np.inf)
        return stopped

    model = family.fit(train, params, seed=seed, threads=threads, validation=validation, on_round=on_round)
    judged = ScoredPredictions(validation.fails, probabilities(model.margins(validation.matrix)))
    loss = judged.log_loss(validation.weights)
    if not np.isfinite(loss):
        return {"status": FAILED, "error": "the model's predictions are not numbers"}
    return {
        "status": STOPPED if stopped else COMPLETED,
        "loss": loss,
        "roc_auc": finite_or_none(judged.roc_auc(validation.weights)),
        "pr_auc": finite_or_none(judged.pr_auc(validation.weights)),
        "rounds": int(model.rounds),
        "curve": list(curve.items()),
        "group_losses": []
        if groups is None
        else np.bincount(groups, validation.weights * log_losses(judged.fails, judged.p)).round(9).tolist(),
    }
