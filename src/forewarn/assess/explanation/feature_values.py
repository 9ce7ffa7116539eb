"""Access to the features of one job, some of which may be missing."""

from __future__ import annotations

import math
from collections.abc import Mapping

Features = Mapping[str, float]


def feature_value(features: Features, name: str) -> float | None:
    """Return a feature's value, or None where it is missing."""
    value = features.get(name)
    return None if value is None or math.isnan(value) else float(value)


def first_value(features: Features, names: Mapping[str, str]) -> tuple[str, float] | None:
    """Return the name and value of the first feature that is not missing; `names` maps names to columns."""
    for name, column in names.items():
        value = feature_value(features, column)
        if value is not None:
            return name, value
    return None
