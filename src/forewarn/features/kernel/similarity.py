"""The distance of two jobs: what is compared, and how much each difference weighs.

The distance of two jobs is the sum of these, their similarity exp(-distance). The kernel compares a request
with the ring of its user's ended jobs, `assess/similar.py` with whole records of them: what both see weighs
the same in both, and a test holds them equal.
"""

from __future__ import annotations

# Sizes: for each power of two between them. Memory is of the whole job, with a byte more: 0 has no logarithm.
CPUS, TIME_LIMIT, MEMORY = 1.0, 1.0, 0.5
FAR = 2.0  # powers of two between a size and none
# Labels: where the two differ. The name is the program's, or the job's without run numbers.
NAME, FOLDER, QUEUE = 1.5, 0.5, 0.5  # a queue is a partition with a quality of service
# What the ring does not keep, so that only records are compared by it: a size, and a label known of both.
GPUS, SCRIPT = 1.0, 0.3
