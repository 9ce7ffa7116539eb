"""A real Slurm on one Debian machine, to try Forewarn on and to test it against: `python -m lab up`."""
