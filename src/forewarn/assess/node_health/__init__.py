"""Node health: healthy, suspect or sick, by Slurm's node states and by the jobs that ran on a node."""
