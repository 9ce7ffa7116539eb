"""Counts of the whole cluster that decay with time."""

from __future__ import annotations

import numpy as np

from forewarn.compiled import inner
from forewarn.features.kernel import layout as L
from forewarn.features.kernel.state import State


@inner
def faded(st: State, t: float) -> tuple[float, float, float]:
    """Return the share of counts left at t, for half-lives of ten minutes, an hour and a day."""
    passed = max(0.0, t - st.cluster[L.C_AT])
    return np.exp2(-passed / 600.0), np.exp2(-passed / 3600.0), np.exp2(-passed / 86400.0)


@inner
def advance(st: State, t: float) -> None:
    """Decay the counts up to t."""
    c = st.cluster
    if t <= c[L.C_AT]:
        return
    minutes, hour, day = faded(st, t)
    c[L.C_ENDS_10M] *= minutes
    c[L.C_FAILS_10M] *= minutes
    c[L.C_SUBMITS_10M] *= minutes
    c[L.C_ENDS_1H] *= hour
    c[L.C_FAILS_1H] *= hour
    c[L.C_ENDS_1D] *= day
    c[L.C_FAILS_1D] *= day
    c[L.C_AT] = t
