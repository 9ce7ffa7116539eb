"""Usage: distributions of how long a job will run and what it will use, learnt from censored history.

A quantity is a number that is forecast (`quantities.py`): run time, memory, CPU efficiency, I/O rate. For
each one a booster predicts the hazard in bins (`hazard.py`), which gives a distribution for every job
(`distributions.py`); a later block of jobs recalibrates its probabilities (`recalibration.py`). `usage.py`
combines them, `baselines.py` has simple rules, and `evaluation.py` compares the two.
"""

from forewarn.learn.heads.usage.distributions import UsageForecast
from forewarn.learn.heads.usage.usage import Usage

__all__ = ["Usage", "UsageForecast"]
