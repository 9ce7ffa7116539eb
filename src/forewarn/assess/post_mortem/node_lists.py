"""Node lists of records, which a source may have cut short."""

from __future__ import annotations

from forewarn.job.units import expand_nodes


def names(nodes: str | None) -> list[str]:
    """The nodes of a list; none where it cannot be read.

    >>> names("n[1-2]"), names("n["), names(None)
    (['n1', 'n2'], [], [])
    """
    try:
        return expand_nodes(nodes) if nodes else []
    except ValueError:
        return []
