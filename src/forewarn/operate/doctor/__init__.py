"""What is wrong between us and Slurm, found step by step, each with what to do."""

from forewarn.operate.doctor.examine import examine
from forewarn.operate.doctor.findings import DoctorFinding, Severity, verdict

__all__ = ["DoctorFinding", "Severity", "examine", "verdict"]
