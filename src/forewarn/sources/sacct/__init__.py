"""The source of what `sacct` prints."""

from forewarn.sources.sacct.source import SacctSource

__all__ = ["SacctSource"]
