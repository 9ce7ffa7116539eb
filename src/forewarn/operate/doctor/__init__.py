"""What is wrong between us and Slurm, found step by step, each with what to do."""

from forewarn.operate.doctor.examination import examine
from forewarn.operate.doctor.findings import Finding, Level, verdict

__all__ = ["Finding", "Level", "examine", "verdict"]
