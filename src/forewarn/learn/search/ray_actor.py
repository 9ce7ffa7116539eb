"""What a process of a search does: fit one choice after another, and judge each."""

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
from forewarn.learn.evaluation.metrics import ScoredPredictions, defined, surprise
from forewarn.learn.families.base import ModelFamily, probabilities
from forewarn.learn.search.trials import COMPLETED, FAILED, MILESTONES, STOPPED


class TrialActor(tune.Trainable):
    """A process that is used again and again: it loads its libraries and fetches the rows once."""

    def setup(self, config: dict[str, Any], **shared: Any) -> None:  # noqa: ARG002
        """Keep what all trials share."""
        self._families: Mapping[str, ModelFamily] = shared["families"]
        self._train: Sample = shared["train"]
        self._validation: Sample = shared["validation"]
        self._groups: NDArray[np.int64] | None = shared["groups"]

    def reset_config(self, new_config: dict[str, Any]) -> bool:  # noqa: ARG002
        """Nothing of a trial is left for the next one."""
        return True

    def step(self) -> dict[str, Any]:
        """One trial, from beginning to end."""
        began = time.perf_counter()
        choice = json.loads(self.config["choice"])
        try:
            outcome = fitted(
                self._families[choice["family"]],
                choice,
                dict(json.loads(self.config["bars"])),
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


def fitted(
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
    """Fit a choice and judge it, giving up where its loss is above what others had at that point."""
    features = tuple(choice["features"])
    train, validation = train.columns(features), validation.columns(features)
    params = choice["params"]
    # A forest has no learning rate: its vote is steady after some twenty trees.
    pace = params.get("learning_rate", params.get("eta", 0.1))
    curve: dict[int, float] = {}
    best, stopped = np.inf, False

    def on_round(rounds: int, loss: float) -> bool:
        nonlocal best, stopped
        best = min(best, loss)
        for at in MILESTONES:
            if at not in curve and rounds * pace >= at:
                curve[at] = best
                stopped = stopped or best > stop_above.get(at, np.inf)
        return stopped

    model = family.fit(train, params, seed=seed, threads=threads, validation=validation, on_round=on_round)
    judged = ScoredPredictions(validation.fails, probabilities(model.margins(validation.matrix)))
    loss = judged.log_loss(validation.weights)
    if not np.isfinite(loss):
        return {"status": FAILED, "error": "its predictions are not numbers"}
    return {
        "status": STOPPED if stopped else COMPLETED,
        "loss": loss,
        "roc_auc": defined(judged.roc_auc(validation.weights)),
        "pr_auc": defined(judged.pr_auc(validation.weights)),
        "rounds": int(model.rounds),
        "curve": list(curve.items()),
        "group_losses": []
        if groups is None
        else np.bincount(groups, validation.weights * surprise(judged.fails, judged.p)).round(9).tolist(),
    }
