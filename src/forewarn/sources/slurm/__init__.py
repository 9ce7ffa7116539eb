"""What slurmrestd, sacct, scontrol and jobcomp share."""
