"""The local machine: its files, programs, Python packages and sbatch. Nothing that a script names is run."""
