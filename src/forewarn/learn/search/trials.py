"""The trials of a search, and the journal from which an interrupted search resumes."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self, TextIO

from forewarn.errors import LearningError
from forewarn.files import open_no_link, writing

COMPLETED, STOPPED, FAILED = "completed", "stopped", "failed"
# Points of a fit at which losses are compared, in rounds × learning rate: a small rate needs more rounds.
MILESTONES = (2, 4, 8, 16, 32)
VERSION = 2  # of the journal's form


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The input of a trial: a family with its parameters, and the columns to fit on."""

    number: int
    family: str
    params: Mapping[str, Any]
    features: tuple[str, ...]
    features_by: str  # all, or the measure that chose them


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial(Choice):
    """A choice and its result on the validation rows. A failed trial has an error instead of measures."""

    status: str  # completed, stopped (earlier trials were better at that point), failed
    loss: float | None = None  # log loss
    roc_auc: float | None = None
    pr_auc: float | None = None
    rounds: int = 0  # of boosting, or trees: what a refit needs
    seconds: float = 0.0  # of the fit, without the wait for a core
    error: str = ""
    curve: Mapping[int, float] = field(default_factory=dict)  # the loss at milestones of the fit
    group_losses: tuple[float, ...] = ()  # the loss summed by user-week, to compare trials by

    def cost(self, metric: str) -> float:
        """Return the metric as a cost: less is better, and infinity is a trial without it."""
        value = self.loss if metric == "log_loss" else self.pr_auc and -self.pr_auc
        return float("inf") if value is None else value

    def to_json(self) -> dict[str, Any]:
        """Return the form that the journal and the report store."""
        return {
            **asdict(self),
            "features": list(self.features),
            "curve": list(self.curve.items()),
            "group_losses": list(self.group_losses),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read the form that the journal stores."""
        return cls(
            **{
                **value,
                "features": tuple(value["features"]),
                "curve": dict(value["curve"]),
                "group_losses": tuple(value.get("group_losses", ())),
            }
        )


class Journal:
    """Finished trials as lines of JSON, each on disk before the next is begun. Nothing is unpickled."""

    def __init__(self, file: TextIO, trials: dict[int, Trial]) -> None:
        self._file = file
        self.trials = trials

    def add(self, trial: Trial) -> None:
        """Store a finished trial."""
        self.trials[trial.number] = trial
        self._write(trial.to_json())

    def _write(self, line: Mapping[str, Any]) -> None:
        with writing(Path(self._file.name)):
            self._file.write(json.dumps(line, allow_nan=False) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    @classmethod
    @contextmanager
    def open(cls, path: Path, identity: Mapping[str, Any]) -> Iterator[Self]:
        """Open the journal of a search while the block runs; a journal of another search is overwritten.

        Raises `LearningError` if another process has it open.
        """
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = open(path, "a+", encoding="utf-8", errors="replace", opener=open_no_link)  # noqa: SIM115
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LearningError(
                    f"{path.parent}: another search is using this folder; wait until it has ended"
                ) from None
            head = {"version": VERSION, **identity}
            trials, valid_bytes = _read(file, head)
            file.truncate(valid_bytes)  # remove a line that a crash left half written
            journal = cls(file, trials)
            if not valid_bytes:
                journal._write(head)
            try:
                yield journal
            finally:
                if not journal.trials:  # nothing to resume from
                    path.unlink(missing_ok=True)
                    with suppress(OSError):
                        path.parent.rmdir()


def _read(file: TextIO, head: Mapping[str, Any]) -> tuple[dict[int, Trial], int]:
    """Read the trials of a journal that begins with this head; return also the number of its valid bytes."""
    file.seek(0)
    trials: dict[int, Trial] = {}
    valid_bytes = 0
    for place, line in enumerate(file):
        try:
            value = json.loads(line) if line.endswith("\n") else {}
            if place == 0 and value != head:
                break
            if place:
                trial = Trial.from_json(value)
                trials[trial.number] = trial
        except (ValueError, TypeError, KeyError):
            break
        valid_bytes += len(line.encode())
    return trials, valid_bytes
