"""What is wrong with a batch script, before it is submitted: findings, and the script with changes made.

`findings(script, path, surroundings)` walks the rules, one small function each; `Here` is the machine that
the check runs on, and whatever else is a `Surroundings` can stand in for it. Nothing of the script is run.
"""

from __future__ import annotations

from forewarn.assess.script.diff import script_diff
from forewarn.assess.script.here import Here
from forewarn.assess.script.repair import repaired
from forewarn.assess.script.rules import findings
from forewarn.assess.script.surroundings import Surroundings
from forewarn.assess.script.testing import ask_sbatch

__all__ = ["Here", "Surroundings", "ask_sbatch", "findings", "repaired", "script_diff"]
