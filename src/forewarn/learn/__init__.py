"""How does history become a model that may serve?"""

import os

# The learners' threads else spin while they wait for each other. On two cores that do other work besides, a
# fit with two threads took five times as long so (LightGBM, 75,000 rows: 15 s against 3 s). It is read when
# their libraries are loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
