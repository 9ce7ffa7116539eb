"""Slurm's own commands as a scheduler, where there is no slurmrestd."""

from forewarn.sources.commands.scheduler import CommandScheduler

__all__ = ["CommandScheduler"]
