"""Slurm's own commands, where there is no slurmrestd."""

from forewarn.sources.commands.scheduler import CommandScheduler

__all__ = ["CommandScheduler"]
