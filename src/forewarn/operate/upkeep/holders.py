"""Which programs use a home now, by the claims that they hold."""

from __future__ import annotations

from collections.abc import Sequence


def users_of_home(claims: Sequence[str]) -> str:
    """Name the program that holds the claims, and its clusters.

    >>> users_of_home(["collect alps", "notices", "state alps"]), users_of_home(["collect alps"])
    ('`forewarn serve` (cluster alps)', '`forewarn collect` or `forewarn serve` (cluster alps)')
    >>> users_of_home(["thresholds"])
    'a process'
    """
    clusters = sorted({name for kind, _, name in (claim.partition(" ") for claim in claims) if name})
    where = f" (cluster {', '.join(clusters)})" if clusters else ""
    if "notices" in claims:
        return f"`forewarn serve`{where}"
    return f"`forewarn collect` or `forewarn serve`{where}" if clusters else "a process"
