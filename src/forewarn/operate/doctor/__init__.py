"""Checks of the connection between Forewarn and Slurm, each finding with what to do."""

from forewarn.operate.doctor.examine import examine
from forewarn.operate.doctor.findings import DoctorFinding, Severity, overall_severity

__all__ = ["DoctorFinding", "Severity", "examine", "overall_severity"]
