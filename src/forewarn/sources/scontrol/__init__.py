"""The source of what `scontrol show job`, `show node` and `show partition` print."""

from forewarn.sources.scontrol.source import ScontrolSource

__all__ = ["ScontrolSource"]
