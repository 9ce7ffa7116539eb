"""Learning: from a history of jobs to a model that may serve."""

import os

# The learners' threads otherwise busy-wait for each other. On two cores with other load a fit with two
# threads then took five times as long (LightGBM, 75,000 rows: 15 s instead of 3 s). OpenMP reads this when
# the learners' libraries are loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
