"""Checks of Slurm, the home, the models and the service, each finding with what to do."""

from forewarn.operate.doctor.examine import examine
from forewarn.operate.doctor.findings import DoctorFinding, Severity, overall_severity

__all__ = ["DoctorFinding", "Severity", "examine", "overall_severity"]
