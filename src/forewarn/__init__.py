"""Forewarn tells, before an HPC job wastes its nodes, whether it will fail, why, and what to change."""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
