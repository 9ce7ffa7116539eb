"""How long a job will run and what it will use: distributions, learnt from censored history.

A quantity is what is asked about (`quantities.py`): run time, memory, CPU efficiency, I/O rate. For each one
booster tells the hazard in bins of it (`hazard.py`), which makes a distribution for every job; a later block
in time sets its levels right (`levels.py`). `usage.py` keeps them together, `baselines.py` has what needs no
model, and `judging.py` sets the two side by side.
"""

from forewarn.learn.heads.usage.distributions import UsageForecast
from forewarn.learn.heads.usage.usage import Usage

__all__ = ["UsageForecast", "Usage"]
