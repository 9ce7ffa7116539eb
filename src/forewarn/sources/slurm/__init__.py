"""The parts that slurmrestd, sacct, scontrol and jobcomp share."""
