"""The cluster as a whole: counts that fade."""

from __future__ import annotations

from forewarn.features import layout as L
from forewarn.features.kernel.compiled import compiled
from forewarn.features.kernel.state import State


@compiled
def decayed(st: State, t: float, which: int) -> float:
    """A count of the cluster as it has decayed by t, without touching it."""
    half = 600.0
    if which == L.C_ENDS_1H or which == L.C_FAILS_1H:
        half = 3600.0
    elif which == L.C_ENDS_1D or which == L.C_FAILS_1D:
        half = 86400.0
    return st.cluster[which] * 0.5 ** (max(0.0, t - st.cluster[L.C_AT]) / half)


@compiled
def advance(st: State, t: float) -> None:
    """Let the counts fade up to t."""
    for which in range(L.C_ENDS_10M, L.C_SUBMITS_10M + 1):
        st.cluster[which] = decayed(st, t, which)
    st.cluster[L.C_AT] = max(t, st.cluster[L.C_AT])
