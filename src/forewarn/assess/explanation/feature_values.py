"""Features as they are known of one job."""

from __future__ import annotations

import math
from collections.abc import Mapping

Features = Mapping[str, float]


def known(features: Features, name: str) -> float | None:
    """A feature's value, or None where it is missing."""
    value = features.get(name)
    return None if value is None or math.isnan(value) else float(value)


def first_known(features: Features, names: Mapping[str, str]) -> tuple[str, float] | None:
    """The first feature that is known, by the name that it goes under."""
    for name, column in names.items():
        value = known(features, column)
        if value is not None:
            return name, value
    return None
