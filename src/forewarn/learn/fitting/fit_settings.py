"""The settings of a fit, which are recorded with the model."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from forewarn.learn.data.split import SHARES
from forewarn.learn.families import FAMILIES

ALL_FAMILIES = (*FAMILIES, "online")


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSettings:
    """The settings of a fit."""

    feature_set: str = "generic"
    families: tuple[str, ...] = ALL_FAMILIES
    trials: int = 20
    method: str = "tpe"
    imbalance: str = "none"
    threshold: str = "f1"
    profile_features: bool = False
    shares: tuple[float, float, float, float] = SHARES  # of the blocks train, search, calibrate, test
    seed: int = 0
    deterministic: bool = False
    threads: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))  # cores of this process
    ray_address: str | None = None
