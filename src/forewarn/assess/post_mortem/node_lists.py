"""Expand the node lists of records, which a source may have truncated."""

from __future__ import annotations

from forewarn.job.units import expand_nodes


def names(nodes: str | None) -> list[str]:
    """Return the nodes of a list; none where it cannot be parsed.

    >>> names("n[1-2]"), names("n["), names(None)
    (['n1', 'n2'], [], [])
    """
    try:
        return expand_nodes(nodes) if nodes else []
    except ValueError:
        return []
