"""Advice: what the user can change, found by search over what the cluster really has.

Only what there is evidence for: each change answers a way to fail that the job's own needs, as learnt from
history, make likely, and says how likely it is afterwards. Memory and time are only ever raised.
"""

from forewarn.assess.advice.needs import Needs
from forewarn.assess.advice.search import advise
from forewarn.assess.advice.situation import Situation

__all__ = ["Needs", "Situation", "advise"]
