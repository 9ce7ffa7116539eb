"""Thresholds that operators set for models that serve, in place of those in the bundles.

HOME/models/serving/thresholds.json    what is in force, by model and partition

Whoever may read which models serve may read it, so that a command, the collector and the service judge a job
alike. Who set a value, when and why is in `people.db`, which only the owner reads (`operate/thresholds.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forewarn.errors import BundleError
from forewarn.files import write_file
from forewarn.learn.registry.manifest import json_text
from forewarn.learn.registry.serving import ModelName

FILE = "thresholds.json"
FORMAT = 1
PartitionThresholds = Mapping[str | None, float]  # None: all partitions that have none of their own


@dataclass(frozen=True, slots=True)
class OperatorThresholds:
    """The thresholds in force that operators have set, by model and partition."""

    of: Mapping[ModelName, PartitionThresholds] = field(default_factory=dict)

    @classmethod
    def read(cls, models: Path) -> OperatorThresholds:
        """Read the thresholds of a home; none where there is no file. `BundleError` for a damaged one."""
        path = _path(models)
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            if value["format"] != FORMAT:
                raise ValueError(value["format"])
            found: dict[ModelName, dict[str | None, float]] = {}
            for one in value["thresholds"]:
                found.setdefault(ModelName(*one["model"]), {})[one["partition"]] = _checked(one["value"])
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise BundleError(f"{path}: cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise BundleError(
                f"{path}: does not hold the thresholds; `forewarn thresholds repair` writes it again"
            ) from None
        return cls(found)

    def write(self, models: Path) -> None:
        """Replace the thresholds of a home; readers see the old file or the new one."""
        path = _path(models)
        path.parent.mkdir(parents=True, exist_ok=True)
        entries = [
            {
                "model": [model.cluster, model.phase, model.feature_set],
                "partition": partition,
                "value": value,
            }
            for model, partition, value in self
        ]
        write_file(path, json_text({"format": FORMAT, "thresholds": entries}), private=True)

    def __iter__(self) -> Iterator[tuple[ModelName, str | None, float]]:
        for model in sorted(self.of):
            for partition in sorted(self.of[model], key=lambda name: name or ""):
                yield model, partition, self.of[model][partition]


def threshold_of(partitions: str | None, set_values: PartitionThresholds, own: float) -> float:
    """Return the threshold of a job, by its partition, else by its model, else the bundle's `own`.

    A pending job that lists several partitions may start in any of them: the lowest threshold counts.

    >>> threshold_of("long,gpu", {"gpu": 0.2, None: 0.4}, 0.5), threshold_of("long", {"gpu": 0.2}, 0.5)
    (0.2, 0.5)
    """
    if not set_values:
        return own
    otherwise = set_values.get(None, own)
    return min(set_values.get(name, otherwise) for name in (partitions or "").split(","))


def _checked(value: Any) -> float:
    if isinstance(value, bool) or not 0 <= value <= 1:
        raise ValueError(value)
    return float(value)


def _path(models: Path) -> Path:
    return models / "serving" / FILE
