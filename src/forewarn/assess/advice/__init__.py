"""Advice: what the user can change, found by search over what the cluster really has.

Only what there is evidence for: each change answers a way to fail that is likely for this job, and the risk
before and after it are both stated by the path that states the risk of any job. Advice only ever raises
memory and time; what could be asked for less is a saving, told apart from it.
"""

from forewarn.assess.advice.changed_job import ChangedJob, changed
from forewarn.assess.advice.needs import JobNeeds
from forewarn.assess.advice.savings import savings
from forewarn.assess.advice.search import advise
from forewarn.assess.advice.situation import Situation

__all__ = ["ChangedJob", "JobNeeds", "Situation", "advise", "changed", "savings"]
