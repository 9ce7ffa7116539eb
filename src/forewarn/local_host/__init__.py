"""What this machine has: files, programs, Python packages, Slurm's commands. Nothing that a script names is run."""
